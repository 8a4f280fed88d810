#!/bin/bash
# perf sframe makes, shows, checks and keeps SFrame tables
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.sframe.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

program=$(readlink -f "$(command -v perf)")
sframe=(perf --buildid-dir "${dir}/cache" sframe)

# In percent of what the program describes
min_covered=99

check_support() {
  if [ "$(uname -m)" != x86_64 ]
  then
    skip "only x86-64 has SFrame tables"
  fi

  if ! perf check feature -q dwarf
  then
    # Without libdw, only the error message can be tested.
    ! "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || give_up "tables without libdw"
    grep -q 'built without libdw' "${dir}/log" || give_up "no message about libdw"
    skip "perf was built without libdw"
  fi
}

# Other files to compare if they are installed, and the percentage that must be the
# same. libcrypto has a few functions whose CFA is an expression that SFrame does not
# support.
installed="libc.so.6:99.9 libstdc++.so.6:99.9 libcrypto.so.3:99.8 cc1:99.9 python3:99.9 git:99.9"

# enough WHAT [MIN]: a number in front of "% WHAT" in the log is at least MIN.
enough() {
  awk -v what="% $1" -v min="${2:-${min_covered}}" '
    match($0, /[0-9.]+%[a-z ]*/) {
      number = $0
      sub(what ".*", "", number)
      sub(/.* /, "", number)
      if (number + 0 >= min)
        found = 1
    }
    END { exit !found }' "${dir}/log"
}

test_build() {
  echo "Make a table"
  "${sframe[@]}" build -o "${dir}/table" "${program}" > "${dir}/log" 2>&1 ||
    fail "cannot make a table"
  enough of || fail "the table covers too little: $(cat "${dir}/log")"
}

test_show() {
  echo "Show a table"
  "${sframe[@]}" show "${dir}/table" > "${dir}/log" 2>&1 || fail "cannot show a table"
  grep -q '^SFrame version 3 for AMD64' "${dir}/log" || fail "no header is shown"
  grep -q 'cfa rsp+8 ra \*(cfa-8) fp same' "${dir}/log" || fail "no rule is shown"

  # The same table, made by 'show'.
  "${sframe[@]}" show -g "${program}" > "${dir}/log2" 2>&1 || fail "cannot show a program"
  cmp -s <(tail -n +2 "${dir}/log") <(tail -n +2 "${dir}/log2") ||
    fail "a table and a program are shown differently"

  head -c 1000 "${dir}/table" > "${dir}/cut"
  ! "${sframe[@]}" show "${dir}/cut" > "${dir}/log" 2>&1 || fail "half a table is shown"
  grep -q damaged "${dir}/log" || fail "no message about a table that was cut"
}

test_check() {
  echo "Compare a table with libdw"
  "${sframe[@]}" check -t "${dir}/table" -n 5 "${program}" > "${dir}/log" 2>&1 ||
    fail "a table is different: $(cat "${dir}/log")"
  enough same || fail "too little is the same: $(cat "${dir}/log")"

  # Make a table wrong: change an offset of a row. The last rows may be derived from
  # instructions, which are not compared, or the change may damage the table.
  other=$(type -P true)
  "${sframe[@]}" build -o "${dir}/right" "${other}" > "${dir}/log" 2>&1 ||
    fail "cannot make another table"
  size=$(stat -c %s "${dir}/right")
  for back in $(seq 1 200)
  do
    cp "${dir}/right" "${dir}/wrong"
    byte=$(tail -c "${back}" "${dir}/wrong" | head -c 1 | od -An -tu1)
    printf '%b' "$(printf '\\x%02x' $((byte ^ 8)))" |
      dd of="${dir}/wrong" bs=1 seek=$((size - back)) conv=notrunc status=none
    if ! "${sframe[@]}" check -t "${dir}/wrong" -n 5 "${other}" > "${dir}/log" 2>&1 &&
       grep -q ' different: ' "${dir}/log"
    then
      return
    fi
  done
  fail "no wrong table is different"
}

# A library with 16 bytes of a function, 32 of one whose CFI names a register that does
# not exist, and 80 without CFI
make_parts() {
  cat > "${dir}/parts.s" << 'EOF'
	.text
good:
	.cfi_startproc
	.skip	16, 0x90
	.cfi_endproc
outrageous:
	.cfi_startproc
	.cfi_escape 0x07, 0x80, 0xda, 0xc4, 0x09
	.skip	32, 0x90
	.cfi_endproc
none:
	.skip	80, 0x90
	.section .note.GNU-stack, "", @progbits
EOF
  cc -shared -nostdlib -o "${dir}/parts.so" "${dir}/parts.s" > "${dir}/log" 2>&1
}

