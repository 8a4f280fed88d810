#!/bin/bash
# perf record gets unwind tables in the background, from any files
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.unwind_files.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh
# shellcheck source=lib/unwind_tables.sh
. "${shelldir}"/lib/unwind_tables.sh

data="${dir}/perf.data"
base=(perf --buildid-dir "${dir}/cache" record -o "${data}" -e cpu-clock:u --call-graph "fp,defer")
record=("${base[@]}" -v --unwind-tables)

# A program with call frame information
program=$(readlink -f /usr/bin/python3)

# Maps each FILE as code, creates the first file when done, and sleeps.
map_files='
import mmap, os, sys, time
maps = []
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        maps.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE,
                              mmap.PROT_READ | mmap.PROT_EXEC))
open(sys.argv[1], "w").close()
time.sleep(600)'

test_cleanup() {
  unmount fuse merged1 merged2 overlays
}

check_support() {
  [ "$(uname -m)" = x86_64 ] || skip "only x86-64 has SFrame tables"
  perf check feature -q dwarf || skip "perf was built without libdw"
  [ -x "${program}" ] || skip "there is no /usr/bin/python3"
  callchain_deferred_supported

  "${record[@]}" -- true > "${dir}/log" 2>&1 || give_up "cannot record"
  ! grep -q '^WARNING: No unwind tables: the kernel does not support them' "${dir}/log" ||
    skip "the kernel takes no unwind tables"
}

# start_map FILE...: starts a process that maps them. Its pid is in $!.
start_map() {
  rm -f "${dir}/mapped"
  "${program}" -c "${map_files}" "${dir}/mapped" "$@" &
  pids="${pids} $!"
  wait_for 60 test -e "${dir}/mapped" || give_up "cannot map $*"
}

in_cache() {
  find "${dir}/cache/.sframe" -type f 2> /dev/null | wc -l
}

tables_of() {
  sed -n 's/^Unwind tables: \([0-9]*\) files.*/\1/p' "${dir}/log"
}

# Waits until the log has a matching line.
until='until grep -q "$1" "$2"; do sleep 0.1; done'

# has_tables WHAT
has_tables() {
  [ "$(tables_of)" -gt 0 ] 2> /dev/null || {
    cat "${dir}/log"
    fail "$1: no unwind tables"
  }
}

test_cached() {
  rm -rf "${dir}/cache"
  "${base[@]}" -v --unwind-tables=cached -- true > "${dir}/log" 2>&1 ||
    fail "cached: cannot record"
  [ "$(tables_of)" = 0 ] || fail "cached: $(tables_of) tables without a cache"
  [ "$(in_cache)" = 0 ] || fail "cached: tables were made"

  "${record[@]}" -- true > "${dir}/log" 2>&1 || fail "cannot record"
  [ "$(in_cache)" -gt 0 ] || fail "no tables were put into the cache"
  "${base[@]}" -v --unwind-tables=cached -- true > "${dir}/log" 2>&1 ||
    fail "cached: cannot record"
  has_tables cached

  printf '[record]\n\tunwind-tables = cached\n' > "${dir}/config"
  rm -rf "${dir}/cache"
  PERF_CONFIG="${dir}/config" "${base[@]}" -v -- true > "${dir}/log" 2>&1 ||
    fail "record.unwind-tables = cached: cannot record"
  [ "$(tables_of)" = 0 ] || fail "record.unwind-tables = cached: tables were made"

  ! "${base[@]}" --unwind-tables=some -- true > "${dir}/log" 2>&1 ||
    fail "--unwind-tables=some is accepted"
  grep -q -- "--unwind-tables takes 'cached' or nothing" "${dir}/log" ||
    fail "--unwind-tables=some: no reason is given"
}

# not_stored WHAT COMMAND...: supplies tables, but puts none into the cache
not_stored() {
  local what=$1
  shift

  rm -rf "${dir}/cache"
  "$@" -- true > "${dir}/log" 2>&1 || fail "${what}: cannot record"
  has_tables "${what}"
  [ "$(in_cache)" = 0 ] || fail "${what}: tables were put into the cache"
}

test_not_stored() {
  local value

  not_stored -N "${record[@]}" -N
  not_stored -B "${record[@]}" -B
  for value in no-cache skip
  do
    printf '[record]\n\tbuild-id = %s\n' ${value} > "${dir}/config"
    not_stored "record.build-id = ${value}" env PERF_CONFIG="${dir}/config" "${record[@]}"
  done
}

