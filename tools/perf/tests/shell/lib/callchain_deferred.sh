#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests of deferred user callchains share.

# callchain_deferred_supported DIR: ends the test with a reason if the kernel cannot
# defer. The test has its function cleanup.
callchain_deferred_supported() {
  local sysctl=/proc/sys/kernel/unwind_user_deferred reason=

  if ! perf record -v -B -e cpu-clock --call-graph fp,defer -o "$1/perf.data" true > "$1/log" 2>&1
  then
    cat "$1/log"
    echo "FAIL: cannot record"
    cleanup
    exit 1
  fi

  if grep -q 'The kernel cannot defer user callchains' "$1/log"
  then
    reason="the kernel cannot defer user callchains"
  elif ! [ -e "${sysctl}" ]
  then
    reason="the kernel is built without deferred unwinding"
  elif [ "$(cat "${sysctl}")" != 1 ]
  then
    reason="${sysctl} is not 1"
  fi
  if [ -n "${reason}" ]
  then
    echo "Skip: ${reason}"
    cleanup
    exit 2
  fi
}
