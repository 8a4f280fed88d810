#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for tests of unwind tables, in addition to lib/callchain_deferred.sh.

# shellcheck disable=SC2154 # The test has program, dir and data.

min_samples=100

# Runs for as many seconds as its argument says. On a loaded machine it runs longer, so that
# there are enough samples.
# shellcheck disable=SC2034 # The test uses it.
loop='
import sys, time
def work():
    seconds = float(sys.argv[1])
    end = time.monotonic() + seconds
    left = 100 * seconds
    while time.monotonic() < end or left > 0:
        sorted(range(2000), key=lambda x: -x)
        left -= 1
work()'

# fill_cache MODULES [FILE...]: puts the tables of what ${program} maps with these modules, and
# of the files, into ${dir}/cache. Tables that have to be made may come late on a slow
# machine, or take too long for a session.
fill_cache() {
  local modules=$1 files
  shift

  files=$("${program}" -c '
import '"${modules}"'
files = {line.split()[5] for line in open("/proc/self/maps")
         if line.split()[1][2] == "x" and len(line.split()) == 6 and "/" in line}
print("\n".join(sorted(files)))')
  # shellcheck disable=SC2086
  perf --buildid-dir "${dir}/cache" sframe build ${files} "$@" > "${dir}/log" 2>&1 ||
    give_up "cannot make tables: $(cat "${dir}/log")"
}

# share_of WHAT: sets share, the percentage of stacks in ${data} that reach the program's start
share_of() {
  local samples whole

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
  # shellcheck disable=SC2034 # The test uses it.
  share=$((whole * 100 / samples))
}

# damage_program COPY: copies ${program}, and gives the section .eh_frame of the copy an
# absurd size
damage_program() {
  "${program}" - "${program}" "$1" << 'PYTHON' || give_up "cannot damage a program"
import shutil, struct, sys
shutil.copy(sys.argv[1], sys.argv[2])
with open(sys.argv[2], "r+b") as file:
    data = file.read()
    shoff, = struct.unpack_from("<Q", data, 40)
    size, number, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, shoff + i * size) for i in range(number)]
    for i, section in enumerate(sections):
        start = sections[names][4] + section[0]
        if data[start:data.index(b"\0", start)] == b".eh_frame":
            file.seek(shoff + i * size + 32)
            file.write(struct.pack("<Q", 1 << 40))
PYTHON
}

# Mounts ${dir}/merged1 and ${dir}/merged2 above one copy of ${program}. Fails, with a reason,
# if that is not possible.
mount_overlays() {
  local i options

  mkdir "${dir}/overlays" "${dir}/merged1" "${dir}/merged2"
  if ! mount -t tmpfs tmpfs "${dir}/overlays" 2> /dev/null
  then
    echo "Overlays are not tested: they require root"
    return 1
  fi
  mkdir "${dir}/overlays/lower"
  cp "${program}" "${dir}/overlays/lower/program"
  # As in images of containers, ctime is later than mtime.
  touch -d '2 days ago' "${dir}/overlays/lower/program"
  for i in 1 2
  do
    mkdir "${dir}/overlays/upper${i}" "${dir}/overlays/work${i}"
    options="lowerdir=${dir}/overlays/lower,upperdir=${dir}/overlays/upper${i}"
    options="${options},workdir=${dir}/overlays/work${i}"
    if ! mount -t overlay -o "${options}" overlay "${dir}/merged${i}" 2> /dev/null
    then
      echo "Overlays are not tested: the kernel has none"
      return 1
    fi
  done
}

# unmount NAME...: directories in ${dir}, if something is mounted there
unmount() {
  local name

  for name
  do
    ! mountpoint -q "${dir}/${name}" 2> /dev/null || umount -l "${dir}/${name}"
  done
}
