#!/bin/bash
# perf script report off-cpu shows where tasks wait and who wakes them up
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.off_cpu.XXXXX)
# shellcheck source=lib/setup_python.sh
. "${shelldir}"/lib/setup_python.sh
# shellcheck source=lib/record_tasks.sh
. "${shelldir}"/lib/record_tasks.sh

data="${dir}/perf.data"
# The shortest time that the reader must wait, in microseconds
min_wait=900000

if [ "$(id -u)" != 0 ] || ! perf list sched:sched_waking 2> /dev/null | grep -q sched_waking
then
  skip "sched:sched_waking cannot be recorded on all CPUs"
fi
if ! perf version --build-options | grep libpython | grep -q '\[ on'
then
  skip "perf is built without libpython"
fi

# A reader waits for a writer, which writes after a second.
cat > "${dir}/workload" <<'EOF'
fifo=$1
mkfifo "${fifo}"
cat "${fifo}" > /dev/null &
exec 9> "${fifo}"
sleep 1
echo 1 >&9
exec 9>&-
wait
EOF

report() {
  if ! perf script -i "${data}" -s "${script}" -- "$@" > "${dir}/out" 2> "${dir}/log"
  then
    cat "${dir}/out" "${dir}/log"
    give_up "off-cpu $*"
  fi
}

script=
for d in "${PERF_EXEC_PATH}" "$(perf --exec-path)" "${shelldir}/../.."
do
  [ -n "${script}" ] || [ ! -e "${d}/scripts/python/off-cpu.py" ] ||
    script="${d}/scripts/python/off-cpu.py"
done
[ -n "${script}" ] || skip "off-cpu.py is not installed"

# Each switch and each waking, thus no -F, which holds for all events.
if ! perf record -a -g -B -e sched:sched_switch -e sched:sched_waking -e cpu-clock/freq=499/ \
     -o "${data}" -- bash "${dir}/workload" "${dir}/fifo" 2> "${dir}/log"
then
  cat "${dir}/log"
  give_up "cannot record"
fi

# The time in ${dir}/out of stacks that match all of the patterns
time_of() {
  local file="${dir}/out" pattern

  for pattern
  do
    grep -- "${pattern}" "${file}" > "${dir}/matched" || true
    cp "${dir}/matched" "${dir}/rest"
    file="${dir}/rest"
  done
  awk '{ sum += $NF } END { print sum + 0 }' "${file}"
}

check_time() {
  local what=$1 time
  shift

  time=$(time_of "$@")
  echo "${what}: ${time} us"
  if [ "${time}" -lt ${min_wait} ]
  then
    grep 'cat\|bash' "${dir}/out" | head -n 20
    fail "${what}: less than ${min_wait} us"
  fi
}

report --format folded
check_time "the reader waits in read()" '^cat;' ';[^ ]*\(pipe_read\|anon_pipe_read\)'
[ "$(time_of '^cat;.*;--;')" = 0 ] || fail "wakers without --wakers"

report --format folded --wakers
check_time "the writer wakes it up" '^cat;.*\(pipe_read\|anon_pipe_read\).*;--;' \
	';--;.*pipe_write.*;bash '

report --format folded --on-cpu
check_time "off the CPU" '^off-CPU;cat;'
[ "$(time_of '^on-CPU;')" -gt 0 ] || fail "no time on the CPU"

report --format folded --min-time 100000000
[ "$(time_of .)" = 0 ] || fail "--min-time does not leave out short waits"

report --format json -o "${dir}/json"
if ! "${PYTHON}" - "${dir}/json" ${min_wait} <<'EOF'
import json, sys
def total(node):
    return node["v"] + sum(total(child) for child in node["c"])
root = json.load(open(sys.argv[1]))
cat = [node for node in root["c"] if node["n"] == "cat"]
sys.exit(not cat or total(cat[0]) < int(sys.argv[2]))
EOF
then
  fail "json: the time of the reader is missing"
fi

finish
