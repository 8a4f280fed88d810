#!/bin/bash
# functions of stripped files have names
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
dir=$(mktemp -d /tmp/__perf_test.synthetic_symbols.XXXXX)

cleanup() {
  rm -rf "${dir}"
  trap - EXIT TERM INT
}

# shellcheck disable=SC2317 # The trap calls it.
trap_cleanup() {
  echo "Interrupted or failed"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

skip() {
  echo "Skip: $*"
  cleanup
  exit 2
}

give_up() {
  echo "Failed: $*"
  cleanup
  exit 1
}

for tool in cc nm objcopy objdump readelf strip
do
  command -v ${tool} > /dev/null || skip "no ${tool}"
done
perf check feature -q dwarf || skip "perf was built without libdw"

# Functions without CFI have names if perf derives their rules from instructions.
derives=
[ "$(uname -m)" != x86_64 ] || ! perf check feature -q auxtrace || derives=yes

# Nobody's configuration or cache may change what perf finds.
export PERF_CONFIG="${dir}/config" DEBUGINFOD_URLS=
: > "${PERF_CONFIG}"

cat > "${dir}/main.c" <<'EOF'
#include <time.h>

void plain(void);
void opaque1(void);
void opaque2(void);
volatile unsigned int sink;

#define SPIN(name, constant)						\
__attribute__((noinline)) name(void)					\
{									\
	unsigned int i, x = constant;					\
									\
	for (i = 0; i < 20000; i++)					\
		x = x * 1103515245u + constant;				\
	sink = x;							\
}

static void SPIN(hot1, 1)
static void SPIN(hot2, 2)
static void SPIN(hot3, 3)
static void SPIN(hot4, 4)
void SPIN(exported, 5)

int main(void)
{
	while (clock() < CLOCKS_PER_SEC) {
		hot1();
		hot2();
		hot3();
		hot4();
		exported();
		plain();
		opaque1();
		opaque2();
	}
	return 0;
}
EOF

# Functions that .eh_frame does not describe. They have names all the same, but for those
# that take their return address from the stack, which perf does not follow. perf does not
# look at less than 512 bytes of such code.
cat > "${dir}/plain.c" <<'EOF'
extern volatile unsigned int sink;

#define SPIN(name, constant)						\
static __attribute__((noinline)) void name(void)			\
{									\
	unsigned int i, x = constant;					\
									\
	for (i = 0; i < 20000; i++)					\
		x = x * 1664525u + constant;				\
	sink = x;							\
}

SPIN(plain1, 6)
SPIN(plain2, 7)

__attribute__((visibility("hidden"))) void plain(void)
{
	plain1();
	plain2();
}

#ifdef __x86_64__
#define OPAQUE(name)							\
asm(".pushsection .text\n"						\
    ".balign 16\n"							\
    ".globl " name "\n"							\
    ".hidden " name "\n"						\
    ".type " name ", @function\n"					\
    name ":\n"								\
    "	pop	%rdx\n"							\
    "	.fill	300, 1, 0x90\n"						\
    "	mov	$20000, %ecx\n"					\
    "1:	dec	%ecx\n"							\
    "	jnz	1b\n"							\
    "	jmp	*%rdx\n"						\
    ".size " name ", . - " name "\n"					\
    ".popsection\n")

OPAQUE("opaque1");
OPAQUE("opaque2");
#else
__attribute__((visibility("hidden"))) void opaque1(void)
{
	plain1();
}

__attribute__((visibility("hidden"))) void opaque2(void)
{
	plain2();
}
#endif
EOF

full="${dir}/full"
mkdir -p "${dir}/tree${dir}"
build() {
  cc -O1 -fno-omit-frame-pointer -funwind-tables -c -o "${dir}/main.o" "${dir}/main.c" &&
  cc -O1 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables \
     -c -o "${dir}/plain.o" "${dir}/plain.c" &&
  cc -rdynamic -Wl,--build-id -o "${full}" "${dir}/main.o" "${dir}/plain.o"
}
build > "${dir}/log" 2>&1 || skip "cannot build the program: $(cat "${dir}/log")"

# strip and objcopy keep the build-id, and the addresses.
prog="${dir}/prog"
strip -o "${prog}" "${full}"
cp "${full}" "${dir}/tree${prog}"

record() {
  local data=$1
  shift

  perf --buildid-dir "${dir}/cache" record -N -e cpu-clock:u -F 2000 -o "${data}" "$@" \
       > "${dir}/log" 2>&1
}

record "${dir}/data" "${prog}" || skip "cannot record cpu-clock: $(cat "${dir}/log")"

# run OUTPUT COMMAND...: perf COMMAND, which must succeed
run() {
  local output=$1
  shift

  if ! perf --buildid-dir "${dir}/cache" "$@" > "${dir}/${output}" 2> "${dir}/log" < /dev/null
  then
    cat "${dir}/log"
    give_up "perf $*"
  fi
}

# read_addresses FILE: for address(). nm takes seconds in an emulated guest.
declare -A addresses
read_addresses() {
  local addr name

  while read -r addr name
  do
    addresses["$1 ${name}"]=${addr}
  done < <(nm "$1" | awk 'NF == 3 { sub(/^0*/, "", $1); print "0x" $1, $3 }')
}

# address FUNCTION [FILE]: as in the names, without leading zeros
address() {
  echo "${addresses["${2:-${full}} $1"]}"
}
read_addresses "${full}"

# has FILE PATTERN WHAT: a line of the file contains the fixed string
has() {
  if ! grep -qF -- "$2" "${dir}/$1"
  then
    cat "${dir}/$1"
    give_up "$3: no $2"
  fi
}

has_not() {
  if grep -F -- "$2" "${dir}/$1"
  then
    give_up "$3: there is $2"
  fi
}

test_rows() {
  local f rows

  run rows report -i "${dir}/data" --stdio -q -s sym --dsos prog
  for f in hot1 hot2 hot3 hot4
  do
    rows=$(grep -cF "[.] prog[$(address ${f})]" "${dir}/rows" || true)
    [ "${rows}" = 1 ] || { cat "${dir}/rows"; give_up "${rows} rows of ${f}"; }
  done
  has rows "[.] exported" "symbol of .dynsym"
}

# The names are the same if the cache has the table of the file.
test_with_table() {
  run out sframe build "${prog}"
  run rows3 report -i "${dir}/data" --stdio -q -s sym --dsos prog
  cmp "${dir}/rows" "${dir}/rows3" || give_up "names differ if there is a table"
}

test_same_names() {
  local i

  record "${dir}/data2" "${prog}" || give_up "cannot record again: $(cat "${dir}/log")"
  run rows2 report -i "${dir}/data2" --stdio -q -s sym --dsos prog
  for i in rows rows2
  do
    grep -oE 'prog\[0x[0-9a-f]+\]' "${dir}/${i}" |
      grep -E "$(address hot1)|$(address hot2)|$(address hot3)|$(address hot4)" |
      sort > "${dir}/${i}.names"
  done
  cmp "${dir}/rows.names" "${dir}/rows2.names" || give_up "names differ between runs"

  run delta diff "${dir}/data" "${dir}/data2"
  has delta "[.] prog[$(address hot1)]" "perf diff"
}

# Each sample is in the same function as with the symbols.
test_grouping() {
  local i start unknown

  run names script -i "${dir}/data" -F ip,sym --dsos prog
  run symbols script -i "${dir}/data" -F ip,sym --dsos prog --symfs "${dir}/tree"

  nm "${full}" | awk '$2 ~ /[tT]/ { sub(/^0*/, "", $1); print "prog[0x" $1 "]", $3 }' \
    > "${dir}/addresses"
  awk 'NR == FNR { name[$1] = $2; next } $2 in name { $2 = name[$2] } { print $1, $2 }' \
      "${dir}/addresses" "${dir}/names" > "${dir}/mapped"
  # Neither those of the compiler's start files count, of which there may be a sample.
  unknown='^opaque'
  [ -n "${derives}" ] || unknown='^(opaque|plain)'
  awk -v unknown="${unknown}" \
      '$2 ~ unknown { $2 = "[unknown]" } { print $1, $2 }' "${dir}/symbols" > "${dir}/wanted"
  start='__do_global_dtors_aux|(de)?register_tm_clones|frame_dummy|_init|_fini'
  awk -v start="^(${start})$" '$2 ~ start { print $1 }' "${dir}/symbols" > "${dir}/skip"
  for i in wanted mapped
  do
    awk -v from="${dir}/skip" \
        'BEGIN { while ((getline addr < from) > 0) skip[addr] = 1 } !($1 in skip)' \
        "${dir}/${i}" > "${dir}/${i}.some"
    mv "${dir}/${i}.some" "${dir}/${i}"
  done
  if ! diff "${dir}/wanted" "${dir}/mapped" > "${dir}/out"
  then
    head "${dir}/out"
    give_up "samples are in other functions"
  fi
  has mapped " hot1" "grouping"
  [ -z "${derives}" ] || has mapped " plain1" "grouping"
  has mapped " [unknown]" "grouping"
}

test_real_symbols() {
  local partial="${dir}/partial/prog" linked="${dir}/linked/prog"

  mkdir -p "${dir}/partial" "${dir}/linked"
  strip -K hot2 -o "${partial}" "${full}"
  record "${dir}/data3" "${partial}" || give_up "cannot record: $(cat "${dir}/log")"
  run real report -i "${dir}/data3" --stdio -q -s sym --dsos prog
  has real "[.] hot2" "some symbols"
  has_not real "prog[$(address hot2)]" "some symbols"
  has real "[.] prog[$(address hot1)]" "some symbols"

  objcopy --only-keep-debug "${full}" "${linked}.debug"
  strip -o "${linked}" "${full}"
  (cd "${dir}/linked" && objcopy --add-gnu-debuglink=prog.debug prog)
  record "${dir}/data4" "${linked}" || give_up "cannot record: $(cat "${dir}/log")"
  run real report -i "${dir}/data4" --stdio -q -s sym --dsos prog
  has real "[.] hot1" "debug file"
  has_not real "prog[0x" "debug file"
}

# add_debugdata FROM TO: as distributions do; hot4 has no symbol
add_debugdata() {
  objcopy --only-keep-debug "${full}" "${dir}/debug"
  objcopy -S -K hot1 -K hot2 -K hot3 -K plain1 "${dir}/debug" "${dir}/mini"
  xz -c "${dir}/mini" > "${dir}/mini.xz"
  objcopy --add-section .gnu_debugdata="${dir}/mini.xz" "$1" "$2"
}

# damage FILE OFFSET BYTE: put the byte at the offset of the section header of .symtab
damage() {
  local headers index

  headers=$(readelf -hW "$1" | sed -n 's/^ *Start of section headers: *\([0-9]*\) .*/\1/p')
  index=$(readelf -SW "$1" | sed -n 's/^ *\[ *\([0-9]*\)\] \.symtab .*/\1/p')
  # A header has 64 bytes.
  printf '%b' "$3" |
    dd of="$1" bs=1 seek=$((headers + index * 64 + $2)) conv=notrunc status=none
}

# Symbols in the section .gnu_debugdata win, too.
test_debugdata() {
  local with="${dir}/with/prog" f

  if ! command -v xz > /dev/null || ! perf check feature -q lzma
  then
    echo "no xz, or perf is built without liblzma: .gnu_debugdata not tested"
    return
  fi
  mkdir -p "${dir}/with"
  add_debugdata "${prog}" "${with}"
  record "${dir}/data8" "${with}" || give_up "cannot record: $(cat "${dir}/log")"
  run mini_rows report -i "${dir}/data8" --stdio -q -s sym --dsos prog
  for f in hot1 hot2 hot3 plain1 exported
  do
    has mini_rows "[.] ${f}" ".gnu_debugdata"
    has_not mini_rows "prog[$(address ${f})]" ".gnu_debugdata"
  done
  has mini_rows "[.] prog[$(address hot4)]" ".gnu_debugdata"
  run annotated annotate -i "${dir}/data8" --stdio -s hot1
  has annotated "$(address hot1 | sed 's/^0x//'):" "annotate with .gnu_debugdata"

  # Damaged sections: no data, half of it, no ELF file, no section with names (sh_link),
  # symbols of 0 and of 1 byte (sh_entsize), and too much data
  : > "${dir}/empty"
  head -c 100 "${dir}/mini.xz" > "${dir}/half"
  echo "no ELF file" | xz -c > "${dir}/other"
  for f in '40 \xff' '56 \x00' '56 \x01'
  do
    cp "${dir}/mini" "${dir}/damaged"
    damage "${dir}/damaged" "${f% *}" "${f#* }"
    xz -c "${dir}/damaged" > "${dir}/damaged-${f% *}-${f#*x}"
  done
  { cat "${dir}/mini"; head -c 4000000 /dev/zero; } | xz -0 -c > "${dir}/large"
  cp "${with}" "${with}.full"
  for f in empty half other damaged-40-ff damaged-56-00 damaged-56-01 large
  do
    objcopy --update-section .gnu_debugdata="${dir}/${f}" "${with}.full" "${with}"
    run mini_rows report -i "${dir}/data8" --stdio -q -s sym --dsos prog
    has mini_rows "[.] prog[$(address hot1)]" "${f} .gnu_debugdata"
    has mini_rows "[.] exported" "${f} .gnu_debugdata"
  done
}

# A program that exports nothing still has a PLT with names.
test_plt() {
  mkdir -p "${dir}/plt"
  cc -s -o "${dir}/plt/prog" "${dir}/main.o" "${dir}/plain.o" > "${dir}/log" 2>&1 ||
    give_up "cannot link: $(cat "${dir}/log")"
  # perf test prints the symbols to stderr.
  run out test -F -vv --dso "${dir}/plt/prog" Symbols
  has log "clock@plt" "PLT"
}

test_static() {
  local static="${dir}/static/prog"

  mkdir -p "${dir}/static"
  if ! cc -static -o "${static}.full" "${dir}/main.o" "${dir}/plain.o" > "${dir}/log" 2>&1
  then
    echo "A static program cannot be linked: not tested"
    return
  fi
  strip -o "${static}" "${static}.full"
  read_addresses "${static}.full"
  record "${dir}/data5" "${static}" || give_up "cannot record: $(cat "${dir}/log")"
  run static_rows report -i "${dir}/data5" --stdio -q -s sym --dsos prog
  has static_rows "[.] prog[$(address hot1 "${static}.full")]" "static program"
  run annotated annotate -i "${dir}/data5" --stdio -s "prog[$(address hot1 "${static}.full")]"
  has annotated "$(address hot1 "${static}.full" | sed 's/^0x//'):" "annotated static program"

  command -v xz > /dev/null && perf check feature -q lzma || return 0
  objcopy -S -K hot1 "${static}.full" "${dir}/mini"
  xz -c "${dir}/mini" > "${dir}/mini.xz"
  mkdir -p "${dir}/static-with"
  objcopy --add-section .gnu_debugdata="${dir}/mini.xz" "${static}" "${dir}/static-with/prog"
  record "${dir}/data5" "${dir}/static-with/prog" || give_up "cannot record: $(cat "${dir}/log")"
  run static_rows report -i "${dir}/data5" --stdio -q -s sym --dsos prog
  has static_rows "[.] hot1" "static program with .gnu_debugdata"
  has static_rows "[.] prog[$(address hot2 "${static}.full")]" \
      "static program with .gnu_debugdata"
}

test_off() {
  run off report -i "${dir}/data" --stdio -q -s sym --dsos prog --no-synthetic-symbols
  has off "[.] exported" "perf report --no-synthetic-symbols"
  has_not off "prog[0x" "perf report --no-synthetic-symbols"
  run off diff --no-synthetic-symbols "${dir}/data" "${dir}/data2"
  has off "[.] exported" "perf diff --no-synthetic-symbols"
  has_not off "prog[0x" "perf diff --no-synthetic-symbols"
  run off annotate -i "${dir}/data" --stdio --no-synthetic-symbols
  has off "exported" "perf annotate --no-synthetic-symbols"
  has_not off "prog[0x" "perf annotate --no-synthetic-symbols"
  run off script -i "${dir}/data" -F ip,sym --dsos prog --no-synthetic-symbols
  has off "[unknown]" "perf script --no-synthetic-symbols"
  has_not off "prog[0x" "perf script --no-synthetic-symbols"

  printf '[core]\n\tsynthetic-symbols = false\n' > "${PERF_CONFIG}"
  run off script -i "${dir}/data" -F ip,sym --dsos prog
  has off "[unknown]" "core.synthetic-symbols"
  has_not off "prog[0x" "core.synthetic-symbols"
  : > "${PERF_CONFIG}"
}

test_annotate() {
  run annotated annotate -i "${dir}/data" --stdio -s "prog[$(address hot3)]"
  # The first instruction of the function, and one with samples
  grep -qE "^ +[0-9.]+ +: +$(address hot3 | sed 's/^0x//'):" "${dir}/annotated" ||
    { cat "${dir}/annotated"; give_up "annotate shows other code"; }
  grep -qE '^ +[1-9][0-9]*\.[0-9]+ +: ' "${dir}/annotated" ||
    { cat "${dir}/annotated"; give_up "annotate shows no samples"; }
}

# perf probe defines probes by name, so it must not offer these names.
test_probe() {
  run functions probe -x "${prog}" -F
  has functions "exported" "perf probe -F"
  has_not functions "prog[" "perf probe -F"
  if perf probe -x "${prog}" -D "x=prog[$(address hot1)]" > "${dir}/out" 2>&1
  then
    cat "${dir}/out"
    give_up "perf probe takes a synthetic name"
  fi
}

test_no_eh_frame() {
  local without="${dir}/without/prog"

  mkdir -p "${dir}/without"
  objcopy --remove-section .eh_frame --remove-section .eh_frame_hdr "${prog}" "${without}"
  record "${dir}/data6" "${without}" || give_up "cannot record: $(cat "${dir}/log")"
  run without_rows script -i "${dir}/data6" -F ip,sym --dsos prog
  has without_rows "exported" "no .eh_frame"
  has without_rows "[unknown]" "no .eh_frame"
  has_not without_rows "prog[0x" "no .eh_frame"
}

# Converters and flame graphs
test_scripts() {
  local d script=

  record "${dir}/data7" --call-graph fp "${prog}" ||
    give_up "cannot record callchains: $(cat "${dir}/log")"

  if perf check feature -q libtraceevent
  then
    run out data convert -i "${dir}/data7" --to-json "${dir}/json"
    has json "prog[$(address hot1)]" "perf data convert"
  fi

  if ! perf version --build-options | grep libpython | grep -q '\[ on'
  then
    echo "perf is built without libpython: scripts not tested"
    return
  fi
  for d in "${PERF_EXEC_PATH}" "$(perf --exec-path)" "${shelldir}/../.."
  do
    [ -n "${script}" ] || [ ! -e "${d}/scripts/python/flamegraph.py" ] ||
      script="${d}/scripts/python"
  done
  [ -n "${script}" ] || { echo "Scripts are not installed: not tested"; return; }

  run folded script -i "${dir}/data7" -s "${script}/stackcollapse.py"
  has folded ";prog[$(address hot1)] " "stackcollapse.py"
  has folded ";prog[$(address hot2)] " "stackcollapse.py"

  run out script -i "${dir}/data7" -s "${script}/flamegraph.py" -- -f json -o "${dir}/flames"
  has flames "\"prog[$(address hot1)]\"" "flamegraph.py"
  has flames "\"prog[$(address hot2)]\"" "flamegraph.py"
  has flames "in prog]\"" "flamegraph.py"
  [ -z "${derives}" ] || has flames "\"prog[$(address plain1)]\"" "flamegraph.py"
  # One box for opaque1() and opaque2() would be wrong.
  has_not flames "\"[unknown]\"" "flamegraph.py"

  run out script -i "${dir}/data7" -s "${script}/flamegraph.py" -- -f json --merge-unknown \
      -o "${dir}/flames"
  has flames "\"[unknown]\"" "flamegraph.py --merge-unknown"
}

test_rows
test_with_table
test_same_names
test_grouping
test_real_symbols
test_debugdata
test_plt
test_static
test_off
test_annotate
test_probe
test_no_eh_frame
test_scripts

cleanup
exit 0
