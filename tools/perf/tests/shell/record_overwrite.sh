#!/bin/bash
# perf record --overwrite with snapshots
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

dir=$(mktemp -d /tmp/__perf_test.overwrite.XXXXX)
# shellcheck source=lib/record_tasks.sh
. "${shelldir}"/lib/record_tasks.sh

# perf may be built without deferred user callchains.
deferred="${shelldir}"/lib/callchain_deferred.sh
if [ -e "${deferred}" ]
then
  # shellcheck source=lib/callchain_deferred.sh
  . "${deferred}"
fi

data="${dir}/perf.data"
# The buffers are small, so they are overwritten several times a second. perf writes the
# maps after the samples, so the samples need times (-T).
record=(perf record -B -T -e cpu-clock -F 2000 -m 4)

# Percentage of the deferred samples of a snapshot that must have a record
min_merged=90

# Skips the test if the kernel has no attr.overwrite. Later failures count.
check_support() {
  if ! perf record -v -e cpu-clock --overwrite -o "${data}" -- true > "${dir}/log" 2>&1
  then
    cat "${dir}/log"
    give_up "cannot record"
  fi

  if grep -q 'The kernel does not move data_tail' "${dir}/log"
  then
    grep -q 'write_backward: 1' <(perf evlist -v -i "${data}") ||
      give_up "no write_backward on a kernel without attr.overwrite"
    skip "the kernel has no attr.overwrite"
  fi
}

check_attr() {
  local what=$1 yes=$2 no=$3
  shift 3

  "$@" -B -o "${data}" -- true 2> "${dir}/log"
  perf evlist -v -i "${data}" > "${dir}/attr"
  if ! grep -q "[ {]${yes}: 1" "${dir}/attr" || grep -q "[ {]${no}: 1" "${dir}/attr"
  then
    cat "${dir}/attr"
    fail "${what} should use ${yes} and not ${no}"
  fi
}

test_options() {
  check_attr "--overwrite" overwrite write_backward perf record -e cpu-clock --overwrite
  check_attr "a term" overwrite write_backward perf record -e cpu-clock/overwrite/
  check_attr "--overwrite=backward" write_backward overwrite \
    perf record -e cpu-clock --overwrite=backward
  check_attr "--overwrite --stat" write_backward overwrite \
    perf record -e cpu-clock --overwrite --stat
  check_attr "no overwrite" sample_id_all '[a-z_]*\(overwrite\|backward\)' \
    perf record -e cpu-clock

  if perf record -e cpu-clock --overwrite=forward -o "${data}" -- true 2> "${dir}/log" ||
     ! grep -q -- "--overwrite takes 'backward' or nothing" "${dir}/log"
  then
    fail "--overwrite accepts an invalid value"
  fi
}

# Times of the samples of a file, in the order of the file
sample_times() {
  local header='^\(-1 \|[0-9]* \)\?\([0-9]*\) 0x\([0-9a-f]*\) \[0x[0-9a-f]*\]'

  perf script -D -i "$1" 2> /dev/null |
    sed -n "s/${header}: PERF_RECORD_SAMPLE.*/\3 \2/p" |
    while read -r offset time
    do
      printf '%d %s\n' "0x${offset}" "${time}"
    done | sort -n | cut -d' ' -f2
}

# overwrite ARGUMENTS: starts to record in this way.
overwrite() {
  start_record "${record[@]}" "$@"
}

test_snapshots() {
  local file last=0 first nr

  start_loop
  overwrite --overwrite --per-thread -p $!
  take_snapshots 2
  stop_tasks
  while read -r file
  do
    sample_times "${file}" > "${dir}/times"
    nr=$(wc -l < "${dir}/times")
    echo "snapshot of ${nr} samples"
    # The last snapshot, which perf writes at the end, may be small.
    if [ "${nr}" -lt 10 ] && [ "${file}" != "$(tail -n 1 "${dir}/files")" ]
    then
      cat "${dir}/log"
      fail "a snapshot of ${nr} samples"
    fi
    [ "${nr}" != 0 ] || continue
    sort -n -c "${dir}/times" || fail "a snapshot is not in time order"
    first=$(head -n 1 "${dir}/times")
    if [ "${first}" -le "${last}" ]
    then
      fail "two snapshots have the same samples"
    fi
    last=$(tail -n 1 "${dir}/times")
    perf report --stats -i "${file}" > "${dir}/stats" 2> /dev/null || fail "no statistics"
    if grep -q 'LOST' "${dir}/stats"
    then
      cat "${dir}/stats"
      fail "samples were lost around a snapshot"
    fi
  done < "${dir}/files"
}

