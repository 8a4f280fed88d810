#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for tests of deferred user callchains, with those of record_tasks.sh.

# shellcheck disable=SC2154 # The test has shelldir and dir.

# shellcheck source=lib/record_tasks.sh
. "${shelldir}"/lib/record_tasks.sh

has() {
  perf version --build-options | grep "$1" | grep -q '\[ on'
}

# The number of a line of --stats, "requested" for example, 0 if it is not there
stat_of() {
  awk -v name="$2" '$0 ~ "^ *" name " (events|samples):" {
    sub("^ *" name " (events|samples): *", ""); n = $1
  }
  END { print n + 0 }' "$1"
}

# check_script WHAT [MIN]: are there enough whole stacks of leaf() in ${dir}/script? It
# has a line for each sample, a line for each entry, and an empty line. Samples without
# their user part have the entry [deferred].
check_script() {
  # The minimum of samples in leaf(), and of whole stacks in percent
  local what=$1 min=${2:-2} min_whole=90

  if ! awk -v what="${what}" -v min="${min}" -v min_whole="${min_whole}" '
    BEGIN { nr_expected = split("leaf parent leafloop main", expected) }
    function end_of_sample() {
      if (nr > 0)
        all++
      if (nr > 0 && syms[nr] == "[deferred]")
        deferred++
      for (i = 1; i <= nr && syms[i] != expected[1]; i++)
        ;
      if (i <= nr) {
        leaf++
        next_expected = 1
        for (; i <= nr; i++)
          if (syms[i] == expected[next_expected])
            next_expected++
        if (next_expected > nr_expected)
          whole++
      }
      nr = 0
    }
    NF == 0 { end_of_sample(); next }
    /^[[:space:]]+[0-9a-f]+ / { syms[++nr] = $2 }
    END {
      end_of_sample()
      printf "%s: %d samples, %d without user part, %d in leaf, %d of these whole\n",
             what, all, deferred, leaf, whole
      # Up to 5 tasks may still be in the kernel at the end.
      exit !(leaf >= min && whole * 100 >= leaf * min_whole &&
             (deferred - 5) * 100 <= all * (100 - min_whole))
    }' "${dir}/script"
  then
    head -n 40 "${dir}/script"
    fail "${what}: not enough whole stacks"
  fi
}

# check_whole WHAT FILE [MIN]: at least MIN samples are in leaf(), with whole stacks.
# MIN is small, because the number of samples depends on the load of the machine.
check_whole() {
  # Immediate callchains are whole, too, so check that samples were deferred.
  perf report -i "$2" --stats > "${dir}/stats" 2> "${dir}/log"
  if [ "$(stat_of "${dir}/stats" merged)" -lt "${3:-2}" ]
  then
    cat "${dir}/stats" "${dir}/log"
    fail "$1: no samples were deferred and merged"
  fi
  if ! perf script -i "$2" -F comm,ip,sym > "${dir}/script" 2> "${dir}/log"
  then
    cat "${dir}/log"
    fail "$1: perf script"
  fi
  check_script "$1" "$3"
}

# Generates a file with deferred or, with --merged, merged callchains
generate() {
  "${PYTHON}" "${shelldir}"/lib/deferred_callchains.py "$@"
}

# Ends the test with a reason if the kernel cannot defer.
callchain_deferred_supported() {
  local sysctl=/proc/sys/kernel/unwind_user_deferred

  if ! perf record -v -B -e cpu-clock --call-graph fp,defer -o "${dir}/perf.data" true \
       > "${dir}/log" 2>&1
  then
    cat "${dir}/log"
    give_up "cannot record"
  fi

  if grep -q 'The kernel cannot defer user callchains' "${dir}/log"
  then
    skip "the kernel cannot defer user callchains"
  fi
  if ! perf evlist -v -i "${dir}/perf.data" | grep -q 'defer_callchain: 1'
  then
    cat "${dir}/log"
    give_up "the event does not ask for deferral"
  fi

  if [ -e "${sysctl}" ]
  then
    [ "$(cat "${sysctl}")" = 1 ] || skip "${sysctl} is not 1"
    return
  fi

  # Kernels that are built without the unwinder accept the bits, too.
  perf record -B -e cpu-clock --call-graph fp,defer -o "${dir}/perf.data" \
    -- perf test -w leafloop 2> "${dir}/log"
  perf report -i "${dir}/perf.data" --stats > "${dir}/stats" 2> "${dir}/log"
  if [ "$(stat_of "${dir}/stats" CALLCHAIN_DEFERRED)" = 0 ]
  then
    skip "the kernel is built without deferred unwinding"
  fi
}
