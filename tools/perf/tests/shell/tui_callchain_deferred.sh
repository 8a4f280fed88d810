#!/bin/bash
# perf report in a terminal, with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/setup_python.sh
. "${shelldir}"/lib/setup_python.sh

dir=$(mktemp -d /tmp/__perf_test.tui_deferred.XXXXX)
# shellcheck source=lib/callchain_deferred.sh
. "${shelldir}"/lib/callchain_deferred.sh

# A separate server, without the user's configuration
tmux=(tmux -S "${dir}/socket" -f /dev/null)
nr_rows=30

test_cleanup() {
  "${tmux[@]}" kill-server 2> /dev/null || true
}

screen() {
  "${tmux[@]}" capture-pane -p > "${dir}/screen" 2> /dev/null
}

has_ended() {
  [ -s "${dir}/status" ]
}

screen_has() {
  has_ended || { screen && grep -q "$1" "${dir}/screen"; }
}

# Any key closes the warnings at the start.
shows_browser() {
  if screen_has Warning:
  then
    "${tmux[@]}" send-keys Enter 2> /dev/null || true
    return 1
  fi
  screen_has '^Samples: [1-9]'
}

press() {
  "${tmux[@]}" send-keys "$@" 2> /dev/null || true
}

# expect WHAT TEXT: the screen shows TEXT, and the browser is still there
expect() {
  if ! wait_for 60 screen_has "$2" || has_ended
  then
    cat "${dir}/screen" "${dir}/status" "${dir}/log" 2> /dev/null || true
    fail "$1"
    return 1
  fi
}

# start WHAT COMMAND: runs it in a new terminal, and waits for its browser
start() {
  local what=$1
  shift

  rm -f "${dir}/status"
  "${tmux[@]}" new-session -d -x 110 -y "${nr_rows}" \
    "TERM=screen $* 2> ${dir}/log; echo status \$? > ${dir}/status"
  if ! wait_for 120 shows_browser || has_ended
  then
    cat "${dir}/screen" "${dir}/status" "${dir}/log" 2> /dev/null || true
    give_up "${what}: no browser"
  fi
}

# Moves to the row that shows [deferred].
select_deferred() {
  local row

  press E
  expect "$1: [deferred] is not shown" '\[deferred\]' || return 1
  # The title and the names of the columns cannot be selected.
  row=$(grep -n -m 1 '\[deferred\]' "${dir}/screen" | cut -d: -f1)
  press Home
  for _ in $(seq $((row - 3)))
  do
    press Down
  done
}

# Presses keys while [deferred] is selected.
try_keys() {
  local what=$1

  # Zoom into the kernel and out, which must work on any line. Then all is folded.
  select_deferred "${what}" || return 0
  press k
  expect "${what}: k does not zoom into the kernel" '^Samples:.*DSO: ' || return 0
  press k
  expect "${what}: k does not zoom out" '^Samples:.*: [0-9]*$' || return 0

  # Annotating and zooming into a DSO do nothing here. Enter opens a menu, and Escape
  # closes it.
  select_deferred "${what}" || return 0
  press a d Enter
  expect "${what}: no menu" 'Exit' || return 0
  press Escape
  select_deferred "${what}" || return 0
  press q
  if ! wait_for 60 has_ended || ! grep -qx 'status 0' "${dir}/status"
  then
    cat "${dir}/log" "${dir}/status" || true
    fail "${what}: does not end"
    return 0
  fi
  echo "${what}: keys on [deferred]"
}

test_report() {
  # No sample finds its record.
  generate --kernel --samples 4 --waiting 0 --lose 1 "${dir}/file"
  start "report" perf report --tui -i "${dir}/file" --no-children -s dso,sym -g caller
  try_keys "report"
}

type tmux > /dev/null 2>&1 || skip "tmux is not there"
has libslang > /dev/null ||
  skip "perf is built without libslang"
test_report

finish