# write_backward still works; its files have the newest sample first.
test_backward() {
  local file

  start_loop
  overwrite --overwrite=backward --per-thread -p $!
  take_snapshots 1
  stop_tasks
  file=$(head -n 1 "${dir}/files")
  sample_times "${file}" > "${dir}/times"
  if [ "$(wc -l < "${dir}/times")" -lt 10 ] || ! sort -n -r -c "${dir}/times"
  then
    head "${dir}/times"
    fail "--overwrite=backward does not write backward"
  fi
}

# Samples without their record are shown with [deferred], not with an address, and are
# counted.
check_deferred() {
  local what=$1 file=$2 requested merged missing

  perf report --stats -i "${file}" > "${dir}/stats" 2> /dev/null
  requested=$(stat_of "${dir}/stats" requested)
  merged=$(stat_of "${dir}/stats" merged)
  missing=$((requested - merged))
  echo "${what}: ${requested} samples deferred, ${merged} merged"
  if [ "${requested}" -lt 10 ] || [ $((merged * 100)) -lt $((requested * min_merged)) ]
  then
    cat "${dir}/stats"
    fail "${what}: too few samples merged"
  fi
  if [ $(($(stat_of "${dir}/stats" "pending at the end") +
          $(stat_of "${dir}/stats" unmatched))) != "${missing}" ]
  then
    cat "${dir}/stats"
    fail "${what}: samples without their record are not counted"
  fi
  check_whole "${what}" "${file}"
  if [ "$(grep -c ' \[deferred\]$' "${dir}/script" || true)" != "${missing}" ]
  then
    head -n 40 "${dir}/script"
    fail "${what}: samples without their record are not shown as such"
  fi
}

test_deferred() {
  start_loop
  overwrite --overwrite --call-graph fp,defer --per-thread -p $!
  take_snapshots 2
  stop_tasks
  check_deferred "deferred in a snapshot" "$(sed -n 2p "${dir}/files")"
}

# A task goes to sleep in a system call on one CPU, and its record comes on another one,
# where a busy task overwrites it.
test_record_overwritten() {
  local busy sleeper file

  if [ "$(nproc)" -lt 2 ]
  then
    echo "there is only one CPU: the test of an overwritten record is not run"
    return
  fi
  if ! perf list tracepoint 2> /dev/null | grep -q raw_syscalls:sys_enter
  then
    echo "no tracepoints of system calls: the test of an overwritten record is not run"
    return
  fi

  start_loop taskset -c 1
  busy=$!
  mkfifo "${dir}/never"
  # shellcheck disable=SC2016
  taskset -c 0 bash -c 'exec 3<> "$1"; while :; do read -r -t 0.5 -u 3; done' \
    bash "${dir}/never" &
  sleeper=$!
  pids="${pids} ${sleeper}"
  # perf may hand the kernel rules for the code of bash. With those the stack is taken as soon
  # as the task goes to sleep, and its record comes on the first CPU.
  printf '[record]\n\tunwind-tables = no\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" \
    overwrite --overwrite --call-graph fp,defer -e context-switches/period=1/ \
    -e raw_syscalls:sys_enter -p "${busy},${sleeper}"
  sleep 2
  taskset -p -c 1 "${sleeper}" > /dev/null
  sleep 2
  take_snapshots 1
  stop_tasks

  file=$(head -n 1 "${dir}/files")
  check_deferred "a record overwritten" "${file}"
  perf script -i "${file}" --tid "${sleeper}" -F comm,ip,sym > "${dir}/script" 2> /dev/null
  if ! grep -q ' \[deferred\]$' "${dir}/script"
  then
    cat "${dir}/stats" "${dir}/script"
    fail "the sample with the record that was overwritten is not shown"
  fi
}

has_leaf() {
  grep -q '[0-9]%.*leaf' "${dir}/top"
}

test_top() {
  local keys

  # perf top reads keys, and would exit at the end of its input.
  mkfifo "${dir}/keys"
  exec {keys}<> "${dir}/keys"
  start_loop
  perf top --stdio --overwrite -e cpu-clock -d 1 -p $! <&"${keys}" > "${dir}/top" 2>&1 &
  pids="${pids} $!"
  if ! wait_for 60 has_leaf
  then
    tail -n 20 "${dir}/top"
    fail "perf top --overwrite shows nothing"
  fi
  stop_tasks
}

check_support
test_options
test_snapshots
test_backward
if [ -e "${deferred}" ] &&
   [ "$(cat /proc/sys/kernel/unwind_user_deferred 2> /dev/null)" = 1 ]
then
  test_deferred
  test_record_overwritten
else
  echo "no deferred user callchains: their test is not run"
fi
test_top

finish