test_parts() {
  echo "Compare a table with a file that describes more than libdw gets"
  if ! command -v cc > /dev/null
  then
    echo "not compared, as there is no compiler"
    return
  fi
  make_parts || give_up "cannot make a library: $(cat "${dir}/log")"
  "${sframe[@]}" check -n 5 "${dir}/parts.so" > "${dir}/log" 2>&1 ||
    fail "a table is different: $(cat "${dir}/log")"
  cat "${dir}/log"
  grep -q ': 48 bytes described, 33.333% same, signal 0, missing 32, ' "${dir}/log" ||
    fail "code that libdw does not get is not counted as missing"
  grep -q ', unread 32; 37.500% of 128 executable bytes described$' "${dir}/log" ||
    fail "code without call frame information does not count"
  ! perf check feature -q auxtrace ||
    grep -q '^ *100.000% of 48 bytes that are neither padding nor data ' "${dir}/log" ||
    fail "padding between functions counts as code"
  grep -q ' unread: no rule$' "${dir}/log" || fail "code that libdw does not get is not shown"

  # All of it is left out, so that there is no table.
  sed -i '/^good:/,/cfi_endproc/d' "${dir}/parts.s"
  cc -shared -nostdlib -o "${dir}/parts.so" "${dir}/parts.s" > "${dir}/log" 2>&1 ||
    give_up "cannot make a library: $(cat "${dir}/log")"
  "${sframe[@]}" check "${dir}/parts.so" > "${dir}/log" 2>&1 ||
    fail "a file without a table is not compared: $(cat "${dir}/log")"
  grep -q ': 32 bytes described, 0.000% same, signal 0, missing 32, .*; 28.571% of 112 ' \
    "${dir}/log" || fail "not all code is counted as missing: $(cat "${dir}/log")"
}

# A library with 1000 bytes that CFI describes, wrongly at the second of its three
# instructions, and some without CFI: a function that is called, padding, one that is exported
# and pushes $1 words, and one that does not restore the stack
make_code() {
  cat > "${dir}/code.s" << EOF
	.text
	.globl described, exported, broken
	.type described, @function
	.type exported, @function
	.type broken, @function
described:
	.cfi_startproc
	push	%rbx
	pop	%rbx
	jmp	called
	.skip	993, 0x90
	.cfi_endproc
called:
	push	%rbp
	xor	%ebp, %ebp
	pop	%rbp
	ret
	.balign	16
exported:
	.rept	$1
	push	%rbx
	.endr
	.fill	500, 1, 0x90
	add	\$8 * $1, %rsp
	ret
	.balign	16
broken:
	push	%rbx
	ret
	.section .note.GNU-stack, "", @progbits
EOF
  cc -shared -nostdlib -Wl,--build-id=0x0102030405060708 -o "${dir}/code.so" "${dir}/code.s" \
    > "${dir}/log" 2>&1
}

