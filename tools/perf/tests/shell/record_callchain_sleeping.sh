#!/bin/bash
# perf record with deferred user callchains of tasks that sleep
# SPDX-License-Identifier: GPL-2.0

# shellcheck disable=SC2154 # start_record sets perf_pid, control and ack.

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.callchain_sleeping.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

data="${dir}/perf.data"
event="raw_syscalls:sys_enter"
# The number of read() on x86-64
read_nr=0
record=(perf record -a -B -e "${event}" --filter "id == ${read_nr}" --call-graph "fp,defer")

[ "$(uname -m)" = x86_64 ] || skip "the number of read() is that of x86-64"
if [ "$(id -u)" != 0 ] || ! perf list "${event}" 2> /dev/null | grep -q "${event}"
then
  skip "${event} cannot be recorded on all CPUs"
fi

# shellcheck disable=SC2317 # wait_for calls it.
in_read() {
  grep -q "^${read_nr} " "/proc/$1/syscall" 2> /dev/null
}

# start_sleeper: a task that sleeps in read(). Its pid is in ${sleeper}.
start_sleeper() {
  [ -e "${dir}/fifo" ] || mkfifo "${dir}/fifo"
  # It has a writer, so cat waits for it.
  exec 9<> "${dir}/fifo"
  cat "${dir}/fifo" &
  sleeper=$!
  pids="${pids} ${sleeper}"
  wait_for 60 in_read "${sleeper}" || give_up "cat does not sleep in read()"
  # It has certainly gone to sleep then.
  sleep 0.5
}

# check_sleeper WHAT FILE: the file has samples of the sleeper. Each has its user part.
check_sleeper() {
  local what=$1 file=$2 samples deferred

  if ! perf script -i "${file}" --tid "${sleeper}" -F comm,tid,ip,sym,dso > "${dir}/script" \
       2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "${what}: perf script"
  fi
  samples=$(grep -c "^cat" "${dir}/script" || true)
  deferred=$(grep -c '\[deferred\]' "${dir}/script" || true)
  echo "${what}: ${samples} samples of a task that sleeps, ${deferred} without user part"
  if [ "${samples}" = 0 ] || [ "${deferred}" != 0 ] ||
     ! tail -n 4 "${dir}/script" | grep -q '(/.*)$'
  then
    tail -n 20 "${dir}/script"
    fail "${what}: the user part of a task that sleeps is missing"
  fi
}

was_asked() {
  if ! perf evlist -v -i "$1" | grep -q 'defer_callchain: 1'
  then
    fail "the event does not ask for deferral"
  fi
}

# The samples are complete when the session ends.
test_end() {
  start_record "${record[@]}"
  start_sleeper
  kill -INT "${perf_pid}"
  wait "${perf_pid}" || true
  exec {control}>&- {ack}>&-
  ls "${data}".* > "${dir}/files"
  was_asked "$(head -n 1 "${dir}/files")"
  check_sleeper "end of the session" "$(head -n 1 "${dir}/files")"
  stop_tasks
}

# A snapshot is complete although the session goes on.
test_snapshot() {
  start_record "${record[@]}" "$@"
  start_sleeper
  take_snapshots 1
  check_sleeper "snapshot${1:+, $1}" "$(head -n 1 "${dir}/files")"
  stop_tasks
}

callchain_deferred_supported
test_end
test_snapshot
test_snapshot --overwrite

finish
