#!/bin/bash
# perf sframe serve gives tables to all tracers (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck disable=SC2154 # The libraries set loop, share and err.

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.sframe_serve.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh
# shellcheck source=lib/unwind_tables.sh
. "${shelldir}"/lib/unwind_tables.sh

# Others must not write to where root has its tables.
chmod 755 "${dir}"
export PERF_CONFIG="${dir}/config"
printf '[sframe]\n\tsystem-cache = %s/cache\n' "${dir}" > "${PERF_CONFIG}"
data="${dir}/perf.data"
run_dir="${dir}/run"
service=
# The file that brings a CPU back
offline=
program=/usr/bin/python3

# Whole stacks in percent: the minimum with the service, and the maximum without
min_with=95
max_without=50

stop_service() {
  [ -n "${service}" ] || return 0
  kill "${1:--TERM}" "${service}" 2> /dev/null || true
  wait "${service}" 2> /dev/null || true
  service=
}

test_cleanup() {
  stop_service -KILL
  [ -z "${offline}" ] || echo 1 > "${offline}"
  unmount merged1 merged2 overlays
}

status() {
  perf sframe serve --run-dir "${run_dir}" --status
}

# The number of a line of the status
number() {
  status | awk -F': ' -v name="$1" '$1 == name { n = $2 } END { print n + 0 }'
}

nothing_waits() {
  [ "$(number scans)" -gt 0 ] && [ "$(number tables)" -gt 0 ] &&
    [ "$(number 'files that wait')" = 0 ]
}

start_service() {
  perf sframe serve --run-dir "${run_dir}" --cpu 200 -v "$@" > "${dir}/service" 2>&1 &
  service=$!
  if ! wait_for 120 nothing_waits
  then
    cat "${dir}/service"
    status || true
    fail "the service does not get tables"
  fi
}

check_support() {
  [ "$(uname -m)" = x86_64 ] || skip "only x86-64 has SFrame tables"
  [ "$(id -u)" = 0 ] || skip "must be run as root"
  perf check feature -q dwarf || skip "perf was built without libdw"
  "${program}" -c '' 2> /dev/null || skip "there is no ${program}"
  callchain_deferred_supported
  [ "$(cat /proc/sys/kernel/unwind_user_immediate 2> /dev/null)" = 1 ] ||
    skip "the kernel takes no user stacks at once by rules"
  if status > "${dir}/log" 2>&1
  then
    fail "a service runs in a new directory"
  fi
}

# immediate_share WHAT [PROGRAM]: sets share, for immediate stacks of a perf without tables
immediate_share() {
  perf --buildid-dir "${dir}/own" record -B -e cpu-clock:u -F 499 --call-graph fp \
    -o "${data}" -- "${2:-${program}}" -c "${loop}" 3 > "${dir}/log" 2>&1 ||
    give_up "$1: cannot record"
  share_of "$1"
}

has_whole_stacks() {
  immediate_share "$@"
  [ "${share}" -ge ${min_with} ]
}

# whole_with_service WHAT [PROGRAM]: are stacks whole? On a loaded machine it takes some time
# until the service sees that the program runs. So another task has the program mapped.
whole_with_service() {
  "${2:-${program}}" -c "${loop}" 600 &
  pids="${pids} $!"
  if ! wait_for 120 has_whole_stacks "$@"
  then
    tail -n 40 "${dir}/script"
    status || true
    fail "$1: ${share}% of the stacks are whole"
  fi
  stop_tasks
}

# Callchains that are not deferred, of a perf that supplies no tables
test_immediate() {
  immediate_share "without the service"
  [ "${share}" -le ${max_without} ] ||
    skip "${program} has frame pointers or an SFrame section"

  start_service
  whole_with_service "with the service"
}

test_status() {
  status > "${dir}/log" || fail "no status of a service that runs"
  head -n 1 "${dir}/log" | grep -qx "running: pid ${service}" || fail "it is another service"
  [ "$(number bytes)" -gt 100000 ] || fail "the tables are too small"
}

test_second_service() {
  if timeout 20 perf sframe serve --run-dir "${run_dir}" > "${dir}/log" 2>&1
  then
    fail "a second service runs"
  fi
  grep -q 'A service is running already' "${dir}/log" || fail "no reason: $(cat "${dir}/log")"
  status > "${dir}/log" || fail "the second service has ended the first"
}

# A session finds what the service has made.
test_session() {
  perf --buildid-dir "${dir}/own" record -v -e cpu-clock:u --call-graph fp,defer \
    -o "${data}" -- "${program}" -c "${loop}" 1 > "${dir}/log" 2>&1 || fail "cannot record"
  grep '^Unwind tables:' "${dir}/log" || fail "the session has no tables"
  if find "${dir}/own/.sframe" -type f ! -path '*/commands/*' 2> /dev/null | grep -q .
  then
    cat "${dir}/log"
    fail "the session has made tables itself"
  fi
}

# A file that is mapped while the service runs, and then no more
test_later() {
  local before

  before=$(number tables)
  cp "${program}" "${dir}/program"
  "${dir}/program" -c "${loop}" 600 > /dev/null 2>&1 &
  pids="${pids} $!"
  wait_for 60 more_than "${before}" || fail "no table for a file that is mapped later"
  stop_tasks
}

