# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Results of long checks, so that one that was interrupted can go on, on another machine,
# too.  Source it after lib.sh.  Only what is right is stored, in
# Documentation/results/runs/CHECK: a line for each result, with a key of all that it
# depends on, the date and what was seen, separated by tabs.  It is to be committed.
# STORED=no runs everything again; with STORED=only, nothing is run, and what is not stored
# counts as skipped.

RUNS=$TOP/Documentation/results/runs

# store_key TEXT...: sets "key".
store_key()
{
	key=$(printf '%s\n' "$@" | sha256sum | cut -c 1-40)
}

# stored CHECK: prints what was stored for "key", with the date; fails if there is nothing.
stored()
{
	if [[ ${STORED:-} = only ]]; then
		STORED='' stored "$1" || echo "not stored # SKIP STORED=only runs nothing"
		return 0
	fi
	[[ ${STORED:-} != no && -f $RUNS/$1 ]] || return 1
	awk -F '\t' -v key="$key" '
		$1 == key { print $3 "; run on " $2; found = 1; exit }
		END { exit !found }' "$RUNS/$1"
}

# store CHECK TEXT
store()
{
	local lock

	mkdir -p "$RUNS"
	exec {lock}>> "$RUNS/$1"
	flock "$lock"
	printf '%s\t%s\t%s\n' "$key" "$(date -u +%F)" "$2" >> "$RUNS/$1"
	exec {lock}>&-
}

# stored_only CHECK KEY...: results under other keys are of no state that is still there.
stored_only()
{
	local check=$1 keep

	shift
	[[ -f $RUNS/$check ]] || return 0
	keep=$(printf '%s\n' "$@" | awk -F '\t' 'NR == FNR { keys[$1]; next } $1 in keys' - \
		"$RUNS/$check")
	printf '%s\n' "$keep" > "$RUNS/$check"
}
