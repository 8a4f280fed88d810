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

# A merged file has the samples that a kernel without deferral would have recorded.
check_merged() {
  local what=$1 file=$2

  script "${file}" > "${dir}/script"
  if ! cmp "${dir}/expected" "${dir}/script"
  then
    fail "${what}: not the same samples"
  fi
  perf script -D -i "${file}" > "${dir}/dump" 2> /dev/null || fail "${what}: no dump"
  if ! grep -q PERF_RECORD_SAMPLE "${dir}/dump" ||
     grep -Eq 'PERF_RECORD_CALLCHAIN_DEFERRED|[.]{5} +[0-9]+: fffffffffffffd80' "${dir}/dump"
  then
    fail "${what}: a record or a marker is left"
  fi
  perf evlist -v -i "${file}" > "${dir}/attrs" || fail "${what}: no attrs"
  if ! grep -q sample_type "${dir}/attrs" || grep -Eq 'defer_|[ {]overwrite: 1' "${dir}/attrs"
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
    fail "the attrs in $1 have ${size} bytes each"
  fi
}

test_merge() {
  local lose=$1 input

  generate --overwrite --lose "${lose}" "${dir}/file"
  generate --overwrite --lose "${lose}" --pipe "${dir}/pipe"
  generate --lose "${lose}" --merged "${dir}/merged"
  script "${dir}/merged" > "${dir}/expected"
  [ "$(wc -l < "${dir}/expected")" -ge 100 ] || fail "too few lines to compare with"

  for input in file pipe
  do
    perf inject --merge-callchains -i "${dir}/${input}" -o "${dir}/out" 2> "${dir}/log"
    check_merged "${input}, --lose ${lose}" "${dir}/out"
    check_attr_size "${dir}/out"
    perf inject --merge-callchains -i "${dir}/${input}" > "${dir}/out" 2> "${dir}/log"
    check_merged "${input} to pipe, --lose ${lose}" "${dir}/out"
  done

  # The maps of user frames are found.
  perf inject -b --merge-callchains -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log"
  check_merged "build-ids, --lose ${lose}" "${dir}/out"

  # Without the option all events are passed on, and samples without a record are
  # marked.
  perf inject -i "${dir}/file" -o "${dir}/out"
  script "${dir}/out" | grep -v '\[deferred\]' > "${dir}/script"
  if ! cmp "${dir}/expected" "${dir}/script" ||
     ! perf evlist -v -i "${dir}/out" | grep -q 'defer_callchain: 1'
  then
    fail "not passed on"
  fi
}

# A map whose first frame is in a later record precedes the sample all the same.
test_build_ids() {
  local style input

  for style in -b --mmap2-buildids
  do
    for input in file pipe
    do
      # perf script prints different fields of files and pipes.
      if [ "${input}" = file ]
      then
        perf inject "${style}" -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log"
      else
        perf inject "${style}" -i "${dir}/pipe" > "${dir}/out" 2> "${dir}/log"
      fi
      perf script -i "${dir}/${input}" -F comm,tid,time,ip,dso > "${dir}/expected" 2> /dev/null
      perf script -i "${dir}/out" -F comm,tid,time,ip,dso > "${dir}/script" 2> /dev/null
      if ! grep -q '(/deferred/program)' "${dir}/expected" ||
         ! cmp "${dir}/expected" "${dir}/script"
      then
        fail "${style} of a ${input}: not the same maps"
      fi
    done
  done
}

# A callchain that would make the record too large is cut, and perf reports it.
test_too_large() {
  generate --samples 3 --waiting 1 --depth 8183 "${dir}/file"
  perf inject --merge-callchains -i "${dir}/file" -o "${dir}/out" 2> "${dir}/log"
  if ! grep -q '^3 callchains were cut' "${dir}/log"
  then
    cat "${dir}/log"
    fail "perf does not print how many callchains were cut"
  fi
  # Per sample: one line, one for each entry except the contexts, and an empty one
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
    fail "perf does not say why it refuses --itrace"
  fi
}

test_merge 0
test_merge 7
test_build_ids
test_too_large
test_options

finish
