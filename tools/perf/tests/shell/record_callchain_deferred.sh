#!/bin/bash
# perf record with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

dir=$(mktemp -d /tmp/__perf_test.callchain_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

data="${dir}/perf.data"
# Build-ids are not needed, and take most of the time of a short session.
record=(perf record -B -e cpu-clock -F 499)
workload=(perf test -w leafloop)

# The percentage of deferred samples that must find their record
min_merged=95

# The share of samples that were completed
check_merged() {
  local what=$1 file=$2 requested merged lost

  perf report -i "${file}" --stats > "${dir}/stats"
  requested=$(stat_of "${dir}/stats" requested)
  merged=$(stat_of "${dir}/stats" merged)
  lost=$(grep -o 'events lost: [0-9]*' "${dir}/stats" || true)
  echo "${what}: ${requested} samples deferred, ${merged} merged, ${lost}"
  if [ "${requested}" -lt 10 ] || [ $((merged * 100)) -lt $((requested * min_merged)) ]
  then
    cat "${dir}/stats"
    fail "${what}: not enough samples merged"
  fi
}

check_stacks() {
  local what=$1 file=$2

  check_merged "${what}" "${file}"
  check_whole "${what}" "${file}"
}

asks_for_deferral() {
  perf evlist -v -i "$1" > "${dir}/attr" && grep -q sample_type "${dir}/attr" ||
    fail "perf evlist shows no event"
  grep -q 'defer_callchain: 1' "${dir}/attr"
}

test_record() {
  "${record[@]}" --call-graph fp,defer -o "${data}" -- "${workload[@]}"
  check_stacks "per task" "${data}"

  if [ "$(stat_of "${dir}/stats" CALLCHAIN_DEFERRED)" -lt 1 ]
  then
    fail "no record of a deferred callchain"
  fi

  # The same, caller first
  perf report -i "${data}" --stdio --no-children -g caller,0.5,callee --percent-limit 5 \
    -F overhead,sym > "${dir}/report" 2> /dev/null
  if ! tr '\n' ' ' < "${dir}/report" | grep -q 'leaf.*parent.*leafloop.*main'
  then
    head -n 40 "${dir}/report"
    fail "no stack up to main in the report"
  fi
}

test_no_merge() {
  local deferred records

  perf script -i "${data}" --no-merge-callchains > "${dir}/script"
  deferred=$(grep -c '\[deferred\] (cookie: ' "${dir}/script" || true)
  records=$(grep -c 'DEFERRED CALLCHAIN \[cookie: ' "${dir}/script" || true)
  echo "not merged: ${deferred} samples, ${records} records"
  if [ "${deferred}" -lt 10 ] || [ "${records}" -lt 10 ]
  then
    fail "samples or records are not shown"
  fi

  # Cookies have one record, except for the share that may lack it, see min_merged
  sed -n 's/.*(cookie: \([0-9a-f]*\))$/\1/p' "${dir}/script" | sort -u > "${dir}/asked"
  sed -n 's/.*\[cookie: \([0-9a-f]*\)\].*$/\1/p' "${dir}/script" | sort > "${dir}/written"
  [ -s "${dir}/asked" ] || fail "no cookie in a sample"
  if [ -n "$(uniq -d "${dir}/written")" ]
  then
    fail "a cookie has more than one record"
  fi
  if [ "$(comm -23 "${dir}/asked" "${dir}/written" | wc -l)" -gt \
       $(($(wc -l < "${dir}/asked") * (100 - min_merged) / 100)) ]
  then
    fail "cookies without a record"
  fi
}

test_inject() {
  perf inject -i "${data}" -o "${data}.inject"
  check_merged "injected" "${data}.inject"
}

# Does an event that is recorded like this ask for deferral?
check_asks() {
  local what=$1
  shift

  "$@" -o "${data}" -- true
  if ! asks_for_deferral "${data}"
  then
    perf evlist -v -i "${data}"
    fail "${what} does not ask for deferral"
  fi
}

test_options() {
  local arg

  check_asks "a term" perf record -e cpu-clock/call-graph=fp:defer/

  for arg in fp,defer,16 fp,16,defer
  do
    check_asks "${arg}" "${record[@]}" --call-graph "${arg}"
    if ! perf evlist -v -i "${data}" | grep -q 'sample_max_stack: 16'
    then
      fail "${arg}: no depth of 16"
    fi
  done
}

test_config() {
  local arg

  printf '[call-graph]\n\trecord-mode = fp,defer\n' > "${dir}/config"

  export PERF_CONFIG="${dir}/config"
  check_asks "a configured -g" "${record[@]}" -g

  # The command line says something else.
  for arg in fp dwarf
  do
    "${record[@]}" --call-graph "${arg}" -o "${data}" -- true
    if asks_for_deferral "${data}"
    then
      fail "--call-graph ${arg} obeys a configured defer"
    fi
  done
  unset PERF_CONFIG
}

# If the kernel cannot defer, a plain -g says so only with -v, in one line.
test_fallback() {
  local expected=1 lines

  perf record -B -e cpu-clock -g -o "${data}" -- true > "${dir}/log" 2>&1
  # The directory's name is in it, too.
  if grep -v "${dir}" "${dir}/log" | grep -q 'defer'
  then
    cat "${dir}/log"
    give_up "-g is not silent"
  fi

  perf record -v -B -e cpu-clock -g -o "${data}" -- true > "${dir}/log" 2>&1
  lines=$(grep -c 'cannot defer user callchains' "${dir}/log" || true)
  ! asks_for_deferral "${data}" || expected=0
  if [ "${lines}" != "${expected}" ]
  then
    cat "${dir}/log"
    give_up "-v has ${lines} lines about deferral and not ${expected}"
  fi
}

# check_immediate WHAT COMMAND: an event that is recorded like this has the user
# callchain in the sample.
check_immediate() {
  local what=$1
  shift

  "$@" -B -e cpu-clock -o "${data}" -- true
  if asks_for_deferral "${data}"
  then
    perf evlist -v -i "${data}"
    fail "${what} asks for deferral"
  fi
}

# What plain -g does, and what keeps it from deferring
test_default() {
  local setting

  check_asks "-g" "${record[@]}" -g
  check_asks "fp,defer -g" "${record[@]}" --call-graph fp,defer -g

  check_immediate "--call-graph fp" perf record --call-graph fp
  check_immediate "-g --call-graph fp" perf record -g --call-graph fp
  check_immediate "--call-graph fp -g" perf record --call-graph fp -g

  for setting in "defer = no" "record-mode = fp"
  do
    printf '[call-graph]\n\t%s\n' "${setting}" > "${dir}/config"
    export PERF_CONFIG="${dir}/config"
    check_immediate "-g with ${setting}" perf record -g
    unset PERF_CONFIG
  done

  printf '[call-graph]\n\tdefer = no\n' > "${dir}/config"
  export PERF_CONFIG="${dir}/config"
  check_asks "fp,defer with defer = no" "${record[@]}" --call-graph fp,defer
  unset PERF_CONFIG
}

test_system_wide() {
  if [ "$(id -u)" != 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt -1 ]
  then
    echo "not allowed to record all CPUs, that part is not run"
    return
  fi

  "${record[@]}" -a --call-graph fp,defer -o "${data}" -- "${workload[@]}"
  check_stacks "system wide" "${data}"

  "${record[@]}" -a --threads=cpu --call-graph fp,defer -o "${data}.dir" -- "${workload[@]}"
  check_stacks "directory" "${data}.dir"
}

test_compressed() {
  if perf version --build-options | grep 'HAVE_ZSTD_SUPPORT' | grep -qi off
  then
    echo "perf is built without zstd, that part is not run"
    return
  fi

  "${record[@]}" -z --call-graph fp,defer -o "${data}" -- "${workload[@]}"
  check_stacks "compressed" "${data}"
}

test_pipe() {
  "${record[@]}" --call-graph fp,defer -o - -- "${workload[@]}" 2> "${dir}/log" |
    perf script -i - -F comm,ip,sym > "${dir}/script"
  check_script "pipe"

  # A file in the format of a pipe
  "${record[@]}" --call-graph fp,defer -o - -- "${workload[@]}" 2> "${dir}/log" > "${data}"
  check_stacks "format of a pipe" "${data}"

  # Events are in time order, although some were held back.
  perf script -i "${data}" -F time | sed -n 's/^ *\([0-9]*\.[0-9]*\):.*/\1/p' > "${dir}/times"
  [ -s "${dir}/times" ] || fail "no times"
  if ! sort -n -c "${dir}/times" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "not in time order"
  fi
}

test_fallback
callchain_deferred_supported
test_record
test_no_merge
test_inject
test_options
test_config
test_default
test_system_wide
test_compressed
test_pipe

finish
