#!/bin/bash
# perf record hands the kernel unwind tables
# SPDX-License-Identifier: GPL-2.0

# shellcheck disable=SC2154 # The libraries set loop, share and err.

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.unwind_tables.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh
# shellcheck source=lib/unwind_tables.sh
. "${shelldir}"/lib/unwind_tables.sh

data="${dir}/perf.data"
record=(perf --buildid-dir "${dir}/cache" record -v -B -e cpu-clock:u -F 499
        --call-graph "fp,defer" -o "${data}")

# Whole stacks in percent: the minimum with tables, and the maximum without
min_with=95
max_without=50

# A program as the distribution has built it
program=/usr/bin/python3
# Uses a library that it maps after the start
late='
import sys, time, bz2
def work():
    data = bytes(i * i % 251 for i in range(20000))
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        bz2.compress(data)
work()'

# What a command has started before gets its table, although nothing maps it this time.
test_children() {
  local path pattern
  # With -B nothing is put into the cache.
  local remember=(perf --buildid-dir "${dir}/cache" record -v -e cpu-clock:u
                  --call-graph "fp,defer" --unwind-tables -o "${data}")

  path=$(realpath "${program}")
  pattern="^Unwind table for ${path}: "
  "${remember[@]}" -- bash -c "exec '${program}' -c '${loop}' 2" > "${dir}/log" 2>&1 ||
    fail "cannot record a command that starts another one"
  "${remember[@]}" -v -- bash -c true > "${dir}/log" 2>&1 ||
    fail "cannot record a command"
  grep -q "${pattern}" "${dir}/log" || fail "what the command started before has no table"

  # Another command does not get it.
  "${remember[@]}" -v -- sh -c true > "${dir}/log" 2>&1 ||
    fail "cannot record another command"
  ! grep -q "${pattern}" "${dir}/log" || fail "another command gets the table, too"

  # All tasks are not the command's.
  rm -r "${dir}/cache/.sframe/commands"
  "${remember[@]}" -a -- bash -c "exec '${program}' -c '${loop}' 2" > "${dir}/log" 2>&1 ||
    fail "cannot record all tasks"
  [ ! -e "${dir}/cache/.sframe/commands" ] || fail "the files of all tasks are remembered"
}

# The command starts a program that ends before it can have a table. perf makes the table then, for
# as long as the session took, and the next session has it.
test_short() {
  local short=(perf --buildid-dir "${dir}/short" record -v -v -e page-faults:u -c 1
               --call-graph "fp,defer" --unwind-tables -o "${data}")
  local path

  path=$(realpath "${program}")
  "${short[@]}" -- bash -c "sleep 30; exec '${program}' -c pass" > "${dir}/log" 2>&1 ||
    fail "cannot record a short program"
  "${short[@]}" -- bash -c true > "${dir}/log" 2>&1 ||
    fail "cannot record the command again"
  if ! grep -q "^Unwind table for ${path}: .*, from the cache$" "${dir}/log"
  then
    cat "${dir}/log"
    fail "the table of a short program is not in the cache"
  fi
}

# perf makes no table at the end of a session if the cache cannot keep it.
check_not_made() {
  perf --buildid-dir "${dir}/$1" record -v -v -e page-faults:u -c 1 --call-graph "fp,defer" \
       --unwind-tables -o "${data}" -- bash -c "'${dir}/$2'; true" > "${dir}/log" 2>&1 ||
    fail "cannot record a short program"
  if ! grep -q "^No unwind table for ${dir}/$2" "${dir}/log" ||
     grep -q "^Making unwind tables of " "${dir}/log" ||
     grep -q "^Unwind table for ${dir}/$2 in the cache" "${dir}/log"
  then
    cat "${dir}/log"
    fail "the table of ${dir}/$2 is made for a cache that does not keep it"
  fi
}

