#!/bin/bash
# perf top and perf trace with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

dir=$(mktemp -d /tmp/__perf_test.live_deferred.XXXXX)
# In percent of the events of perf trace
min_whole=90
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

# Samples that perf top may show without their user part on a busy machine
max_unmerged=20

has_whole_stack() {
  tr '\n' ' ' < "${dir}/top" |
    grep -Eq 'leaf.*parent.*leafloop.*main|main.*leafloop.*parent.*leaf'
}

# perf top shows whole stacks, and counts samples without their user part.
test_top() {
  local arg keys unmerged

  # perf top reads keys, and would exit at the end of its input.
  mkfifo "${dir}/keys"
  exec {keys}<> "${dir}/keys"

  for arg in fp,defer graph,fp,defer,caller,0.5
  do
    start_loop
    perf top --stdio -d 1 -e cpu-clock -F 199 --no-children --call-graph "${arg}" -p $! \
      <&"${keys}" > "${dir}/top" 2> "${dir}/log" &
    pids="${pids} $!"
    # How long it reads symbols depends on the machine.
    if ! wait_for 60 has_whole_stack
    then
      cat "${dir}/log"
      head -n 40 "${dir}/top"
      fail "top --call-graph ${arg}: no whole stack"
    fi
    # Some more samples
    sleep 2
    stop_tasks
    unmerged=$(sed -n 's,.*unmerged: [0-9]*/\([0-9]*\).*,\1,p' "${dir}/top" | tail -n 1)
    echo "top --call-graph ${arg}: unmerged: ${unmerged:=0}"
    if [ "${unmerged}" -gt "${max_unmerged}" ] ||
       { [ "${unmerged}" = 0 ] && grep -q '\[deferred\]' "${dir}/top"; }
    then
      cat "${dir}/log"
      head -n 40 "${dir}/top"
      fail "top --call-graph ${arg}: samples without their user part"
    fi
  done
}

test_top_options() {
  # The error message names the wrong argument.
  if perf top --stdio --call-graph fp,nonsense > "${dir}/log" 2>&1 ||
     ! grep -q 'nonsense' "${dir}/log"
  then
    cat "${dir}/log"
    fail "top: no reason for a bad --call-graph"
  fi
}

shows_symbols_of() {
  grep -q "%.*\[$1\] " "${dir}/top"
}

# Samples that are not shown do not keep others from being shown.
test_top_hides() {
  local option shown keys

  exec {keys}<> "${dir}/keys"
  for option in -U -K
  do
    shown=k
    [ "${option}" = -U ] || shown=.
    dd if=/dev/zero of=/dev/null bs=1 2> /dev/null &
    pids="${pids} $!"
    perf top --stdio -d 1 -e cpu-clock -F 199 "${option}" --call-graph fp,defer -p $! \
      <&"${keys}" > "${dir}/top" 2> "${dir}/log" &
    pids="${pids} $!"
    if ! wait_for 60 shows_symbols_of "${shown}" || grep -q 'failed to process' "${dir}/log"
    then
      cat "${dir}/log"
      head -n 40 "${dir}/top"
      fail "top ${option}: does not show the others"
    fi
    stop_tasks
  done
}

# Two loops on one CPU preempt each other.
test_trace() {
  local all own whole

  start_loop taskset -c 0
  start_loop taskset -c 0
  perf trace --no-syscalls -e sched:sched_switch --call-graph fp,defer -p $! \
    --max-events 60 -o "${dir}/switch" 2> "${dir}/log" || true
  stop_tasks

  all=$(grep -c 'sched_switch(' "${dir}/switch" || true)
  whole=$(grep -c '^ *main (' "${dir}/switch" || true)
  # The walk itself may sleep. These events need not have a whole stack.
  own=$(grep -c 'unwind_deferred_run ' "${dir}/switch" || true)
  echo "trace: ${all} events, ${own} of the walk, ${whole} stacks up to main"
  all=$((all - own))
  if [ "${all}" -lt 20 ] || [ $((whole * 100)) -lt $((all * min_whole)) ]
  then
    cat "${dir}/log"
    head -n 40 "${dir}/switch"
    fail "trace: not enough whole stacks"
  fi

  # Events are in time order, although some were held back.
  sed -n 's/^ *\([0-9]*\.[0-9]*\) .*sched_switch.*/\1/p' "${dir}/switch" > "${dir}/times"
  if ! [ -s "${dir}/times" ] || ! sort -n -c "${dir}/times" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "trace: not in the order of time"
  fi
}

is_tracing() {
  [ -s "${dir}/sleep" ]
}

# perf trace shows a system call after its return. Its record has arrived by then.
test_trace_syscalls() {
  # On one CPU: perf trace may read the ring buffer with the mappings last.
  perf trace -e write --call-graph fp,defer -o "${dir}/write" -- \
    taskset -c 0 dd if=/dev/zero of=/dev/null bs=1 count=200 2> "${dir}/log"
  # The caller of each write, too
  if [ "$(grep -c 'write(' "${dir}/write")" -lt 200 ] ||
     [ "$(grep -c '^ .* (/.*)$' "${dir}/write")" -lt 200 ] ||
     grep -q '\[deferred\]' "${dir}/write"
  then
    cat "${dir}/log"
    head -n 40 "${dir}/write"
    fail "trace: system calls without their user callchain"
  fi

  # perf trace does not wait for the record of a system call that does not return.
  perf trace --call-graph fp,defer -o "${dir}/sleep" -- sleep 20 2> "${dir}/log" &
  pids="${pids} $!"
  if ! wait_for 60 is_tracing || ! kill -0 $!
  then
    cat "${dir}/log"
    fail "trace: nothing is shown while a system call lasts"
  fi
  stop_tasks
}

callchain_deferred_supported
test_top_options
test_top
test_top_hides
if has libtraceevent && [ "$(id -u)" = 0 ]
then
  test_trace
  test_trace_syscalls
else
  echo "no libtraceevent, or not root: perf trace is not tested"
fi

finish
