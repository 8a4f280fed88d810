# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts share: places, messages, logged steps, downloads.
# Source it after "set -euo pipefail".

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
SCRIPTS=$TOP/scripts
BUILD=${BUILD:-$TOP/build}
[[ $BUILD = /* ]] || BUILD=$TOP/$BUILD
LINUX=$BUILD/linux
LOGS=$BUILD/log
# Downloads, unpacked tools and the compiler cache outlive a checkout.
CACHE=${DEFERRED_UNWIND_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/deferred-unwind}
JOBS=${JOBS:-$(nproc)}
# Another Python, without the modules that perf needs, may come first in PATH.
PYTHON=/usr/bin/python3
DEBIAN_MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
DEBIAN_SECURITY_MIRROR=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
DEBIAN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

export BUILD
export LC_ALL=C.UTF-8

say()
{
	printf '== %s\n' "$*"
}

warn()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
	warn "$@"
	exit 1
}

# A message nobody can overlook in a long log.
loud()
{
	local line

	printf '%s\n' '' '****************************************************************' >&2
	for line; do
		printf '** %s\n' "$line" >&2
	done
	printf '%s\n' '****************************************************************' '' >&2
}

# elapsed SECONDS: prints 75 as 1m15s.
elapsed()
{
	if (($1 >= 60)); then
		printf '%dm%02ds' $(($1 / 60)) $(($1 % 60))
	else
		printf '%ds' "$1"
	fi
}

# tail_log FILE: the end of a log and where the rest is.
tail_log()
{
	printf -- '--- the last lines of %s:\n' "$1" >&2
	tail -n "${2:-40}" "$1" >&2
	printf -- '--- whole log: %s\n' "$1" >&2
}

# A script that "set -e" ends says where.
set -E
trap 'printf "%s: line %d: status %d from: %s\n" "${0##*/}" "$LINENO" "$?" "$BASH_COMMAND" >&2' ERR

# run_logged NAME WHAT COMMAND...: runs an external command with its output in
# $LOGS/NAME.log.  Says every half minute how far it is, at the end how long it
# took, and on failure shows the end of the log.  Returns the command's status.
#
# Not for shell functions: "set -e" has no effect in one called on the left of
# "||".
run_logged()
{
	local log=$LOGS/$1.log what=$2 start=$SECONDS next=30 pid rc=0

	shift 2
	mkdir -p "${log%/*}"
	say "$what"
	# A process group of its own: what the command has started goes with it.
	set -m
	"$@" > "$log" 2>&1 < /dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064
	trap "kill -- -$pid 2>/dev/null; wait $pid || :; exit 130" INT TERM HUP
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		if ((SECONDS - start >= next)); then
			printf '   %s: %s\n' "$(elapsed $((SECONDS - start)))" \
			       "$(tail -n 1 "$log" | tr -d '\r' | sed 's/^ *[0-9ms]*: *//' | cut -c 1-64)"
			next=$((next + 30))
		fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM HUP
	if ((rc)); then
		printf '   failed with status %d after %s\n' "$rc" \
		       "$(elapsed $((SECONDS - start)))"
		tail_log "$log"
	else
		printf '   done in %s\n' "$(elapsed $((SECONDS - start)))"
	fi
	return "$rc"
}

# need_deps GROUP...: what the asked step needs, installed or named.
# Not to stdout, where some callers print a result.
need_deps()
{
	"$SCRIPTS/build/deps" "$@" >&2
}

sha256_is()
{
	[[ -f $1 && $(sha256sum < "$1") = "$2  -" ]]
}

# download URL FILE: without curl or wget where apt is present.
download()
{
	local out

	if [[ -x /usr/lib/apt/apt-helper ]]; then
		# It leaves a good deal of chatter on success.
		out=$(timeout 1200 /usr/lib/apt/apt-helper download-file "$1" "$2" 2>&1) ||
			{ printf '%s\n' "$out" >&2; return 1; }
	elif command -v curl > /dev/null; then
		timeout 1200 curl -sSfL -o "$2" "$1"
	else
		timeout 1200 wget -nv -O "$2" "$1"
	fi
}

# fetch URL SHA256 FILE: FILE holds exactly these bytes afterwards.
fetch()
{
	local url=$1 sum=$2 file=$3

	mkdir -p "${file%/*}"
	(
		flock 9
		sha256_is "$file" "$sum" && exit 0
		rm -f "$file.part"
		download "$url" "$file.part" || exit 1
		if ! sha256_is "$file.part" "$sum"; then
			warn "$url has not the checksum $sum"
			rm -f "$file.part"
			exit 1
		fi
		mv "$file.part" "$file"
	) 9> "$file.lock"
}

debian_archive()
{
	case $1 in
	*-security)	echo "$DEBIAN_SECURITY_MIRROR" ;;
	*)		echo "$DEBIAN_MIRROR" ;;
	esac
}