# A program that ends at once, but has many functions. Nothing keeps its table if it has no
# build-id, or if the cache belongs to another user.
test_not_kept() {
  local link=(cc -nostdlib -static "${dir}/large.o")

  if ! command -v cc > /dev/null
  then
    echo "what the cache cannot keep is not tested: there is no C compiler"
    return
  fi
  cat > "${dir}/large.s" << EOF
	.globl _start
_start:
	.cfi_startproc
	mov \$60, %eax
	xor %edi, %edi
	syscall
	.cfi_endproc
	.rept 200000
	.cfi_startproc
	push %rbx
	.cfi_adjust_cfa_offset 8
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.endr
EOF
  cc -c -o "${dir}/large.o" "${dir}/large.s" &&
    "${link[@]}" -o "${dir}/no-id" -Wl,--build-id=none &&
    "${link[@]}" -o "${dir}/large" -Wl,--build-id=sha1 || give_up "cannot make a program"
  check_not_made "kept" "no-id"
  mkdir "${dir}/foreign"
  if chown 1 "${dir}/foreign"
  then
    check_not_made "foreign" "large"
  fi
}

# Waits until the log has a matching line.
until='until grep -q "$1" "$2"; do sleep 0.1; done'

check_support() {
  [ "$(uname -m)" = x86_64 ] || skip "only x86-64 has SFrame tables"
  perf check feature -q dwarf || skip "perf was built without libdw"
  "${program}" -c 'import bz2' 2> /dev/null || skip "there is no ${program} with bz2"
  callchain_deferred_supported

  fill_cache "bz2, _bz2"
  "${record[@]}" --unwind-tables -- true > "${dir}/log" 2>&1 || give_up "cannot record"
  if grep -q '^WARNING: No unwind tables: the kernel does not support them' "${dir}/log"
  then
    skip "the kernel takes no unwind tables"
  fi
  if ! grep -q '^Unwind tables: [1-9]' "${dir}/log"
  then
    cat "${dir}/log"
    give_up "no table was supplied"
  fi
}

check_with() {
  share_of "$1"
  grep '^Unwind tables:' "${dir}/log" || fail "$1: no message about tables"
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
  # Tables come in the background.
  "${record[@]}" --unwind-tables -D 5000 -p $! -- sleep 10 > "${dir}/log" 2>&1 ||
    fail "cannot attach"
  check_with "attached"
  stop_tasks
}

# The tables make the difference.
test_without() {
  "${record[@]}" --no-unwind-tables -- "${program}" -c "${loop}" 2 > "${dir}/log" 2>&1 ||
    fail "cannot record without tables"
  share_of "without tables"
  ! grep -q '^Unwind tables:' "${dir}/log" || fail "--no-unwind-tables supplies tables"
  if [ ${err} = 0 ] && [ "${share}" -ge ${min_with} ]
  then
    skip "${program} has frame pointers or an SFrame section"
  fi
  [ "${share}" -le ${max_without} ] || fail "without tables: ${share}% are whole"
}

# has_tables WHAT COMMAND, has_no_tables WHAT COMMAND: check the output of -v.
has_tables() {
  local what=$1
  shift

  "$@" -v -- true > "${dir}/log" 2>&1 || fail "${what}: cannot record"
  grep -q '^Unwind tables: [1-9]' "${dir}/log" || fail "${what}: no unwind tables"
}

has_no_tables() {
  local what=$1
  shift

  "$@" -v -- true > "${dir}/log" 2>&1 || fail "${what}: cannot record"
  ! grep -q '^Unwind tables: ' "${dir}/log" || fail "${what}: unwind tables"
}

# The default: tables with deferred callchains, and no tables with others
test_default() {
  local any=(perf --buildid-dir "${dir}/cache" record -B -e cpu-clock:u -o "${data}")

  has_tables "fp,defer" "${record[@]}"
  has_tables "-g" "${any[@]}" -g
  has_no_tables "-g --no-unwind-tables" "${any[@]}" -g --no-unwind-tables
  has_no_tables "fp" "${any[@]}" --call-graph fp
  has_no_tables "no callchains" "${any[@]}"

  "${any[@]}" -g -- true > "${dir}/log" 2>&1 || fail "cannot record"
  # The directory's name is in it, too.
  if grep -v "${dir}" "${dir}/log" | grep -i 'unwind'
  then
    fail "the default is not silent"
  fi
}

