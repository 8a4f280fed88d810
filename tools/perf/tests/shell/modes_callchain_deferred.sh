#!/bin/bash
# perf record in its modes, with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

dir=$(mktemp -d /tmp/__perf_test.modes_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

data="${dir}/perf.data"
cgroup=
record=(perf record -B -e cpu-clock -F 499 --call-graph "fp,defer")
workload=(perf test -w leafloop)

test_cleanup() {
  [ -z "${cgroup}" ] || rmdir "${cgroup}" || true
}

# record_whole WHAT COMMAND: records something, and there are whole stacks in it.
record_whole() {
  local what=$1
  shift

  if ! "$@" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "${what}: cannot record"
    return
  fi
  check_whole "${what}" "${data}"
}

test_attach() {
  local loop

  start_loop
  loop=$!
  record_whole "-p" "${record[@]}" -p "${loop}" -o "${data}" -- sleep 1
  record_whole "-p --per-thread" "${record[@]}" -p "${loop}" --per-thread -o "${data}" -- sleep 1
  stop_tasks
}

test_per_thread() {
  record_whole "--per-thread" "${record[@]}" --per-thread -o "${data}" -- "${workload[@]}"
}

test_switch_output() {
  local file

  start_loop
  start_record "${record[@]}" -p $!
  take_snapshots 2
  stop_tasks
  head -n 2 "${dir}/files" > "${dir}/whole"
  while read -r file
  do
    check_whole "--switch-output" "${file}"
  done < "${dir}/whole"
  rm -f "${data}".*
}

test_groups() {
  local record_events=(perf record -B -F 499 --call-graph "fp,defer" -o "${data}")

  record_whole "two events" "${record_events[@]}" -e cpu-clock -e task-clock -- "${workload[@]}"
  record_whole "group" "${record_events[@]}" -e '{cpu-clock,task-clock}' -- "${workload[@]}"
  record_whole "leader sampling" "${record_events[@]}" -e '{cpu-clock,page-faults}:S' \
    -- "${workload[@]}"

  # An event without a user callchain does not ask for deferral.
  record_whole "with an event of the kernel" "${record_events[@]}" -e cpu-clock:k -e task-clock \
    -- "${workload[@]}"
  perf evlist -v -i "${data}" | grep '^cpu-clock:k' > "${dir}/attr" || fail "no event :k"
  if grep -q 'defer_callchain' "${dir}/attr"
  then
    fail ":k asks for deferral"
  fi
}

test_system_wide() {
  record_whole "-a" "${record[@]}" -a -o "${data}" -- "${workload[@]}"
}

test_cgroup() {
  local root

  root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  if [ -z "${root}" ] || ! mkdir "${root}/perf_test_deferred.$$" 2> /dev/null
  then
    echo "no cgroup can be made, that part is not run"
    return
  fi
  cgroup=${root}/perf_test_deferred.$$
  if perf stat -a -e cpu-clock -G "perf_test_deferred.$$" true 2>&1 | grep -q 'not supported'
  then
    echo "no events of cgroups, that part is not run"
    return
  fi
  start_loop
  echo $! > "${cgroup}/cgroup.procs"
  record_whole "cgroup" "${record[@]}" -a -G "perf_test_deferred.$$" -o "${data}" -- sleep 1
  record_whole "--all-cgroups" "${record[@]}" -a --all-cgroups -o "${data}" -- sleep 1
  stop_tasks
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

# The stacks with which tasks went to sleep
test_off_cpu() {
  local all whole

  perf record -B -e sched:sched_switch --exclude-perf -a --call-graph fp,defer -o "${data}" \
    -- perf bench sched pipe -l 500 > "${dir}/log" 2>&1
  perf evlist -v -i "${data}" | grep -q 'defer_callchain: 1' ||
    fail "off-CPU: no event asks for deferral"
  perf script -i "${data}" --comm sched-pipe -F comm,ip,sym > "${dir}/script" 2> "${dir}/log"
  all=$(grep -c '^sched-pipe' "${dir}/script" || true)
  whole=$(grep -c ' main$' "${dir}/script" || true)
  echo "off-CPU: ${all} samples, ${whole} up to main"
  if [ "${all}" -lt 500 ] || [ $((whole * 100)) -lt $((all * 90)) ]
  then
    cat "${dir}/log"
    head -n 40 "${dir}/script"
    fail "off-CPU: stacks do not reach main"
  fi
}

callchain_deferred_supported
test_attach
test_per_thread
test_switch_output
test_groups
test_report_pipe
if [ "$(id -u)" = 0 ]
then
  test_system_wide
  test_cgroup
  if has libtraceevent
  then
    test_off_cpu
  else
    echo "no libtraceevent: tracepoints are not tested"
  fi
else
  echo "not root: what needs all CPUs is not tested"
fi

finish
