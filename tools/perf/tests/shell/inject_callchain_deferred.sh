#!/bin/bash
# perf inject --merge-callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/setup_python.sh
. "${shelldir}"/lib/setup_python.sh

dir=$(mktemp -d /tmp/__perf_test.inject_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

script() {
  perf script -i "$1" -F comm,tid,time,ip,sym 2> /dev/null
}

# What is merged is what a kernel without deferral would have recorded.
check_merged() {
  local what=$1 file=$2

  script "${file}" > "${dir}/script"
  if ! cmp "${dir}/expected" "${dir}/script"
  then
    fail "${what}: not the same samples"
  fi
  if perf script -D -i "${file}" 2> /dev/null |
     grep -Eq 'PERF_RECORD_CALLCHAIN_DEFERRED|[.]{5} +[0-9]+: fffffffffffffd80'
  then
    fail "${what}: a record or a marker is left"
  fi
  if perf evlist -v -i "${file}" | grep -Eq 'defer_|[ {]overwrite: 1'
  then
    fail "${what}: an event still has bits that older versions refuse"
  fi
}

# The size of the attrs with their section, from the header
check_attr_size() {
  local size

  size=$(od -An -t u8 -j 16 -N 8 "$1" | tr -d ' ')
  if [ "${size}" != $((64 + 16)) ]
  then
    fail "an attr of ${size} bytes in $1"
  fi
}

test_merge() {
  local lose=$1 input

  generate --overwrite --lose "${lose}" "${dir}/file"
  generate --overwrite --lose "${lose}" --pipe "${dir}/pipe"
  generate --lose "${lose}" --merged "${dir}/merged"
  script "${dir}/merged" > "${dir}/expected"

  for input in file pipe
  do
    perf inject --merge-callchains -i "${dir}/${input}" -o "${dir}/out" 2> "${dir}/log"
    check_merged "${input}, each ${lose} lost" "${dir}/out"
    check_attr_size "${dir}/out"
    perf inject --merge-callchains -i "${dir}/${input}" > "${dir}/out" 2> "${dir}/log"
    check_merged "${input} to pipe, each ${lose} lost" "${dir}/out"
  done

  # The maps of user frames are found.
  perf inject -b --merge-callchains -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log"
  check_merged "build-ids, each ${lose} lost" "${dir}/out"

  # Without the option all is passed on, and what was lost is marked.
  perf inject -i "${dir}/file" -o "${dir}/out"
  script "${dir}/out" | grep -v '\[deferred\]' > "${dir}/script"
  if ! cmp "${dir}/expected" "${dir}/script" ||
     ! perf evlist -v -i "${dir}/out" | grep -q 'defer_callchain: 1'
  then
    fail "not passed on"
  fi
}

# The callchain is cut where the record would be too large, and that is told.
test_too_large() {
  generate --samples 3 --waiting 1 --depth 8183 "${dir}/file"
  perf inject --merge-callchains -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log"
  if ! grep -q '^3 callchains were cut' "${dir}/log"
  then
    cat "${dir}/log"
    fail "not told how many callchains were cut"
  fi
  # A line for each sample, for each entry but the contexts, and an empty one
  if [ "$(perf script -i "${dir}/out" -F tid,ip --max-stack 10000 2> /dev/null | wc -l)" != \
       $((3 * (8181 + 2 + 2))) ]
  then
    fail "not cut where it should be"
  fi
}

test_options() {
  if perf inject --merge-callchains --itrace -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log" ||
     ! grep -q 'cannot be used with' "${dir}/log"
  then
    cat "${dir}/log"
    fail "no reason why --itrace is refused"
  fi
}

test_merge 0
test_merge 7
test_too_large
test_options

finish