test_purge() {
  local sframe=(perf --buildid-dir "${dir}/cache" sframe)

  rm -rf "${dir}/cache"
  "${record[@]}" -- true > "${dir}/log" 2>&1 || fail "cannot record"
  [ "$(in_cache)" -gt 0 ] || fail "no tables to purge"
  perf --buildid-dir "${dir}/cache" buildid-cache --purge-all > "${dir}/log" 2>&1 ||
    fail "cannot purge: $(cat "${dir}/log")"
  [ "$(in_cache)" = 0 ] || fail "tables are left after buildid-cache --purge-all"

  printf '[sframe]\n\tcache-size = 1K\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 ||
    fail "cannot make a table: $(cat "${dir}/log")"
  [ "$(in_cache)" = 0 ] || fail "sframe.cache-size = 1K: the cache is larger"
  printf '[sframe]\n\tcache-size = 1G\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 ||
    fail "cannot make a table: $(cat "${dir}/log")"
  [ "$(in_cache)" = 1 ] || fail "sframe.cache-size = 1G: a table was removed"
  printf '[sframe]\n\tcache-size = some\n' > "${dir}/config"
  ! PERF_CONFIG="${dir}/config" "${sframe[@]}" cache size > "${dir}/log" 2>&1 ||
    fail "sframe.cache-size = some is accepted"
  grep -q 'sframe.cache-size: not a size' "${dir}/log" ||
    fail "sframe.cache-size = some: no reason is given"
}

