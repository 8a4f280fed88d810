#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for tests that record tasks in the background. A test has "set -e" and a
# directory for its files in ${dir}, and ends with finish.

# shellcheck disable=SC2154 # The test has dir and data.

err=0
# Tasks in the background that end with the test
pids=

cleanup() {
  stop_tasks
  # A test can have a cleanup of its own.
  ! declare -F test_cleanup > /dev/null || test_cleanup
  rm -rf "${dir}"
  trap - EXIT TERM INT
}

trap_cleanup() {
  echo "Unexpected signal or failure in ${FUNCNAME[1]}"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

finish() {
  cleanup
  exit ${err}
}

skip() {
  echo "Skip: $1"
  cleanup
  exit 2
}

fail() {
  echo "FAIL: $1"
  err=1
}

# Ends the test with a failure, if the rest cannot run without this step.
give_up() {
  fail "$1"
  finish
}

# wait_for SECONDS COMMAND: until the command succeeds
wait_for() {
  local end=$((SECONDS + $1))
  shift

  until "$@"
  do
    [ ${SECONDS} -lt ${end} ] || return 1
    sleep 0.1
  done
}

has_handler_of_alarm() {
  grep -q '^SigCgt:.*[2367abef]...$' "/proc/$1/status" 2> /dev/null
}

# start_loop [PREFIX...]: a task in leaf(), until stop_tasks. Its pid is in $!.
start_loop() {
  "$@" perf test -w leafloop 600 &
  pids="${pids} $!"
  # perf needs some time to start. It sets the handler just before the loop.
  wait_for 60 has_handler_of_alarm $! || give_up "the workload does not start"
}

stop_tasks() {
  [ -n "${pids}" ] || return 0
  # shellcheck disable=SC2086
  kill ${pids} 2> /dev/null || true
  # shellcheck disable=SC2086
  wait ${pids} 2> /dev/null || true
  pids=
}

has_files() {
  local files=("$2".*)

  [ -e "${files[0]}" ] && [ ${#files[@]} -ge "$1" ]
}

answers_ping() {
  echo ping >&"${control}"
  read -r -t 1 <&"${ack}"
}

# start_record COMMAND: perf records to ${data}, and begins a new file when it gets
# SIGUSR2.
start_record() {
  rm -f "${data}"* "${dir}/control" "${dir}/ack"
  mkfifo "${dir}/control" "${dir}/ack"
  exec {control}<> "${dir}/control" {ack}<> "${dir}/ack"
  "$@" --switch-output=signal -o "${data}" \
    --control="fifo:${dir}/control,${dir}/ack" 2> "${dir}/log" &
  perf_pid=$!
  pids="${pids} ${perf_pid}"
  # Signals that come before it records are ignored.
  if ! wait_for 60 answers_ping
  then
    cat "${dir}/log"
    give_up "$*: does not start"
  fi
}

# take_snapshots NR: makes NR files, at least a second apart, and a last file with the
# rest, which may be short. Their names are in ${dir}/files.
take_snapshots() {
  local i

  for i in $(seq "$1")
  do
    sleep 1
    kill -USR2 "${perf_pid}"
    if ! wait_for 30 has_files "${i}" "${data}"
    then
      cat "${dir}/log"
      fail "no snapshot after ${i} signals"
    fi
  done
  kill -INT "${perf_pid}"
  wait "${perf_pid}" || true
  exec {control}>&- {ack}>&-
  ls "${data}".* > "${dir}/files" 2> /dev/null || true
}
