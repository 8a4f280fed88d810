#!/bin/bash
# perf top and perf trace with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

skip_test_missing_symbol leafloop

err=0
dir=$(mktemp -d /tmp/__perf_test.callchain_live.XXXXX)
loops=

cleanup() {
  # shellcheck disable=SC2086
  [ -z "${loops}" ] || kill ${loops} 2> /dev/null || true
  wait 2> /dev/null || true
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
  "$@" perf test -w leafloop 60 &
  loops="${loops} $!"
}

stop_loops() {
  # shellcheck disable=SC2086
  kill ${loops}
  # shellcheck disable=SC2086
  wait ${loops} 2> /dev/null || true
  loops=
}

has_whole_stack() {
  tr '\n' ' ' < "${dir}/top" |
    grep -Eq 'leaf.*parent.*leafloop.*main|main.*leafloop.*parent.*leaf'
}

# Whole stacks, and no sample that did not get its user part
test_top() {
  local arg unmerged top

  for arg in fp,defer fp,defer,caller graph,fp,defer,0.5
  do
    start_loop
    # It reads keys, and ends at the end of its input.
    sleep 60 | perf top --stdio -d 2 -e cpu-clock -F 199 --no-children --call-graph "${arg}" \
        -p "${loops# }" > "${dir}/top" 2> "${dir}/log" &
    top=$!
    # How long it reads symbols depends on the machine.
    for _ in $(seq 60)
    do
      sleep 1
      has_whole_stack && break
    done
    # Some more samples
    sleep 4
    kill -INT ${top}
    wait ${top} 2> /dev/null || true
    stop_loops
    if ! has_whole_stack
    then
      cat "${dir}/log"
      head -n 40 "${dir}/top"
      fail "top --call-graph ${arg}: no whole stack"
    fi
    unmerged=$(grep -o 'unmerged: [0-9]*/[0-9]*' "${dir}/top" | tail -n 1)
    echo "top --call-graph ${arg}: ${unmerged:-unmerged: 0}"
    if grep -q '\[deferred\]' "${dir}/top"
    then
      fail "top --call-graph ${arg}: samples without their user part"
    fi
  done
}

test_top_options() {
  # What is wrong is named.
  if perf top --stdio --call-graph fp,nonsense > "${dir}/log" 2>&1 ||
     ! grep -q 'nonsense' "${dir}/log"
  then
    cat "${dir}/log"
    fail "top: no reason for a bad --call-graph"
  fi
}

# A loop that is interrupted by another one, and stacks of its page faults
test_trace() {
  start_loop taskset -c 0
  taskset -c 0 perf trace --no-syscalls -e sched:sched_switch --call-graph fp,defer \
    --max-events 200 -o "${dir}/switch" -- perf test -w leafloop 2 2> "${dir}/log" || true
  stop_loops
  check_trace_stacks switch 'sched_switch'

  # In the order of time, whatever was held back
  sed -n 's/^ *\([0-9]*\.[0-9]*\) .*sched_switch.*/\1/p' "${dir}/switch" > "${dir}/times"
  if ! sort -n -c "${dir}/times" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "trace: not in the order of time"
  fi
}

check_trace_stacks() {
  local what=$1 event=$2 all own whole

  all=$(grep -c "${event}" "${dir}/${what}" || true)
  whole=$(grep -c 'main (.*perf)' "${dir}/${what}" || true)
  # The walk itself sleeps to read unwind tables, and cannot ask meanwhile.
  own=$(grep -c 'unwind_deferred_run ' "${dir}/${what}" || true)
  echo "trace ${what}: ${all} events, ${own} of the walk, ${whole} stacks up to main"
  all=$((all - own))
  if [ "${all}" -lt 10 ] || [ $((whole * 100)) -lt $((all * 50)) ]
  then
    cat "${dir}/log"
    head -n 40 "${dir}/${what}"
    fail "trace ${what}: not enough whole stacks"
  fi
}

# System calls are shown when they have returned, and their record is there then.
test_trace_syscalls() {
  perf trace -e write --call-graph fp,defer -o "${dir}/write" -- \
    dd if=/dev/zero of=/dev/null bs=1 count=200 2> "${dir}/log"
  if [ "$(grep -c 'write(' "${dir}/write")" -lt 200 ] || grep -q '\[deferred\]' "${dir}/write"
  then
    cat "${dir}/log"
    head -n 40 "${dir}/write"
    fail "trace: system calls without their user callchain"
  fi

  # Nobody waits for the record of a system call that does not return.
  perf trace --call-graph fp,defer -o "${dir}/sleep" -- sleep 3 2> "${dir}/log" &
  sleep 2
  if ! [ -s "${dir}/sleep" ]
  then
    fail "trace: nothing is shown while a system call lasts"
  fi
  wait $!
}

callchain_deferred_supported "${dir}"
test_top_options
test_top
if perf version --build-options | grep -q 'libtraceevent: \[ on' && [ "$(id -u)" = 0 ]
then
  test_trace
  test_trace_syscalls
else
  echo "no libtraceevent, or not root: perf trace is not tested"
fi

cleanup
exit ${err}
