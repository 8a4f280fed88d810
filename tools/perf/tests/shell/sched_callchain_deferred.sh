#!/bin/bash
# perf tools that record tracepoints, with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.sched_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

data="${dir}/perf.data"
switches=(perf bench sched pipe -l 200)
# How many samples of the last recording lack their user part
missing=0

# record WHAT COMMAND: records, and merges what was recorded.
record() {
  local what=$1
  shift

  missing=0
  rm -f "${data}"*
  if ! "$@" > "${dir}/log" 2>&1 ||
     ! perf inject --merge-callchains -i "${data}" -o "${data}.merged" >> "${dir}/log" 2>&1
  then
    cat "${dir}/log"
    give_up "${what}: cannot record"
  fi
}

# record_deferred WHAT COMMAND: the same, for a tool that takes the kind of callchain
# from the configuration.
record_deferred() {
  record "$@"
  if ! perf evlist -v -i "${data}" | grep -q 'defer_callchain: 1'
  then
    fail "$1: nothing is deferred"
  fi
  count_missing "$1"
}

# count_missing WHAT: counts samples without their user part, such as those of tasks
# that sleep at the end. The comparison below hides them, so most samples must have it.
count_missing() {
  local requested merged

  perf report --stats -i "${data}" > "${dir}/stats" 2> /dev/null
  requested=$(stat_of "${dir}/stats" requested)
  merged=$(stat_of "${dir}/stats" merged)
  missing=$((requested - merged))
  echo "$1: ${missing} of ${requested} samples lack their user part"
  if [ "${merged}" -eq 0 ] || [ $((missing * 2)) -gt "${requested}" ]
  then
    cat "${dir}/stats"
    fail "$1: most samples lack their user part"
  fi
}

# same_as_merged WHAT MIN COMMAND: FILE in the command stands for the data. The tool
# shows MIN lines at least, and the same for what perf inject has merged.
same_as_merged() {
  local what=$1 min=$2 file hidden
  shift 2

  for file in "${data}" "${data}.merged"
  do
    if ! "${@//FILE/${file}}" > "${file}.out" 2> "${dir}/log"
    then
      cat "${dir}/log"
      fail "${what}: $*"
    fi
    hidden=$(grep -c '\[deferred\]' "${file}.out" || true)
    if [ "${hidden}" -gt "${missing}" ]
    then
      fail "${what}: ${hidden} samples of ${file} lack their user part, not ${missing}"
    fi
    # Remove names of files, [deferred] entries, and percentages of all events, which
    # include the records of deferred callchains.
    sed -i -e "s,${file},FILE,g" -e '/^[[:space:]]*0 \[deferred\]/d' -e 's/ <- \[deferred\]//' \
        -e '/^ *INFO: .*% lost events/d' "${file}.out"
  done
  if [ "$(wc -l < "${data}.out")" -lt "${min}" ] ||
     ! cmp "${data}.out" "${data}.merged.out"
  then
    diff "${data}.out" "${data}.merged.out" | head -n 10
    fail "${what}: not the same as merged"
  fi
  echo "${what}: $(wc -l < "${data}.out") lines"
}

test_sched() {
  record_deferred "sched" perf sched record -g -o "${data}" -- "${switches[@]}"
  same_as_merged "sched timehist" 200 perf sched -i FILE timehist
  same_as_merged "sched latency" 5 perf sched -i FILE latency
  same_as_merged "script" 200 perf script -i FILE -F comm,tid,time,event,ip,sym
}

test_lock() {
  # perf lock always asks for frame pointers and a few entries.
  record "lock" perf lock record -g -o "${data}" -- perf bench sched messaging -p -g 4
  same_as_merged "lock contention" 3 bash -c "perf lock contention -i FILE 2>&1"
}

test_kwork() {
  record_deferred "kwork" perf kwork -k sched record -g -o "${data}" -- "${switches[@]}"
  same_as_merged "kwork" 5 perf kwork -k sched report -i FILE
}

test_timechart() {
  # It has no option for the file.
  cd "${dir}"
  record_deferred "timechart" perf timechart record -g "${switches[@]}"
  cd - > /dev/null
  same_as_merged "timechart" 0 perf timechart -i FILE -o FILE.svg
  if ! [ -s "${data}.svg" ] || ! cmp "${data}.svg" "${data}.merged.svg"
  then
    fail "timechart: not the same as merged"
  fi
}

test_trace() {
  record_deferred "trace" perf trace record -g -o "${data}" -- perf bench sched pipe -l 50
  same_as_merged "trace -i" 100 bash -c "perf trace -i FILE 2>&1"
}

[ "$(id -u)" = 0 ] || skip "not root"
has libtraceevent || skip "perf is built without libtraceevent"
callchain_deferred_supported
printf '[call-graph]\n\trecord-mode = fp,defer\n' > "${dir}/config"
export PERF_CONFIG="${dir}/config"
test_sched
test_lock
test_kwork
test_timechart
test_trace

finish