# debian_newest NAME SUITE: prints "PATH SHA256 VERSION" of the newest version
# that the suite offers.  The index is checked against the archive's signature.
debian_newest()
{
	local name=$1 suite=$2 base dir sum

	base=$(debian_archive "$suite")/dists/$suite
	dir=$CACHE/index/$suite
	mkdir -p "$dir"
	rm -f "$dir/InRelease"
	download "$base/InRelease" "$dir/InRelease" || return 1
	gpgv -q --keyring "$DEBIAN_KEYRING" --output "$dir/Release" \
	     "$dir/InRelease" 2> "$dir/gpgv.log" ||
		{ cat "$dir/gpgv.log" >&2; return 1; }
	sum=$(awk '$3 == "main/binary-amd64/Packages.xz" && length($1) == 64 { print $1 }' \
		  "$dir/Release")
	fetch "$base/main/binary-amd64/Packages.xz" "$sum" "$dir/Packages.xz" ||
		return 1
	xz -dc "$dir/Packages.xz" | awk -v name="$name" '
		/^Package: /	{ this = $2 == name }
		!this		{ next }
		/^Version: /	{ version = $2 }
		/^Filename: /	{ file = $2 }
		/^SHA256: /	{ sum = $2 }
		/^$/		{ print file, sum, version; this = 0 }
		END		{ if (this) print file, sum, version }' |
		sort -k 3,3V | tail -n 1 | grep .
}

# pin NAME FIELD: a field of scripts/data/pins (2 suite, 3 path, 4 sha256).
pin()
{
	awk -v name="$1" -v field="$2" '$1 == name { print $field }' "$SCRIPTS/data/pins"
}

# debian_package NAME: fetches the pinned package, or the suite's newest when the
# archive has dropped the pinned one.  Prints the path of the .deb.
debian_package()
{
	local name=$1 suite path sum base file version

	suite=$(pin "$name" 2)
	path=$(pin "$name" 3)
	sum=$(pin "$name" 4)
	[[ -n $sum ]] || die "scripts/data/pins has no $name"
	base=$(debian_archive "$suite")
	file=$CACHE/deb/${path##*/}
	if ! sha256_is "$file" "$sum"; then
		say "fetching ${path##*/}" >&2
		if ! fetch "$base/$path" "$sum" "$file"; then
			read -r path sum version < <(debian_newest "$name" "$suite") ||
				die "cannot fetch $name, neither the pinned version nor another"
			loud "the archive does not have ${file##*/} any more:" \
			     "using $name $version instead"
			file=$CACHE/deb/${path##*/}
			fetch "$base/$path" "$sum" "$file" || die "cannot fetch $path"
		fi
	fi
	printf '%s\n' "$file"
}

# unpack_deb DEB: unpacks into the cache, once, and prints the directory.
unpack_deb()
{
	local deb=$1 dir

	[[ -f $deb ]] || return 1
	dir=$CACHE/unpacked/$(basename "$deb" .deb)
	if [[ ! -d $dir ]]; then
		mkdir -p "$CACHE/unpacked"
		rm -rf "$dir.$$"
		dpkg-deb -x "$deb" "$dir.$$" || { rm -rf "$dir.$$"; return 1; }
		# Another run may have been faster.
		mv -T "$dir.$$" "$dir" 2> /dev/null || rm -rf "$dir.$$"
	fi
	printf '%s\n' "$dir"
}