# Build-ids are read in the mount namespace of the task.
test_namespace() {
  local libc here there

  libc=$(ldd "${program}" | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
  libc=$(readlink -f "${libc}")
  if [ "$(id -u)" != 0 ] || ! unshare -m true 2> /dev/null
  then
    echo "Mount namespaces are not tested: they require root"
    return
  fi

  # The same library with another build-id
  "${program}" - "${libc}" "${dir}/libc" << 'PYTHON' || give_up "cannot change a build-id"
import sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
data[at:at + 20] = bytes(range(1, 21))
open(sys.argv[2], "wb").write(data)
PYTHON
  chmod 755 "${dir}/libc"
  here=$(perf buildid-list -i "${libc}")
  there=$(perf buildid-list -i "${dir}/libc")
  [ "${here}" != "${there}" ] || give_up "the build-id is the same"

  # shellcheck disable=SC2016
  unshare -m --propagation private "${BASH}" -c '
    mount --bind "$1" "$2"
    touch "$3/ready"
    exec "$4" -c "import time; time.sleep(600)"' \
    bash "${dir}/libc" "${libc}" "${dir}" "${program}" &
  pids="${pids} $!"
  wait_for 60 test -e "${dir}/ready" || give_up "no mount namespace"
  wait_for 60 grep -q "$(stat -c %i "${dir}/libc").*${libc}" "/proc/$!/maps" ||
    give_up "no other libc is mapped"

  "${record[@]}" --buildid-mmap -p $! -- sleep 1 > "${dir}/log" 2>&1 ||
    fail "namespace: cannot attach"
  perf script -i "${data}" --show-mmap-events > "${dir}/script" 2> "${dir}/log2" || true
  if ! grep "${libc}" "${dir}/script" | grep -q "<${there}>"
  then
    cat "${dir}/script" "${dir}/log"
    fail "the build-id of a file in a mount namespace is another one"
  fi
  ! grep "${libc}" "${dir}/script" | grep -q "<${here}>" ||
    fail "the build-id is that of the host's file"
  stop_tasks
}

# Whoever opens the file waits for an answer, which never comes.
hold='
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.fanotify_init(4, os.O_RDONLY)
if fd < 0 or libc.fanotify_mark(fd, 1, ctypes.c_uint64(0x10000), -100, sys.argv[1].encode()):
    sys.exit(1)
open(sys.argv[2], "w").close()
os.read(fd, 24)
open(sys.argv[3], "w").close()
time.sleep(600)'

# has_ended PID: no thread of the process is left
has_ended() {
  local tasks=(/proc/"$1"/task/*)

  [ ! -e "${tasks[0]}" ] || {
    [ ${#tasks[@]} = 1 ] && grep -q '^State:.*Z' "${tasks[0]}/status" 2> /dev/null
  }
}

# ends COMMAND...: the command ends within two minutes. Otherwise it gets SIGKILL.
ends() {
  local pid

  "$@" > "${dir}/log" 2>&1 &
  pid=$!
  if wait_for 120 has_ended "${pid}"
  then
    wait "${pid}"
    return
  fi
  tail -n 20 "${dir}/log"
  kill -KILL "${pid}"
  return 1
}

# If a file cannot be opened, other files still get tables, and the session ends.
test_hang() {
  local holder

  cp "${program}" "${dir}/held"
  start_map "${dir}/held"
  "${program}" -c "${hold}" "${dir}/held" "${dir}/holds" "${dir}/asked" &
  holder=$!
  pids="${pids} ${holder}"
  if ! wait_for 60 test -e "${dir}/holds"
  then
    echo "No permission events of fanotify: files that do not answer are not tested"
    stop_tasks
    return
  fi

  # shellcheck disable=SC2016
  ends "${record[@]}" -N -a -- timeout 60 "${BASH}" -c '
    until [ -e "$1" ]; do sleep 0.1; done' bash "${dir}/asked" ||
    fail "a file that does not answer blocks the session"
  test -e "${dir}/asked" || fail "nobody has opened the file that does not answer"
  has_tables "a file that does not answer"
  grep -q 'threads for unwind tables still wait' "${dir}/log" ||
    fail "no message about a file that does not answer"
  stop_tasks
}

# A FUSE server with one file. Once the file "deaf" exists, it does not answer requests
fuse='
import ctypes, os, stat, struct, sys
data = open(sys.argv[1], "rb").read()
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
opts = "fd=%d,rootmode=40000,user_id=0,group_id=0" % fd
if libc.mount(b"test", sys.argv[2].encode(), b"fuse", 0, opts.encode()):
    sys.exit(1)
def attr(ino):
    mode = stat.S_IFDIR | 0o755 if ino == 1 else stat.S_IFREG | 0o755
    return struct.pack("<6Q10I", ino, 0 if ino == 1 else len(data), len(data) // 512 + 1,
                       1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
open(sys.argv[3], "w").close()
while True:
    request = os.read(fd, 1 << 20)
    if os.path.exists(sys.argv[4]):
        open(sys.argv[5], "w").close()
        continue
    size, op, unique, ino = struct.unpack_from("<IIQQ", request)
    if op == 26:
        reply = struct.pack("<IIIIHHIIHHI28x", 7, 19, 4096, 0, 1, 1, 4096, 1, 0, 0, 0)
    elif op == 1:
        reply = struct.pack("<4Q2I", 2, 1, 0, 0, 0, 0) + attr(2)
    elif op == 3:
        reply = struct.pack("<QII", 0, 0, 0) + attr(ino)
    elif op in (14, 27):
        reply = struct.pack("<QII", 1, 0, 0)
    elif op == 15:
        at, count = struct.unpack_from("<8xQI", request, 40)
        reply = data[at:at + count]
    elif op in (2, 42):
        continue
    else:
        os.write(fd, struct.pack("<IiQ", 16, 0 if op in (18, 25, 29) else -38, unique))
        continue
    os.write(fd, struct.pack("<IiQ", 16 + len(reply), 0, unique) + reply)'

# perf must not open files on FUSE: a server that does not answer would block perf.
test_fuse() {
  local server

  mkdir "${dir}/fuse"
  "${program}" -c "${fuse}" "${program}" "${dir}/fuse" "${dir}/serves" "${dir}/deaf" \
    "${dir}/taken" 2> "${dir}/log2" &
  server=$!
  pids="${pids} ${server}"
  if ! wait_for 60 test -e "${dir}/serves"
  then
    echo "Files of FUSE are not tested: $(cat "${dir}/log2")"
    stop_tasks
    return
  fi

  start_map "${dir}/fuse/program"
  touch "${dir}/deaf"
  ends "${record[@]}" -N -p $! -- timeout 60 "${BASH}" -c "${until}" bash \
    '/fuse/program' "${dir}/log" || fail "a FUSE server that does not answer blocks the session"
  grep -q '^No unwind table for .*/fuse/program: on a FUSE file system' "${dir}/log" ||
    fail "no message about a file of FUSE"
  [ ! -e "${dir}/taken" ] || fail "a FUSE server was asked"
  stop_tasks
  umount -l "${dir}/fuse"
}

# Two overlays above one file: one table is enough.
test_overlay() {
  mount_overlays || return 0
  start_map "${dir}/merged1/program" "${dir}/merged2/program"
  "${record[@]}" -v -N -p $! -- timeout 60 "${BASH}" -c "${until}" bash \
    'is the same file as one below another overlay' "${dir}/log" > "${dir}/log" 2>&1 || true
  if [ "$(grep -c '^Unwind table for .*/merged[12]/program' "${dir}/log")" != 1 ] ||
     ! grep -q '^Unwind tables: .* 1 shared by overlays' "${dir}/log"
  then
    grep 'nwind' "${dir}/log" || true
    fail "two overlays above one file do not share its table"
  fi
  stop_tasks
}

# has_thread PID: perf has another thread
has_thread() {
  local tasks=(/proc/"$1"/task/*)

  [ ${#tasks[@]} -gt 1 ]
}

# A file that is mapped on one CPU may be executed on another.
test_cpu() {
  local perf_pid

  if [ "$(nproc)" = 1 ] || ! taskset -c 0 true 2> /dev/null
  then
    echo "There is only one CPU: files that are mapped on others are not tested"
    return
  fi

  cp "${program}" "${dir}/elsewhere"
  "${record[@]}" -v -N -C 1 -- sleep 600 > "${dir}/log" 2>&1 &
  perf_pid=$!
  pids="${pids} ${perf_pid}"
  wait_for 60 has_thread "${perf_pid}" || give_up "perf does not start"
  wait_for 60 pgrep -P "${perf_pid}" -x sleep > /dev/null || give_up "the command does not start"
  rm -f "${dir}/mapped"
  taskset -c 0 "${program}" -c "${map_files}" "${dir}/mapped" "${dir}/elsewhere" &
  pids="${pids} $!"
  wait_for 60 test -e "${dir}/mapped" || give_up "cannot map a file"
  wait_for 60 grep -q '^Unwind table for .*/elsewhere' "${dir}/log" ||
    fail "a file that is mapped on another CPU has no table"
  kill -INT "${perf_pid}"
  wait "${perf_pid}" || true
  stop_tasks
}

# Runs until it is killed, and never sleeps.
loop='
import sys
while True:
    sorted(range(2000), key=lambda x: -x)'

# short_share: the percentage of stacks that lead through the one file without a table
short_share() {
  local warning='^WARNING: 1 of [0-9]* files have no unwind table (too large)\.'

  sed -n "s/${warning} \\([0-9]*\\)[0-9.]* % .*/\\1/p" "${dir}/log"
}

# same_name HERE THERE: python code for the file with a table, and for the other file
# with the same name, which has no table
same_name() {
  local here there

  rm -f "${dir}/ready"
  "${dir}/same" -c "$1" &
  here=$!
  # shellcheck disable=SC2016
  unshare -m --propagation private "${BASH}" -c '
    mount --bind "$1" "$2"
    touch "$3/ready"
    exec "$2" -c "$4"' \
    bash "${dir}/damaged" "${dir}/same" "${dir}" "$2" &
  there=$!
  pids="${pids} ${here} ${there}"
  wait_for 60 test -e "${dir}/ready" || give_up "no mount namespace"
  wait_for 60 grep -q "${dir}/same" "/proc/${there}/maps" || give_up "the program does not start"
  "${record[@]}" -N -F 499 -p "${here},${there}" -- sleep 5 > "${dir}/log" 2>&1 ||
    fail "same name: cannot attach"
  stop_tasks
}

# The same name in two mount namespaces, as in containers: only one file has a table.
test_same_name() {
  local wait='import time; time.sleep(600)'

  if [ "$(id -u)" != 0 ] || ! unshare -m true 2> /dev/null
  then
    echo "Mount namespaces are not tested: they require root"
    return
  fi

  cp "${program}" "${dir}/same"
  damage_program "${dir}/damaged"

  same_name "${loop}" "${wait}"
  [ "$(short_share)" = 0 ] || {
    grep WARNING "${dir}/log" || true
    fail "a file is confused with the file of the same name that has no table"
  }
  same_name "${wait}" "${loop}"
  [ "$(short_share)" -ge 90 ] 2> /dev/null || {
    grep WARNING "${dir}/log" || true
    fail "a file without a table is confused with the file of the same name"
  }
}

# A table that comes while samples are taken
test_late() {
  local late='^WARNING: [1-9][0-9]* files had no unwind table for some time\.'

  rm -rf "${dir}/cache"
  cp "${program}" "${dir}/late"
  "${dir}/late" -c "${loop}" &
  pids="${pids} $!"
  wait_for 60 grep -q "${dir}/late" "/proc/$!/maps" || give_up "the program does not start"
  "${record[@]}" -v -N -F 1999 -p $! -- timeout 60 "${BASH}" -c "${until}; sleep 2" bash \
    '^Unwind table for .*/late: [0-9]* bytes' "${dir}/log" > "${dir}/log" 2>&1 ||
    fail "late: cannot attach"
  stop_tasks
  grep "${late} In this time [0-9.]* % of [1-9][0-9]* user stacks" "${dir}/log" || {
    grep nwind "${dir}/log" || true
    fail "no message about stacks before a table came"
  }
  ! grep -q "${late} In this time 100.0 %" "${dir}/log" || fail "all stacks count as without a table, although it came"
}

check_support
for name in ${UNWIND_FILES_TESTS:-cached not_stored purge namespace same_name late hang fuse \
  overlay cpu}
do
  echo "Test: ${name}"
  "test_${name}"
done

finish
