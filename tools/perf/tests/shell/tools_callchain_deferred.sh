#!/bin/bash
# perf tools show deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/setup_python.sh
. "${shelldir}"/lib/setup_python.sh

# Bytes at the start of a CTF packet: a magic number and a random UUID
ctf_random=20
dir=$(mktemp -d /tmp/__perf_test.tools_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

# run KIND COMMAND: FILE in the command stands for the data of that kind. In the output,
# the name of the data is replaced by FILE.
run() {
  local kind=$1
  shift

  if ! "${@//FILE/${dir}/${kind}}" > "${dir}/out.${kind}" 2> "${dir}/log.${kind}"
  then
    cat "${dir}/log.${kind}"
    fail "$* (${kind})"
  fi
  sed -i "s,${dir}/${kind},FILE,g" "${dir}/out.${kind}"
}

# The tool shows the same as if the kernel had not deferred anything. MIN lines at
# least are expected, so that a tool that shows nothing does not pass.
check_same() {
  local what=$1 kinds=$2 min=$3 kind merged=merged
  shift 3

  # Data with memory accesses are compared with merged.mem.
  [[ "${kinds}" != *.mem ]] || merged=merged.mem
  run "${merged}" "$@"
  if [ "$(wc -l < "${dir}/out.${merged}")" -lt "${min}" ]
  then
    fail "${what}: shows nothing"
  fi
  for kind in ${kinds}
  do
    run "${kind}" "$@"
    if ! cmp "${dir}/out.${merged}" "${dir}/out.${kind}"
    then
      diff "${dir}/out.${merged}" "${dir}/out.${kind}" | head -n 10
      fail "${what}: ${kind} is not the same as merged"
    fi
  done
  echo "${what}: compared"
}

test_basic() {
  check_same "report, folded" "file pipe" 100 \
    perf report -i FILE --stdio --no-children -g folded,0,callee
  check_same "report, caller" "file" 100 perf report -i FILE --stdio -g caller
  check_same "report, children" "file" 100 perf report -i FILE --stdio --children -g callee
  check_same "script" "file pipe" 1000 perf script -i FILE
  check_same "script, fields" "file pipe" 1000 perf script -i FILE -F tid,time,ip,sym,dso,period
  check_same "diff" "file" 5 perf diff "${dir}/merged" FILE
}

# shows WHAT TEXT...: the last output for merged.mem has each TEXT.
shows() {
  local what=$1 text
  shift

  for text
  do
    if ! grep -qw "${text}" "${dir}/out.merged.mem"
    then
      fail "${what}: does not show ${text}"
    fi
  done
}

# Memory accesses of a program that is mapped again in between. In later samples, the
# functions g take the place of f, and h that of g.
test_mem() {
  check_same "script, mem" "file.mem pipe.mem" 1000 perf script -i FILE -F tid,time,addr,ip,sym
  check_same "mem report" "file.mem pipe.mem" 1000 \
    perf mem report -i FILE --stdio -g folded,0,callee
  shows "mem report" 'f1;f2;f3;f4;f5;f6;f7;f8' 'h1;h2;h3;h4;h5;h6;h7;h8'
  check_same "mem report, raw" "file.mem pipe.mem" 1000 perf mem report -i FILE -D
  shows "mem report, raw" f1 g1 h1
  # It does not read from pipes.
  check_same "c2c" "file.mem" 500 \
    perf c2c report -i FILE --stdio -g folded,0,callee
  shows "c2c" 'f1;f2;f3;f4;f5;f6;f7;f8' 'h1;h2;h3;h4;h5;h6;h7;h8'

  if ! type objdump > /dev/null 2>&1
  then
    echo "objdump is not there, annotate is not run"
    return
  fi
  check_same "annotate" "file.mem pipe.mem" 50 perf annotate -i FILE --stdio
  shows "annotate" f1 g1 h1 '500 samples' '250 samples'
}

test_scripting() {
  cat > "${dir}/chains.py" <<EOF
def process_event(event):
    print(event['sample']['time'], [hex(c['ip']) for c in event['callchain']])
EOF
  cat > "${dir}/chains.pl" <<'EOF'
sub process_event {
  my ($event, $attr, $sample, $raw_data, $callchain) = @_;
  print join(" ", map { sprintf("%x", $_->{ip}) } @$callchain), "\n";
}
EOF
  if has libpython
  then
    check_same "python" "file pipe" 1000 perf script -i FILE -s "${dir}/chains.py"
    if ! grep -q 0x400014 "${dir}/out.file"
    then
      fail "python: no user callchain"
    fi
    for script in stackcollapse flamegraph
    do
      test_python_script "${script}"
    done
  else
    echo "perf is built without Python, that part is not run"
  fi
  if has libperl
  then
    check_same "perl" "file pipe" 1000 perf script -i FILE -s "${dir}/chains.pl"
  else
    echo "perf is built without Perl, that part is not run"
  fi
}

test_python_script() {
  local source path

  # In the source tree, where the tests are, or installed
  source=$(cd "${shelldir}"/../.. && pwd)
  [ ! -e "${source}/scripts/python/$1.py" ] || export PERF_EXEC_PATH="${source}"
  path="$(perf --exec-path)/scripts/python/$1.py"
  if [ ! -e "${path}" ]
  then
    echo "$1.py is not there, that part is not run"
    return
  fi

  if [ "$1" = flamegraph ]
  then
    # It calls perf for a header, and wants a template for HTML only.
    (cd "${dir}"
     for kind in merged file pipe
     do
       perf script -i ${kind} -s "${path}" -- -f json -o "${dir}/flame.${kind}" \
         > /dev/null 2> "${dir}/log" ||
         cat "${dir}/log"
     done)
    if ! [ -s "${dir}/flame.merged" ] ||
       ! cmp "${dir}/flame.merged" "${dir}/flame.file" ||
       ! cmp "${dir}/flame.merged" "${dir}/flame.pipe"
    then
      fail "flamegraph: not the same as merged"
    fi
    echo "flamegraph: compared"
  else
    check_same "$1" "file pipe" 10 perf script -i FILE -s "${path}"
  fi
}

test_convert() {
  local kind

  for kind in merged file
  do
    perf data convert -i "${dir}/${kind}" --to-json "${dir}/${kind}.json" > "${dir}/log" 2>&1 ||
      { cat "${dir}/log"; fail "to-json ${kind}"; }
  done
  if ! "${PYTHON}" - "${dir}/merged.json" "${dir}/file.json" <<'EOF'
import json
import sys
merged, deferred = (json.load(open(name))['samples'] for name in sys.argv[1:])
times = [s['timestamp'] for s in deferred]
sys.exit(merged != deferred or len(merged) < 1000 or times != sorted(times) or
         len(merged[0]['callchain']) != 10)
EOF
  then
    fail "to-json: not the same as merged"
  fi
  echo "to-json: compared"

  if ! perf data convert -i "${dir}/merged" --to-ctf "${dir}/ctf.merged" > "${dir}/log" 2>&1
  then
    if grep -q 'unknown option\|not compiled in' "${dir}/log"
    then
      echo "perf is built without libbabeltrace, that part is not run"
      return
    fi
    cat "${dir}/log"
    fail "to-ctf of merged"
  fi
  perf data convert -i "${dir}/file" --to-ctf "${dir}/ctf.file" > "${dir}/log" 2>&1 ||
    { cat "${dir}/log"; fail "to-ctf"; }
  if ! [ -s "${dir}/ctf.merged/perf_stream_0" ] ||
     ! cmp -i "${ctf_random}" "${dir}/ctf.merged/perf_stream_0" "${dir}/ctf.file/perf_stream_0"
  then
    fail "to-ctf: not the same as merged"
  fi
  echo "to-ctf: compared"
}

# Later versions have longer attrs. perf can read them if the part that it does not know
# is zero.
test_longer_attr() {
  local kind pipe

  for kind in file pipe
  do
    pipe=
    [ "${kind}" = file ] || pipe=--pipe
    # shellcheck disable=SC2086
    generate --attr-size 144 ${pipe} "${dir}/${kind}.longer"
    # shellcheck disable=SC2086
    generate --attr-size 144 --attr-set ${pipe} "${dir}/${kind}.later"
    if perf script -i "${dir}/${kind}.later" > "${dir}/out" 2> "${dir}/log" ||
       ! grep -q 'of a later version' "${dir}/log"
    then
      cat "${dir}/log"
      fail "${kind}: an attr with unknown bits set is accepted"
    fi
    # perf inject writes attrs of its own size.
    perf inject -i "${dir}/${kind}.longer" -o "${dir}/${kind}.injected" 2> "${dir}/log"
  done
  check_same "script, longer attrs" \
    "file.longer pipe.longer file.injected pipe.injected" 1000 perf script -i FILE
}

# A pipe of the other byte order whose attr is larger than its event
test_damaged_attr() {
  "${PYTHON}" - > "${dir}/damaged" <<EOF
import struct, sys
order = '>' if sys.byteorder == 'little' else '<'
attr = struct.pack(order + 'II', 1, 0xc0000000) + bytes(120)
sys.stdout.buffer.write(struct.pack(order + 'QQ', 0x32454c4946524550, 16) +
                        struct.pack(order + 'IHH', 64, 0, 8 + len(attr)) + attr)
EOF
  if perf script -i - < "${dir}/damaged" > "${dir}/out" 2> "${dir}/log" ||
     ! grep -q 'attributes of an event are damaged' "${dir}/log"
  then
    cat "${dir}/log"
    fail "a damaged attr is accepted"
  fi
  echo "damaged attr: refused"
}

# A file that ends within an event, whose data do not begin in the first page
test_cut() {
  "${PYTHON}" - "${dir}/file" > "${dir}/cut" <<EOF
import struct, sys
data = open(sys.argv[1], 'rb').read()
offset, = struct.unpack_from('=Q', data, 40)
# Without features, which would be at the end
header = data[:40] + struct.pack('=Q', offset + 8192) + data[48:72] + bytes(32) + data[104:offset]
sys.stdout.buffer.write((header + bytes(8192) + data[offset:])[:20 * 4096])
EOF
  if ! perf script -i "${dir}/cut" > "${dir}/out" 2> "${dir}/log" ||
     ! grep -q 'ends in the middle of an event' "${dir}/log" || [ "$(wc -l < "${dir}/out")" -lt 1000 ]
  then
    cat "${dir}/log"
    fail "cut: not read up to its end"
  fi
  echo "cut: read up to its end"
}

# A sample in user space whose record never came still has its own address.
test_lost_user() {
  generate --mem "${dir}/program" --lose 1 "${dir}/file.lost"
  run file.lost perf script -i FILE -F ip,sym
  if [ "$(grep -c ' [fgh]1$' "${dir}/out.file.lost" || true)" != 1000 ] ||
     [ "$(grep -c ' \[deferred\]$' "${dir}/out.file.lost" || true)" != 1000 ]
  then
    head -n 12 "${dir}/out.file.lost"
    fail "user frames of samples without a record are not shown"
  fi
  echo "lost, in user space: shown"
}

# perf makes no index for callchains that it does not show.
test_without_callchains() {
  local command

  for command in "script -F comm,time" "report --stdio -g none --no-children" \
                 "annotate --stdio" "buildid-list"
  do
    # perf annotate finds no code for the addresses.
    # shellcheck disable=SC2086
    perf ${command} -v -i "${dir}/file" > "${dir}/out" 2> "${dir}/log" ||
      [ "${command}" = "annotate --stdio" ] || fail "${command}"
    if grep -q 'bytes of index' "${dir}/log"
    then
      fail "${command}: makes an index"
    fi
  done
  perf script -v -F ip -i "${dir}/file" > "${dir}/out" 2> "${dir}/log"
  if ! grep -q '1000 deferred callchains, [1-9][0-9]\{3\} bytes of index' "${dir}/log"
  then
    cat "${dir}/log"
    fail "script: does not say how large the index is"
  fi
  echo "without callchains: no index"
}

is_printed() {
  grep -q '\[deferred\]' "${dir}/out"
}

# perf script prints samples while the pipe is idle, and does not wait for its end.
test_idle_pipe() {
  local pipe

  # More samples than the stdio buffer holds. None has its record in the pipe.
  generate --pipe --lose 1 --samples 5000 "${dir}/pipe.idle"
  mkfifo "${dir}/fifo"
  exec {pipe}<> "${dir}/fifo"
  perf script -i - -F ip,sym < "${dir}/fifo" > "${dir}/out" 2> "${dir}/log" &
  pids="${pids} $!"
  cat "${dir}/pipe.idle" >&"${pipe}"
  if ! wait_for 60 is_printed
  then
    cat "${dir}/log"
    fail "script: waits for a pipe that is idle"
  else
    echo "script: does not wait for an idle pipe"
  fi
  stop_tasks
  exec {pipe}>&-
}

generate "${dir}/file"
generate --pipe "${dir}/pipe"
generate --merged "${dir}/merged"
for kind in file pipe merged
do
  options=(--mem "${dir}/program")
  [ "${kind}" = file ] || options+=("--${kind}")
  generate "${options[@]}" "${dir}/${kind}.mem"
done
test_basic
test_mem
test_scripting
test_convert
test_longer_attr
test_damaged_attr
test_cut
test_lost_user
test_without_callchains
test_idle_pipe

finish
