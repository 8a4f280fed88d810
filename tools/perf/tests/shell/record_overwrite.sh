#!/bin/bash
# perf record --overwrite with snapshots
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

err=0
dir=$(mktemp -d /tmp/__perf_test.overwrite.XXXXX)
data="${dir}/perf.data"
# One buffer, which is overwritten several times in a second.
record=(perf record -B -e cpu-clock -F 2000 -m 4 --per-thread)
workload_pid=

# In percent of the deferred samples of a snapshot that must find their record
min_merged=90

cleanup() {
  [ -z "${workload_pid}" ] || kill "${workload_pid}" 2> /dev/null || true
  rm -rf "${dir}"
  trap - EXIT TERM INT
}

trap_cleanup() {
  echo "Unexpected signal or failure in ${FUNCNAME[1]}"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

skip() {
  echo "Skip: $1"
  cleanup
  exit 2
}

fail() {
  echo "FAIL: $1"
  err=1
}

# May anything be expected here? From here on a failure is a failure.
check_support() {
  if ! perf record -v -e cpu-clock --overwrite -o "${data}" -- true > "${dir}/log" 2>&1
  then
    cat "${dir}/log"
    fail "cannot record"
    return
  fi

  if grep -q 'The kernel does not move data_tail' "${dir}/log"
  then
    grep -q 'write_backward: 1' <(perf evlist -v -i "${data}") ||
      fail "no write_backward where the kernel lacks the better way"
    [ ${err} = 1 ] || skip "the kernel has no attr.overwrite"
  fi
}

check_attr() {
  local what=$1 yes=$2 no=$3
  shift 3

  "$@" -o "${data}" -- true 2> "${dir}/log"
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

  if perf record -e cpu-clock --overwrite=forward -o "${data}" -- true 2> "${dir}/log"
  then
    fail "--overwrite takes anything"
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

# Records a running task, with a snapshot each time that perf gets SIGUSR2.
take_snapshots() {
  local nr=$1 perf_pid
  shift

  rm -f "${data}"*
  perf test -w leafloop 60 &
  workload_pid=$!
  "${record[@]}" "$@" --switch-output=signal -p "${workload_pid}" -o "${data}" \
    2> "${dir}/log" &
  perf_pid=$!
  # perf takes no notice of signals before it has started.
  sleep 4
  for _ in $(seq "${nr}")
  do
    kill -USR2 "${perf_pid}"
    sleep 1.5
  done
  kill -INT "${perf_pid}"
  wait "${perf_pid}" || true
  kill "${workload_pid}" || true
  wait "${workload_pid}" 2> /dev/null || true
  workload_pid=
  ls "${data}".* > "${dir}/files" 2> /dev/null || true
  if [ "$(wc -l < "${dir}/files")" -lt "${nr}" ]
  then
    cat "${dir}/log"
    fail "$* has written $(wc -l < "${dir}/files") files after ${nr} signals"
  fi
}

test_snapshots() {
  local file last=0 first nr

  take_snapshots 3 --overwrite
  while read -r file
  do
    sample_times "${file}" > "${dir}/times"
    nr=$(wc -l < "${dir}/times")
    echo "snapshot of ${nr} samples"
    # What is written after the end may be little, it is the last one.
    if [ "${nr}" -lt 50 ] && [ "${file}" != "$(tail -n 1 "${dir}/files")" ]
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
    if perf report --stats -i "${file}" 2> /dev/null | grep -q 'LOST'
    then
      perf report --stats -i "${file}"
      fail "samples were lost around a snapshot"
    fi
  done < "${dir}/files"
}

# The old way still works; its files are the other way round.
test_backward() {
  local file

  take_snapshots 1 --overwrite=backward
  file=$(head -n 1 "${dir}/files")
  sample_times "${file}" > "${dir}/times"
  if [ "$(wc -l < "${dir}/times")" -lt 50 ] || ! sort -n -r -c "${dir}/times"
  then
    head "${dir}/times"
    fail "--overwrite=backward does not write backward"
  fi
}

stat_of() {
  awk -v name="$2" '$0 ~ "^ *" name " (events|samples):" {
    sub("^ *" name " (events|samples): *", ""); n = $1
  }
  END { print n + 0 }' "$1"
}

test_deferred() {
  local file requested merged

  if [ "$(cat /proc/sys/kernel/unwind_user_deferred 2> /dev/null)" != 1 ]
  then
    echo "no deferred user callchains here, that part is not run"
    return
  fi
  take_snapshots 2 --overwrite --call-graph fp,defer
  file=$(sed -n 2p "${dir}/files")
  perf report --stats -i "${file}" > "${dir}/stats" 2> /dev/null
  requested=$(stat_of "${dir}/stats" requested)
  merged=$(stat_of "${dir}/stats" merged)
  echo "deferred in a snapshot: ${requested} samples, ${merged} merged"
  if [ "${requested}" -lt 20 ] || [ $((merged * 100)) -lt $((requested * min_merged)) ]
  then
    cat "${dir}/stats"
    fail "a snapshot is not stitched"
  fi
  # Those whose record is not there are shown as such, not as an address.
  perf script -i "${file}" -F ip,sym > "${dir}/script" 2> /dev/null
  if [ "$(grep -c '\[deferred\]' "${dir}/script" || true)" != $((requested - merged)) ]
  then
    fail "samples without their record are not shown as such"
  fi
  if ! tr '\n' ' ' < "${dir}/script" | grep -q 'leaf .*parent .*leafloop .*main'
  then
    head -n 40 "${dir}/script"
    fail "no whole stack in a snapshot"
  fi
}

test_top() {
  perf test -w leafloop 60 &
  workload_pid=$!
  # It reads keys and goes on without one.
  sleep 12 |
    timeout -s INT 10 perf top --stdio --overwrite -e cpu-clock -d 1 -p "${workload_pid}" \
      > "${dir}/top" 2>&1 || true
  kill "${workload_pid}" || true
  wait "${workload_pid}" 2> /dev/null || true
  workload_pid=
  if ! grep -q '[0-9]%.*leaf' "${dir}/top"
  then
    tail -n 20 "${dir}/top"
    fail "perf top --overwrite shows nothing"
  fi
}

check_support
if [ ${err} = 0 ]
then
  test_options
  test_snapshots
  test_backward
  test_deferred
  test_top
fi

cleanup
exit ${err}