test_config() {
  printf '[record]\n\tunwind-tables = false\n' > "${dir}/config"
  export PERF_CONFIG="${dir}/config"
  has_no_tables "record.unwind-tables = false" "${record[@]}"
  has_tables "record.unwind-tables = false, and the option" "${record[@]}" --unwind-tables
  printf '[record]\n\tunwind-tables = true\n' > "${dir}/config"
  has_tables "record.unwind-tables = true" "${record[@]}"
  has_no_tables "record.unwind-tables = true, and no option" "${record[@]}" --no-unwind-tables
  unset PERF_CONFIG
}

# An option without effect must warn. A configuration must not: it is for all sessions.
test_reason() {
  perf record -o "${data}" -e cpu-clock:u --unwind-tables -- true > "${dir}/log" 2>&1 ||
    fail "cannot record without callchains"
  grep -q '^WARNING: No unwind tables: no callchains' "${dir}/log" ||
    fail "no message about no callchains"
  perf record -o "${data}" -e cpu-clock:u --call-graph fp --unwind-tables -- true \
    > "${dir}/log" 2>&1 || fail "cannot record callchains"
  grep -q '^WARNING: No unwind tables: user callchains are not deferred' "${dir}/log" ||
    fail "no message about callchains that are not deferred"

  printf '[record]\n\tunwind-tables = true\n' > "${dir}/config"
  PERF_CONFIG="${dir}/config" perf record -o "${data}" -e cpu-clock:u -- true \
    > "${dir}/log" 2>&1 || fail "cannot record with a configuration"
  ! grep -q 'unwind tables' "${dir}/log" || fail "a configuration warns"
  PERF_CONFIG="${dir}/config" perf record -v -o "${data}" -e cpu-clock:u -- true \
    > "${dir}/log" 2>&1 || fail "cannot record with a configuration"
  grep -q '^No unwind tables: no callchains' "${dir}/log" ||
    fail "-v has no message about a configuration without effect"
}

# A program whose section of call frame information has an absurd size
test_uncovered() {
  local warning='^WARNING: 1 of [0-9]* files have no unwind table (too large)\.'

  damage_program "${dir}/damaged"
  perf --buildid-dir "${dir}/cache" record -N -e cpu-clock:u -F 499 -g --unwind-tables \
    -o "${data}" -- \
    "${dir}/damaged" -c "${loop}" 1 > "${dir}/log" 2>&1 || fail "cannot record a damaged program"
  if ! grep "${warning} [1-9][0-9.]* % of [1-9][0-9]* user stacks" "${dir}/log"
  then
    cat "${dir}/log"
    fail "no share of the stacks without tables"
  fi

  perf --buildid-dir "${dir}/cache" record -B -e cpu-clock:u -F 499 -g --unwind-tables \
    -o "${data}" -- \
    "${dir}/damaged" -c "${loop}" 0 > "${dir}/log" 2>&1 || fail "cannot record a damaged program"
  grep -q "${warning} User" "${dir}/log" ||
    fail "-B: no message about a file without a table"
}

# perf must not open what has taken the place of a removed file.
test_replaced() {
  local caps=-sys_admin,-checkpoint_restore without=() pid writer

  # A process with these capabilities can open the file through its mapping.
  if [ "$(id -u)" = 0 ]
  then
    without=(setpriv "--bounding-set=${caps}" "--inh-caps=${caps}")
    if ! "${without[@]}" true 2> /dev/null
    then
      echo "No setpriv that could drop capabilities: files that were replaced are not tested"
      return
    fi
  fi

  cp "${program}" "${dir}/replaced"
  "${dir}/replaced" -c "${loop}" 600 &
  pid=$!
  pids="${pids} ${pid}"
  wait_for 60 grep -q "${dir}/replaced" "/proc/${pid}/maps" || give_up "the program does not start"
  rm "${dir}/replaced"
  mkfifo "${dir}/replaced (deleted)"
  # It waits for someone who opens the FIFO.
  (echo > "${dir}/replaced (deleted)") 2> /dev/null &
  writer=$!
  pids="${pids} ${writer}"

  "${without[@]}" "${record[@]}" --unwind-tables -p "${pid}" -- timeout 60 "${BASH}" -c "${until}" \
    bash '^No unwind table for .*/replaced' "${dir}/log" > "${dir}/log" 2>&1 ||
    fail "cannot attach: $(cat "${dir}/log")"
  grep -q "^No unwind table for .*/replaced (deleted): No such file" "${dir}/log" || {
    cat "${dir}/log"
    fail "a file that was replaced is found"
  }
  kill -0 "${writer}" 2> /dev/null || fail "what is in the place of a file is opened"
  stop_tasks
}

