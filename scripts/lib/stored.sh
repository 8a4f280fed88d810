# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Results of long checks, so that one that was interrupted can go on.  Source it after
# lib.sh.  Only what is right is stored, in build/stored, under a key of all that it depends
# on.  STORED=no runs everything again.

# store_key TEXT...: sets "key".
store_key()
{
	key=$(printf '%s\n' "$@" | sha256sum | cut -c 1-40)
}

# stored CHECK: prints what was stored for "key", with the date; fails if there is nothing.
stored()
{
	local file=$BUILD/stored/$1/$key

	[[ ${STORED:-} != no && -f $file ]] || return 1
	printf '%s; run on %s\n' "$(< "$file")" "$(date -u -r "$file" +%F)"
}

# store CHECK TEXT
store()
{
	mkdir -p "$BUILD/stored/$1"
	printf '%s\n' "$2" > "$BUILD/stored/$1/$key.new"
	mv "$BUILD/stored/$1/$key.new" "$BUILD/stored/$1/$key"
}