test_code() {
  echo "Make a table of code without call frame information"
  if ! command -v cc > /dev/null
  then
    echo "not made, as there is no compiler"
    return
  fi
  make_code 1 || give_up "cannot make a library: $(cat "${dir}/log")"
  "${sframe[@]}" show "${dir}/code.so" > "${dir}/log" 2>&1 || fail "cannot show a library"
  # In front of the rules is the line of their function.
  grep -A 1 ' derived$' "${dir}/log" | grep -q 'cfa rsp+8 ra \*(cfa-8) fp same' ||
    fail "no rules are derived: $(cat "${dir}/log")"
  grep -q 'cfa rsp+16 ra \*(cfa-8) fp \*(cfa-16)' "${dir}/log" ||
    fail "the function that is called has no rules: $(cat "${dir}/log")"

  "${sframe[@]}" check -i -n 5 "${dir}/code.so" > "${dir}/log" 2>&1 ||
    fail "derived rules count as different: $(cat "${dir}/log")"
  cat "${dir}/log"
  grep -q 'described, 3[0-9.]*% derived; instructions: [0-9]* agree, 1 differ, 0 open$' \
    "${dir}/log" || fail "wrong numbers: $(cat "${dir}/log")"
  grep -q 'instructions disagree: cfa rsp+8 ra \*(cfa-8) fp same, not cfa rsp+16 ra' "${dir}/log" ||
    fail "no word about wrong call frame information"
  grep -q 'no rule, because: stack not restored 2$' "${dir}/log" ||
    fail "no reason why code has no rule"
  grep -q '^ *99.868% of 1513 bytes that are neither padding nor data ' "${dir}/log" ||
    fail "wrong share of code with rules"

  # Other code with the same CFI and the same build-id
  "${sframe[@]}" build "${dir}/code.so" > "${dir}/log" 2>&1 || fail "no table is made"
  "${sframe[@]}" build "${dir}/code.so" > "${dir}/log" 2>&1 || fail "no table is found"
  grep -q ' 0 tables made, 1 in the cache' "${dir}/log" || fail "the table is not in the cache"

  # Of a copy, the code is read once, and the table is stored again. It knows both from then on.
  table="${dir}/cache/.sframe/01/02030405060708"
  cp "${dir}/code.so" "${dir}/copy.so"
  for file in copy code copy
  do
    before=$(stat -c %i "${table}")
    "${sframe[@]}" build "${dir}/${file}.so" > "${dir}/log" 2>&1 || fail "no table of ${file}.so"
    grep -q ' 0 tables made, 1 in the cache' "${dir}/log" ||
      fail "the table does not serve ${file}.so"
    [ "$(stat -c %i "${table}")" = "${before}" ] || echo "stored for ${file}"
  done > "${dir}/stored"
  [ "$(cat "${dir}/stored")" = "stored for copy" ] ||
    fail "the table is stored wrongly: $(cat "${dir}/stored")"

  make_code 2 || give_up "cannot make a library: $(cat "${dir}/log")"
  "${sframe[@]}" build "${dir}/code.so" > "${dir}/log" 2>&1 || fail "no table of other code"
  grep -q ' 1 tables made, 0 in the cache' "${dir}/log" ||
    fail "the table of other code is used: $(cat "${dir}/log")"
  rm -r "${dir}/cache"
}

# The functions of crtbegin.o have no CFI in most distributions. One of them is a destructor.
test_constructors() {
  echo "Make a table of a library with constructors and destructors"
  if ! command -v cc > /dev/null
  then
    echo "not made, as there is no compiler"
    return
  fi
  echo 'int function(void) { return 0; }' > "${dir}/ctors.c"
  cc -shared -fPIC -o "${dir}/ctors.so" "${dir}/ctors.c" > "${dir}/log" 2>&1 ||
    give_up "cannot make a library: $(cat "${dir}/log")"
  "${sframe[@]}" check "${dir}/ctors.so" > "${dir}/log" 2>&1 || fail "wrong rules"
  cat "${dir}/log"
  grep -q '^ *100.000% of .* described or derived$' "${dir}/log" ||
    fail "code of a library has no rule"

  # Nobody calls the start of a program: it has no return address.
  cat > "${dir}/start.s" << EOF
	.globl	_start
_start:
	mov	\$60, %eax
	syscall
	hlt
	.balign	16
	.cfi_startproc
	ret
	.cfi_endproc
	.section .note.GNU-stack, "", @progbits
EOF
  cc -nostdlib -static -o "${dir}/start" "${dir}/start.s" > "${dir}/log" 2>&1 ||
    give_up "cannot make a program: $(cat "${dir}/log")"
  "${sframe[@]}" show "${dir}/start" > "${dir}/log" 2>&1 || fail "cannot show a program"
  if grep '^[0-9a-f]*-[0-9a-f]* derived$' "${dir}/log"
  then
    fail "the start of a program has a caller"
  fi
}

# find_installed NAME: the path of a program, of a part of the compiler, or a library
find_installed() {
  local file

  for file in /usr/bin/"$1" "$(gcc -print-prog-name="$1" 2> /dev/null || true)" \
    /usr/lib/x86_64-linux-gnu/"$1" /usr/lib64/"$1" /lib64/"$1" /usr/lib/"$1"
  do
    [ "${file#/}" != "${file}" ] && [ -f "${file}" ] || continue
    echo "${file}"
    return
  done
  return 1
}

test_installed() {
  echo "Compare tables of installed programs and libraries with libdw"
  local entry file name

  for entry in ${installed}
  do
    name=${entry%:*}
    if ! file=$(find_installed "${name}")
    then
      echo "not compared, as it is not installed: ${name}"
      continue
    fi
    "${sframe[@]}" check -n 5 "${file}" > "${dir}/log" 2>&1 ||
      fail "a table is different: $(cat "${dir}/log")"
    cat "${dir}/log"
    enough same "${entry#*:}" || fail "too little of ${name} is the same"
  done
}

