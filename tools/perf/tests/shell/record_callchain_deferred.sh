#!/bin/bash
# perf record with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leafloop

err=0
dir=$(mktemp -d /tmp/__perf_test.callchain_deferred.XXXXX)
data="${dir}/perf.data"
sysctl=/proc/sys/kernel/unwind_user_deferred
# Build-ids are not needed, and take most of the time of a short session.
record=(perf record -B -e cpu-clock -F 499)
workload=(perf test -w leafloop)

# In percent of the samples of leaf() that must show all of the stack. A sample
# that was taken before the workload began or after it ended is not one of them.
min_whole=95
# In percent of all deferred samples that must find their record
min_merged=95

cleanup() {
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

# The number of a line of --stats, "requested" for example, 0 if it is not there
stat_of() {
  awk -v name="$2" '$0 ~ "^ *" name " (events|samples):" {
    sub("^ *" name " (events|samples): *", ""); n = $1
  }
  END { print n + 0 }' "$1"
}

# The share of samples that were completed
check_merged() {
  local what=$1 file=$2 requested merged lost

  perf report -i "${file}" --stats > "${dir}/stats"
  requested=$(stat_of "${dir}/stats" requested)
  merged=$(stat_of "${dir}/stats" merged)
  lost=$(grep -o 'events lost: [0-9]*' "${dir}/stats" || true)
  echo "${what}: ${requested} samples deferred, ${merged} merged, ${lost}"
  if [ "${requested}" -lt 100 ] || [ $((merged * 100)) -lt $((requested * min_merged)) ]
  then
    cat "${dir}/stats"
    fail "${what}: not enough samples merged"
  fi
}

# Stacks with these functions in this order in the output of perf script
check_script() {
  local what=$1

  if ! awk -v what="${what}" -v min="${min_whole}" '
    BEGIN { nr_expected = split("leaf parent leafloop main", expected) }
    # A sample: its line, one line for each entry, an empty one
    function end_of_sample() {
      if (nr > 0 && syms[1] == expected[1]) {
        all++
        next_expected = 1
        for (i = 1; i <= nr; i++)
          if (syms[i] == expected[next_expected])
            next_expected++
        if (next_expected > nr_expected)
          whole++
      }
      nr = 0
    }
    NF == 0 { end_of_sample(); next }
    /^[[:space:]]/ { syms[++nr] = $2 }
    END {
      end_of_sample()
      printf "%s: %d samples in leaf, %d whole\n", what, all, whole
      exit !(all >= 100 && whole * 100 >= all * min)
    }' "${dir}/script"
  then
    head -n 40 "${dir}/script"
    fail "${what}: not enough whole stacks"
  fi
}

check_stacks() {
  local what=$1 file=$2

  check_merged "${what}" "${file}"
  perf script -i "${file}" -F comm,ip,sym > "${dir}/script"
  check_script "${what}"
}

asks_for_deferral() {
  perf evlist -v -i "$1" | grep -q 'defer_callchain: 1'
}

# May anything be expected here? From here on a failure is a failure.
check_support() {
  if ! perf record -v -e cpu-clock --call-graph fp,defer -o "${data}" true > "${dir}/log" 2>&1
  then
    cat "${dir}/log"
    fail "cannot record"
    return
  fi

  if grep -q 'The kernel cannot defer user callchains' "${dir}/log"
  then
    skip "the kernel cannot defer user callchains"
  fi

  if ! asks_for_deferral "${data}"
  then
    cat "${dir}/log"
    fail "the event does not ask for deferral"
  fi

  if [ -e "${sysctl}" ]
  then
    [ "$(cat "${sysctl}")" = 1 ] || skip "${sysctl} is not 1"
    return
  fi

  # Kernels that are built without the unwinder accept the bits, too.
  "${record[@]}" --call-graph fp,defer -o "${data}" -- "${workload[@]}"
  perf report -i "${data}" --stats > "${dir}/stats"
  if [ "$(stat_of "${dir}/stats" CALLCHAIN_DEFERRED)" = 0 ]
  then
    skip "the kernel is built without deferred unwinding"
  fi
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
  if [ "${deferred}" -lt 100 ] || [ "${records}" -lt 100 ]
  then
    fail "samples or records are not shown"
  fi

  # Every cookie in a sample has its record
  sed -n 's/.*(cookie: \([0-9a-f]*\))$/\1/p' "${dir}/script" | sort -u > "${dir}/asked"
  sed -n 's/.*\[cookie: \([0-9a-f]*\)\]$/\1/p' "${dir}/script" | sort > "${dir}/written"
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

  # What was written to a pipe, as a file
  "${record[@]}" --call-graph fp,defer -o - -- "${workload[@]}" 2> "${dir}/log" > "${data}"
  check_stacks "format of a pipe" "${data}"

  # Events in time order, whatever was held back
  perf script -i "${data}" -F time | sed -n 's/^ *\([0-9]*\.[0-9]*\):.*/\1/p' > "${dir}/times"
  [ -s "${dir}/times" ] || fail "no times"
  if ! sort -n -c "${dir}/times" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "not in time order"
  fi
}

check_support
if [ ${err} = 0 ]
then
  test_record
  test_no_merge
  test_inject
  test_options
  test_config
  test_system_wide
  test_compressed
  test_pipe
fi

cleanup
exit ${err}