# The same inode, first as a text, then as a program that has no table either
test_reused() {
  "${record[@]}" --unwind-tables -- "${program}" -c '
import mmap, sys, time
def use(data):
    with open(sys.argv[1], "wb") as file:
        file.write(data)
    with open(sys.argv[1], "rb") as file:
        map = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        time.sleep(1)
        map.close()
        map = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        time.sleep(1)
        map.close()
program = bytearray(open(sys.executable, "rb").read())
program[18:20] = b"\xb7\x00"
use(bytes(4096))
use(program)' "${dir}/reused" > "${dir}/log" 2>&1 || fail "cannot record"
  if [ "$(grep -c '^No unwind table for .*/reused: not an ELF file' "${dir}/log")" != 1 ] ||
     [ "$(grep -c '^No unwind table for .*/reused: not a program' "${dir}/log")" != 1 ]
  then
    cat "${dir}/log"
    fail "each content of a changed file is not examined exactly once"
  fi
}

# has_deaf_thread PID: a thread blocks signals. Other threads of perf may not.
has_deaf_thread() {
  local task mask

  for task in /proc/"$1"/task/*
  do
    [ "${task##*/}" != "$1" ] || continue
    mask=$(awk '/^SigBlk:/ { print $2 }' "${task}/status" 2> /dev/null) || continue
    # SIGINT, SIGUSR2, SIGALRM
    [ $((0x${mask:-0} & 0x2802)) != $((0x2802)) ] || return 0
  done
  return 1
}

# Signals that perf handles are not for the thread that makes tables.
test_signals() {
  local pid

  "${record[@]}" --unwind-tables -- sleep 600 > "${dir}/log" 2>&1 &
  pid=$!
  pids="${pids} ${pid}"
  wait_for 30 has_deaf_thread "${pid}" || fail "no thread of perf blocks signals"
  kill -INT "${pid}"
  wait "${pid}" || true
}

# A function without call frame information and without a frame pointer gets rules that follow
# from its instructions: after the tables of all files, in place of a table without them.
test_assembly() {
  if ! command -v cc > /dev/null
  then
    echo "assembly: not tested, as there is no compiler"
    return
  fi
  cat > "${dir}/assembly.s" << 'EOF'
	.text
	.globl spin
	.type spin, @function
spin:
	push	%rbp
	push	%rbx
	sub	$40, %rsp
	mov	%rdi, %rbp
1:	dec	%rbp
	jne	1b
	add	$40, %rsp
	pop	%rbx
	pop	%rbp
	ret
	.fill	600, 1, 0x90
	.size spin, . - spin
	.section .note.GNU-stack, "", @progbits
EOF
  cat > "${dir}/main.c" << 'EOF'
#include <stdlib.h>
#include <time.h>
void spin(unsigned long n);
int main(int argc, char **argv)
{
	time_t end = time(NULL) + atoi(argv[1]);

	while (time(NULL) < end)
		spin(100000);
	return 0;
}
EOF
  cc -O2 -o "${dir}/assembly" "${dir}/main.c" "${dir}/assembly.s" > "${dir}/log" 2>&1 ||
    give_up "cannot make a program: $(cat "${dir}/log")"
  "${record[@]}" -v --unwind-tables -- "${dir}/assembly" 5 > "${dir}/log" 2>&1 ||
    fail "cannot record assembly"
  grep -q "^Whole unwind table for ${dir}/assembly: " "${dir}/log" || {
    cat "${dir}/log"
    fail "no whole table for assembly"
  }
  # The first seconds may be without it.
  share_of "assembly"
  [ "${share}" -ge 50 ] || {
    tail -n 20 "${dir}/script"
    fail "assembly: ${share}% of the stacks are whole"
  }
}

check_support
test_command
test_assembly
test_script
test_children
test_short
test_not_kept
test_late
test_attach
test_replaced
test_reused
test_signals
test_default
test_config
test_reason
test_uncovered
test_without

finish