test_cache() {
  echo "Keep tables"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot make a table"
  grep -q '^1 files: 1 tables made, 0 in the cache' "${dir}/log" || fail "no table was made"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot find a table"
  grep -q '^1 files: 0 tables made, 1 in the cache' "${dir}/log" ||
    fail "a table was made although it is in the cache"

  table=$(find "${dir}/cache/.sframe" -type f)
  cmp -s "${table}" "${dir}/table" || fail "the table in the cache is different"
  "${sframe[@]}" cache list > "${dir}/log" || fail "cannot list the cache"
  grep -q "^$(basename "$(dirname "${table}")")$(basename "${table}") " "${dir}/log" ||
    fail "a table is not listed"
  grep -q "^1 tables, $(stat -c %s "${table}") bytes, 0 stale" "${dir}/log" ||
    fail "the size of the cache is wrong"

  truncate -s -1 "${table}"
  "${sframe[@]}" cache size > "${dir}/log" || fail "cannot tell the size of the cache"
  grep -q '1 stale' "${dir}/log" || fail "a table that was cut is not stale"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot make a table anew"
  grep -q '^1 files: 1 tables made' "${dir}/log" || fail "a table that was cut is used"
  cmp -s "${table}" "${dir}/table" || fail "a table that was cut is still there"

  # A different file with the same build-id. Its first CIE has a different CFA. The
  # bytes of the CIE are DW_CFA_def_cfa rsp+8, DW_CFA_offset rip at CFA-8.
  cp "${program}" "${dir}/changed"
  at=$(LC_ALL=C grep -abo -P -m 1 '\x0c\x07\x08\x90\x01' "${program}" | head -n 1 | cut -d: -f1)
  [ -n "${at}" ] || give_up "no CIE is found"
  printf '\x10' | dd of="${dir}/changed" bs=1 seek=$((at + 2)) conv=notrunc status=none
  "${sframe[@]}" build -o "${dir}/changed.table" "${dir}/changed" > "${dir}/log" 2>&1 ||
    give_up "cannot make a table of a changed file"
  ! cmp -s "${dir}/table" "${dir}/changed.table" || give_up "the change makes no difference"
  "${sframe[@]}" build "${dir}/changed" > "${dir}/log" 2>&1 ||
    fail "cannot make a table of a changed file"
  grep -q '^1 files: 1 tables made, 0 in the cache' "${dir}/log" ||
    fail "a changed file gets the table of the original"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot make it again"
  cmp -s "${table}" "${dir}/table" || fail "the original gets the table of a changed file"

  # The same with other addresses.
  cp "${program}" "${dir}/other"
  if command -v objcopy > /dev/null && objcopy --change-section-address \
    .eh_frame+4096 "${dir}/other" "${dir}/moved" 2> /dev/null
  then
    "${sframe[@]}" build "${dir}/moved" > "${dir}/log" 2>&1 ||
      fail "cannot make a table of a moved section: $(cat "${dir}/log")"
    grep -q '^1 files: 1 tables made, 0 in the cache' "${dir}/log" ||
      fail "the table of another file with the same build-id is used"
    "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot make it again"
  fi

  "${sframe[@]}" cache prune --older 1 > "${dir}/log" || fail "cannot prune"
  grep -q '^0 tables removed' "${dir}/log" || fail "a new table is removed"
  touch -d '3 days ago' "${table}"
  "${sframe[@]}" cache prune --older 2 > "${dir}/log" || fail "cannot prune by age"
  grep -q '^1 tables removed' "${dir}/log" || fail "an old table is kept"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot fill the cache"
  "${sframe[@]}" cache prune --max-size 1K > "${dir}/log" || fail "cannot prune by size"
  grep -q '^1 tables removed, .*; 0 bytes are left' "${dir}/log" || fail "the cache is too large"
}

# fill_cache: after this, the cache contains only the table of the program
fill_cache() {
  rm -rf "${dir}/cache"
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "cannot fill the cache"
  table=$(find "${dir}/cache/.sframe" -type f)
}

is_made_anew() {
  "${sframe[@]}" build "${program}" > "${dir}/log" 2>&1 || fail "$1: cannot make a table"
  grep -q '^1 files: 1 tables made, 0 in the cache' "${dir}/log" || fail "$1: it is used"
}

