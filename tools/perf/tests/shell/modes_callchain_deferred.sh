#!/bin/bash
# perf record in its modes, with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

skip_test_missing_symbol leafloop

err=0
dir=$(mktemp -d /tmp/__perf_test.modes_deferred.XXXXX)
data="${dir}/perf.data"
cgroup=
loop=
record=(perf record -B -e cpu-clock -F 499 --call-graph "fp,defer")
workload=(perf test -w leafloop)

# In percent of deferred samples
min_merged=95

cleanup() {
  [ -z "${loop}" ] || kill "${loop}" 2> /dev/null || true
  wait 2> /dev/null || true
  [ -z "${cgroup}" ] || rmdir "${cgroup}" || true
  rm -rf "${dir}"
  trap - EXIT TERM INT
}

trap_cleanup() {
  echo "Unexpected signal or failure in ${FUNCNAME[1]}"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

fail() {
  echo "FAIL: $1"
  err=1
}

start_loop() {
  perf test -w leafloop 60 &
  loop=$!
  sleep 1
}

stop_loop() {
  kill "${loop}"
  wait "${loop}" 2> /dev/null || true
  loop=
}

stat_of() {
  awk -v name="$1" '$0 ~ "^ *" name " samples:" { n = $3 } END { print n + 0 }' "${dir}/stats"
}

# check WHAT FILE MIN: at least MIN samples were deferred, those were completed, and
# stacks go from leaf() to main(). Samples whose task was in the kernel at the end
# have no record.
check() {
  local what=$1 file=$2 min=$3 requested merged pending

  perf report -i "${file}" --stats > "${dir}/stats" 2> "${dir}/log"
  requested=$(stat_of requested)
  merged=$(stat_of merged)
  pending=$(awk '/pending at the end samples:/ { print $6 + 0 }' "${dir}/stats")
  echo "${what}: ${requested} samples deferred, ${merged} merged, ${pending} pending"
  if [ "${requested}" -lt "${min}" ] ||
     [ $(((merged + pending) * 100)) -lt $((requested * min_merged)) ] ||
     [ "${merged}" -lt "${pending}" ]
  then
    cat "${dir}/stats" "${dir}/log"
    fail "${what}: not enough samples merged"
  fi
}

check_whole() {
  check "$@"
  perf script -i "$2" -F ip,sym 2> /dev/null > "${dir}/script"
  if ! tr '\n' ' ' < "${dir}/script" |
       grep -q 'leaf *[0-9a-f]* parent *[0-9a-f]* leafloop .* main '
  then
    head -n 20 "${dir}/script"
    fail "$1: no whole stack"
  fi
}

test_attach() {
  start_loop
  "${record[@]}" -p "${loop}" -o "${data}" -- sleep 2 2> "${dir}/log"
  check_whole "-p" "${data}" 100
  "${record[@]}" -p "${loop}" --per-thread -o "${data}" -- sleep 2 2> "${dir}/log"
  check_whole "-p --per-thread" "${data}" 100
  stop_loop
}

test_per_thread() {
  "${record[@]}" --per-thread -o "${data}" -- "${workload[@]}" 2> "${dir}/log"
  check_whole "--per-thread" "${data}" 100
}

test_switch_output() {
  local file nr=0

  "${record[@]}" --switch-output=1s -o "${data}" -- perf test -w leafloop 4 2> "${dir}/log"
  for file in "${data}".*
  do
    # The last one is short.
    if [ "$(stat -c %s "${file}")" -lt 30000 ]
    then
      continue
    fi
    nr=$((nr + 1))
    check_whole "--switch-output" "${file}" 10
  done
  rm -f "${data}".*
  if [ "${nr}" -lt 2 ]
  then
    fail "--switch-output: ${nr} files"
  fi
}

test_groups() {
  "${record[@]}" -e task-clock -o "${data}" -- "${workload[@]}" 2> "${dir}/log"
  check_whole "two events" "${data}" 100
  perf record -B -F 499 --call-graph fp,defer -e '{cpu-clock,task-clock}' -o "${data}" \
    -- "${workload[@]}" 2> "${dir}/log"
  check_whole "group" "${data}" 100
  perf record -B -F 499 --call-graph fp,defer -e '{cpu-clock,page-faults}:S' -o "${data}" \
    -- "${workload[@]}" 2> "${dir}/log"
  check_whole "leader sampling" "${data}" 100
  # An event that has no user callchain asks for nothing.
  perf record -B -F 499 --call-graph fp,defer -e cpu-clock:k -e task-clock -o "${data}" \
    -- "${workload[@]}" 2> "${dir}/log"
  check_whole "with an event of the kernel" "${data}" 100
  if perf evlist -v -i "${data}" | grep '^cpu-clock:k' | grep -q 'defer_callchain'
  then
    fail ":k asks for deferral"
  fi
}

test_system_wide() {
  "${record[@]}" -a -o "${data}" -- "${workload[@]}" 2> "${dir}/log"
  check_whole "-a" "${data}" 100
  "${record[@]}" -a --exclude-perf -o "${data}" -- "${workload[@]}" 2> "${dir}/log"
  check_whole "-a --exclude-perf" "${data}" 100
}

test_cgroup() {
  local root

  root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  if [ -z "${root}" ] || ! mkdir "${root}/perf_test_deferred" 2> /dev/null
  then
    echo "no cgroup can be made, that part is not run"
    return
  fi
  cgroup=${root}/perf_test_deferred
  start_loop
  echo "${loop}" > "${cgroup}/cgroup.procs"
  "${record[@]}" -a -G perf_test_deferred -o "${data}" -- sleep 2 2> "${dir}/log"
  check_whole "cgroup" "${data}" 100
  "${record[@]}" -a --all-cgroups -o "${data}" -- sleep 2 2> "${dir}/log"
  check_whole "--all-cgroups" "${data}" 100
  stop_loop
}

test_report_pipe() {
  "${record[@]}" -o - -- "${workload[@]}" 2> "${dir}/log" |
    perf report -i - --stdio --no-children -g caller,0.5,callee -F overhead,sym \
      > "${dir}/report" 2> /dev/null
  if ! tr '\n' ' ' < "${dir}/report" | grep -q 'leaf.*parent.*leafloop.*main'
  then
    head -n 40 "${dir}/report"
    fail "record | report: no whole stack"
  fi
}

# Where tasks went to sleep, and what they did there
test_off_cpu() {
  perf record -B -e sched:sched_switch -a --call-graph fp,defer -o "${data}" \
    -- perf bench sched pipe -l 2000 > "${dir}/log" 2>&1
  check "off-CPU" "${data}" 1000
  perf script -i "${data}" --comm sched-pipe -F ip,sym > "${dir}/script" 2> /dev/null
  if [ "$(grep -c ' main$' "${dir}/script")" -lt 1000 ]
  then
    head -n 40 "${dir}/script"
    fail "off-CPU: stacks do not reach main"
  fi
}

# same_as_merged WHAT MIN COMMAND: FILE in the command stands for the data. The tool
# shows the same for it and for what perf inject has merged.
same_as_merged() {
  local what=$1 min=$2 file
  shift 2

  perf inject --merge-callchains -i "${data}" -o "${data}.merged" 2> "${dir}/log"
  for file in "${data}" "${data}.merged"
  do
    if ! "${@//FILE/${file}}" > "${file}.out" 2> "${dir}/log"
    then
      cat "${dir}/log"
      fail "${what}: $*"
    fi
    # Names of files, and what is marked as missing
    sed -i -e "s,${file},FILE,g" -e '/^ *0 \[deferred\]/d' -e 's/ <- \[deferred\]//' "${file}.out"
  done
  if [ "$(wc -l < "${data}.out")" -lt "${min}" ] ||
     ! cmp "${data}.out" "${data}.merged.out"
  then
    diff "${data}.out" "${data}.merged.out" | head -n 10
    fail "${what}: not the same as merged"
  fi
  echo "${what}: $(wc -l < "${data}.out") lines"
}

test_tracepoint_tools() {
  printf '[call-graph]\n\trecord-mode = fp,defer\n' > "${dir}/config"
  export PERF_CONFIG="${dir}/config"

  perf sched record -g -o "${data}" -- perf bench sched pipe -l 500 > "${dir}/log" 2>&1
  same_as_merged "sched timehist" 500 perf sched -i FILE timehist
  same_as_merged "sched latency" 5 perf sched -i FILE latency
  same_as_merged "script" 500 perf script -i FILE -F comm,tid,time,event,ip,sym

  if perf lock record -g -o "${data}" -- perf bench sched messaging -g 2 > "${dir}/log" 2>&1
  then
    same_as_merged "lock contention" 1 perf lock contention -i FILE
  else
    cat "${dir}/log"
    fail "lock record"
  fi

  if perf kwork -k sched record -g -o "${data}" -- perf bench sched pipe -l 500 > "${dir}/log" 2>&1
  then
    same_as_merged "kwork" 5 perf kwork -k sched report -i FILE
  else
    cat "${dir}/log"
    echo "perf kwork cannot record, that part is not run"
  fi

  perf timechart record -g -o "${data}" perf bench sched pipe -l 500 > "${dir}/log" 2>&1
  same_as_merged "timechart" 0 perf timechart -i FILE -o FILE.svg
  if ! [ -s "${data}.svg" ] || ! cmp "${data}.svg" "${data}.merged.svg"
  then
    fail "timechart: not the same as merged"
  fi

  perf trace record -g -o "${data}" -- perf bench sched pipe -l 200 > "${dir}/log" 2>&1 ||
    { cat "${dir}/log"; fail "trace record"; }
  same_as_merged "trace -i" 100 perf trace -i FILE

  unset PERF_CONFIG
}

callchain_deferred_supported "${dir}"
test_attach
test_per_thread
test_switch_output
test_groups
test_report_pipe
if [ "$(id -u)" = 0 ]
then
  test_system_wide
  test_cgroup
  if perf version --build-options | grep -q 'libtraceevent: \[ on'
  then
    test_off_cpu
    test_tracepoint_tools
  else
    echo "no libtraceevent: tracepoints are not tested"
  fi
else
  echo "not root: what needs all CPUs is not tested"
fi

cleanup
exit ${err}