more_than() {
  [ "$(number tables)" -gt "$1" ]
}

has_dropped() {
  [ "$(number dropped)" -gt 0 ]
}

test_drop() {
  stop_service
  start_service --scan 1 --idle 0
  test_later
  wait_for 60 has_dropped || fail "tables of files that are not mapped any more stay"
  # What runs keeps its table.
  [ "$(number tables)" -gt 0 ] || fail "all tables were dropped"
}

# A file that is written to needs its table again.
test_written() {
  local before

  stop_service
  start_service --scan 1
  cp "${program}" "${dir}/written"
  before=$(number tables)
  "${dir}/written" -c "${loop}" 600 &
  pids="${pids} $!"
  wait_for 60 more_than "${before}" || fail "no table for a file that will be written to"
  stop_tasks
  printf x >> "${dir}/written"

  before=$(number 'from the cache')
  "${dir}/written" -c "${loop}" 600 &
  pids="${pids} $!"
  wait_for 60 more_from_the_cache "${before}" || fail "no table for a file that was written to"
  whole_with_service "file that was written to" "${dir}/written"
}

more_from_the_cache() {
  [ "$(number 'from the cache')" -gt "$1" ]
}

# Of two overlays above one file, one is not used any more.
test_overlays() {
  local first scans

  stop_service
  mount_overlays || return 0
  start_service --scan 1 --idle 0
  "${dir}/merged1/program" -c "${loop}" 600 &
  first=$!
  pids="${pids} $!"
  "${dir}/merged2/program" -c "${loop}" 600 &
  pids="${pids} $!"
  wait_for 60 grep -q 'is the same file as one below another overlay' "${dir}/service" ||
    fail "two overlays above one file do not share its table"
  kill "${first}"
  # Some scans later the service knows that the first is not mapped.
  scans=$(number scans)
  wait_for 60 more_scans $((scans + 3)) || fail "the service does not read the mappings again"
  whole_with_service "the other overlay" "${dir}/merged2/program"
}

more_scans() {
  [ "$(number scans)" -gt "$1" ]
}

test_no_room() {
  stop_service
  perf sframe serve --run-dir "${run_dir}" --cpu 200 --max-size 200K > "${dir}/service" 2>&1 &
  service=$!
  wait_for 60 is_full || fail "the limit of the size has no effect: $(status)"
  [ "$(number bytes)" -le 204800 ] || fail "the tables exceed their limit: $(status)"
}

is_full() {
  [ "$(number 'without room')" -gt 0 ]
}

# The events of a CPU end when it goes offline. Others may use the machine, so this is tested
# only on request.
test_hotplug() {
  local online=/sys/devices/system/cpu/cpu1/online before scans

  if [ -z "${PERF_TEST_HOTPLUG}" ] || [ ! -w ${online} ]
  then
    echo "hotplug: not tested, PERF_TEST_HOTPLUG is not set or CPU 1 cannot go offline"
    return 0
  fi
  stop_service
  start_service --scan 3600
  scans=$(number scans)
  offline=${online}
  echo 0 > ${online}
  sleep 2
  echo 1 > ${online}
  offline=
  # After each change it reads all mappings.
  wait_for 60 more_scans "${scans}" || fail "the service does not see that CPUs come and go"
  sleep 5
  wait_for 60 nothing_waits || fail "files wait after a CPU came"

  cp "${program}" "${dir}/hotplug"
  before=$(number tables)
  taskset -c 1 "${dir}/hotplug" -c "${loop}" 600 > /dev/null 2>&1 &
  pids="${pids} $!"
  wait_for 60 more_than "${before}" || fail "no table for a file that the new CPU maps"
  stop_tasks
}

# The kernel drops the tables of a service that is killed, and another one can start.
test_killed() {
  local rc=0

  stop_service
  start_service
  stop_service -KILL
  status > "${dir}/log" || rc=$?
  [ ${rc} = 3 ] || fail "the status of a killed service is ${rc}: $(cat "${dir}/log")"
  immediate_share "after the service was killed"
  [ "${share}" -le ${max_without} ] || fail "${share}% of the stacks are still whole"
  start_service
  whole_with_service "with the next service"
}

test_not_root() {
  stop_service
  command -v setpriv > /dev/null || return 0
  mkdir "${dir}/other"
  chown 65534:65534 "${dir}/other"
  if setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
     timeout 20 "$(command -v perf)" sframe serve --run-dir "${dir}/other" > "${dir}/log" 2>&1
  then
    fail "a service without privileges runs"
  fi
  grep -q 'CAP_PERFMON\|Cannot open events' "${dir}/log" ||
    fail "a service without privileges gives no reason: $(cat "${dir}/log")"
}

# What others can write to says nothing.
test_foreign_dir() {
  mkdir "${dir}/open"
  chmod 777 "${dir}/open"
  if timeout 20 perf sframe serve --run-dir "${dir}/open" > "${dir}/log" 2>&1
  then
    fail "a directory that all may write to is used"
  fi
}

check_support
fill_cache sys "$(command -v perf)"
test_immediate
test_status
test_second_service
test_session
test_later
test_drop
test_written
test_overlays
test_no_room
test_hotplug
test_killed
test_not_root
test_foreign_dir

finish