# perf trusts the tables, so they must not belong to another user.
test_owner() {
  echo "A cache of someone else"
  fill_cache
  sub=$(dirname "${table}")
  mv "${sub}" "${dir}/elsewhere"
  ln -s "${dir}/elsewhere" "${sub}"
  is_made_anew "a symbolic link in the cache"
  rm "${dir}/elsewhere"/*
  is_made_anew "a symbolic link in the cache"
  [ -z "$(ls -A "${dir}/elsewhere")" ] || fail "a table is put where a symbolic link leads"

  if [ "$(id -u)" != 0 ]
  then
    echo "Not root: the cache of another user is not tested"
    return
  fi
  for what in "${dir}/cache" "${dir}/cache/.sframe" "${sub}" "${table}"
  do
    fill_cache
    chown -h 65534 "${what}"
    is_made_anew "${what} of another user"
  done

  fill_cache
  chown 65534 "${dir}/cache/.sframe"
  ! "${sframe[@]}" cache prune --max-size 0B > "${dir}/log" 2>&1 ||
    fail "the cache of another user is pruned"
  [ -e "${table}" ] || fail "a table of another user is removed"
  rm -rf "${dir}/cache"
}

test_many() {
  echo "Many files"
  mkdir "${dir}/many"
  for i in 1 2 3 4 5 6 7 8
  do
    cp "${program}" "${dir}/many/program${i}"
    echo "${i}" > "${dir}/many/text${i}"
  done

  "${sframe[@]}" build -f -j 4 "${dir}/many" > "${dir}/log" 2>&1 || fail "cannot make many"
  grep -q '^16 files: 8 tables made, 0 in the cache, 8 skipped, 0 failed' "${dir}/log" ||
    fail "other numbers than expected: $(cat "${dir}/log")"
  # The headers say which copy a table was made from.
  cmp -s -i 192 "$(find "${dir}/cache/.sframe" -type f)" "${dir}/table" ||
    fail "threads make another table"
  "${sframe[@]}" check -j 4 "${dir}/many/program1" "${dir}/many/program2" > "${dir}/log" 2>&1 ||
    fail "cannot check many: $(cat "${dir}/log")"

  # A directory may be named by a link. One without files is most likely a mistake.
  ln -s many "${dir}/link"
  "${sframe[@]}" build "${dir}/link" > "${dir}/log" 2>&1 || fail "cannot follow a link"
  grep -q '^16 files: 0 tables made, 8 in the cache, 8 skipped, 0 failed' "${dir}/log" ||
    fail "wrong numbers for a link to a directory: $(cat "${dir}/log")"
  mkdir "${dir}/empty"
  for command in build check
  do
    ! "${sframe[@]}" "${command}" "${dir}/empty" > "${dir}/log" 2>&1 ||
      fail "${command}: an empty directory is no error"
    grep -q 'empty: no files' "${dir}/log" || fail "${command}: no message about an empty directory"
  done
  # The other directories must still be used.
  ! "${sframe[@]}" build "${dir}/empty" "${dir}/many" > "${dir}/log" 2>&1 ||
    fail "an empty directory beside another is no error"
  grep -q '^16 files: 0 tables made, 8 in the cache, 8 skipped, 0 failed' "${dir}/log" ||
    fail "wrong numbers with an empty directory: $(cat "${dir}/log")"

  # A file that is named must be a program.
  ! "${sframe[@]}" build "${dir}/many/text1" > "${dir}/log" 2>&1 || fail "a text file gets a table"
  grep -q 'text1: not an ELF file' "${dir}/log" || fail "no message about a text"
  ! "${sframe[@]}" build "${dir}/many/none" > "${dir}/log" 2>&1 || fail "a missing file gets a table"
  grep -q 'none: No such file' "${dir}/log" || fail "no message about a missing file"
}

# Threads that make the directories of the cache at the same time
test_new_cache() {
  echo "A new cache"
  local small i

  small=$(type -P true)
  mkdir "${dir}/small"
  for i in 1 2 3 4 5 6 7 8
  do
    cp "${small}" "${dir}/small/program${i}"
  done
  for i in $(seq 20)
  do
    rm -rf "${dir}/cache"
    "${sframe[@]}" build -f -j 8 "${dir}/small" > "${dir}/log" 2>&1 ||
      fail "not all are made: $(cat "${dir}/log")"
  done
}

check_support
test_build
test_show
test_check
test_parts
test_code
test_constructors
test_installed
test_cache
test_owner
test_many
test_new_cache

finish
