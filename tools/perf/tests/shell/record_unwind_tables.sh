#!/bin/bash
# perf record hands the kernel unwind tables
# SPDX-License-Identifier: GPL-2.0

set -e

dir=$(mktemp -d /tmp/__perf_test.unwind_tables.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "$(dirname "$0")"/lib/callchain_deferred.sh

data="${dir}/perf.data"
record=(perf --buildid-dir "${dir}/cache" record -v -B -e cpu-clock:u -F 499
        --call-graph "fp,defer" -o "${data}")

# In percent of the samples: with tables, and without if they are of any use
min_with=95
max_without=50
min_samples=100

# A program as the distribution has built it
program=/usr/bin/python3
loop='
import sys, time
def work():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        sorted(range(2000), key=lambda x: -x)
work()'
# What it maps after it has started
late='
import sys, time, bz2
def work():
    data = bytes(i * i % 251 for i in range(20000))
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        bz2.compress(data)
work()'

check_support() {
  [ "$(uname -m)" = x86_64 ] || skip "only x86-64 has SFrame tables"
  perf check feature -q dwarf || skip "perf was built without libdw"
  "${program}" -c 'import bz2' 2> /dev/null || skip "there is no ${program} with bz2"
  callchain_deferred_supported

  "${record[@]}" --unwind-tables -- true > "${dir}/log" 2>&1 || give_up "cannot record"
  if grep -q '^WARNING: No unwind tables: the kernel takes none' "${dir}/log"
  then
    skip "the kernel takes no unwind tables"
  fi
  if ! grep -q '^Unwind tables: [1-9]' "${dir}/log"
  then
    cat "${dir}/log"
    give_up "no table was handed over"
  fi
}

# share_of WHAT: in percent, of the samples whose stack begins where the program does
share_of() {
  perf script -i "${data}" -F comm,ip,sym > "${dir}/script" 2> "${dir}/log2" || {
    cat "${dir}/log2"
    give_up "$1: perf script"
  }
  samples=$(grep -c '^$' "${dir}/script" || true)
  whole=$(awk '
    NF == 0 { n += start; start = 0 }
    $2 ~ /^(_start|__libc_start_main(@.*|_.*)?)$/ { start = 1 }
    END { print n + start }' "${dir}/script")
  echo "$1: ${samples} samples, ${whole} from the start of the program"
  if [ "${samples}" -lt ${min_samples} ]
  then
    cat "${dir}/log"
    give_up "$1: not enough samples"
  fi
  share=$((whole * 100 / samples))
}

check_with() {
  share_of "$1"
  grep '^Unwind tables:' "${dir}/log" || fail "$1: no word about tables"
  if [ "${share}" -lt ${min_with} ]
  then
    tail -n 40 "${dir}/script"
    cat "${dir}/log"
    fail "$1: ${share}% of the stacks are whole"
  fi
}

test_command() {
  "${record[@]}" --unwind-tables -- "${program}" -c "${loop}" 2 > "${dir}/log" 2>&1 ||
    fail "cannot record a command"
  check_with "command"
}

# A script: what runs is its interpreter, which needs the libraries.
test_script() {
  printf '#!%s\n%s\n' "${program}" "${loop}" > "${dir}/script.py"
  chmod +x "${dir}/script.py"
  "${record[@]}" --unwind-tables -- "${dir}/script.py" 2 > "${dir}/log" 2>&1 ||
    fail "cannot record a script"
  check_with "script"
}

test_late() {
  "${record[@]}" --unwind-tables -- "${program}" -c "${late}" 2 > "${dir}/log" 2>&1 ||
    fail "cannot record a command"
  check_with "mapped later"
}

test_attach() {
  "${program}" -c "${late}" 600 &
  pids="${pids} $!"
  wait_for 60 grep -q bz2 "/proc/$!/maps" || give_up "the program does not start"
  "${record[@]}" --unwind-tables -p $! -- sleep 2 > "${dir}/log" 2>&1 || fail "cannot attach"
  check_with "attached"
  stop_tasks
}

# The tables make the difference.
test_without() {
  "${record[@]}" --no-unwind-tables -- "${program}" -c "${loop}" 2 > "${dir}/log" 2>&1 ||
    fail "cannot record without tables"
  share_of "without tables"
  ! grep -q '^Unwind tables:' "${dir}/log" || fail "tables are handed over without being wanted"
  # shellcheck disable=SC2154 # The library counts.
  if [ ${err} = 0 ] && [ "${share}" -ge ${min_with} ]
  then
    skip "${program} has frame pointers or an SFrame section"
  fi
  [ "${share}" -le ${max_without} ] || fail "without tables: ${share}% are whole"
}

test_config() {
  printf '[record]\n\tunwind-tables = true\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" "${record[@]}" -- true > "${dir}/log" 2>&1 ||
    fail "cannot record with a configuration"
  grep -q '^Unwind tables: [1-9]' "${dir}/log" || fail "record.unwind-tables is not followed"
  printf '[record]\n\tunwind-tables = false\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" "${record[@]}" -- true > "${dir}/log" 2>&1 ||
    fail "cannot record with a configuration"
  ! grep -q '^Unwind tables: ' "${dir}/log" || fail "record.unwind-tables cannot be off"
}

# It does not do nothing without a word, but a configuration is for all sessions.
test_reason() {
  perf record -o "${data}" -e cpu-clock:u --unwind-tables -- true > "${dir}/log" 2>&1 ||
    fail "cannot record without callchains"
  grep -q '^WARNING: No unwind tables: no callchains' "${dir}/log" ||
    fail "no word about no callchains"
  perf record -o "${data}" -e cpu-clock:u --call-graph fp --unwind-tables -- true \
    > "${dir}/log" 2>&1 || fail "cannot record callchains"
  grep -q '^WARNING: No unwind tables: user callchains are not deferred' "${dir}/log" ||
    fail "no word about callchains that are not deferred"

  printf '[record]\n\tunwind-tables = true\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" perf record -o "${data}" -e cpu-clock:u -- true \
    > "${dir}/log" 2>&1 || fail "cannot record with a configuration"
  ! grep -q 'unwind tables' "${dir}/log" || fail "a configuration warns"
}

check_support
test_command
test_script
test_late
test_attach
test_config
test_reason
test_without

finish
