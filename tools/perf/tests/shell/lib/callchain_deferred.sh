#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for tests of deferred user callchains. A test has "set -e" and a directory
# for its files in ${dir}, and ends with finish.

# shellcheck disable=SC2154 # The test has shelldir, dir, and data.

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
