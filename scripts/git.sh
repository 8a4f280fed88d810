# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How the series and its git tree are turned into each other.  Source it after
# lib.sh.

# Nobody's configuration may change a byte of a patch or of a commit.
git_plain()
{
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 TZ=UTC LC_ALL=C \
	GIT_AUTHOR_NAME='' GIT_AUTHOR_EMAIL='' \
	GIT_COMMITTER_NAME=base GIT_COMMITTER_EMAIL=base@localhost \
	git "$@"
}

# format_patches DIR RANGE: one file per commit, the same bytes everywhere.  The
# pattern for hunk headers is pinned since git's own changes over its versions.
format_patches()
{
	git_plain -C "$LINUX" \
		-c 'diff.cpp.xfuncname=!^[ 	]*[A-Za-z_][A-Za-z_0-9]*:[[:space:]]*($|/[/*])
^((::[[:space:]]*)?[A-Za-z_].*)$' \
		-c core.quotePath=true -c core.abbrev=12 -c diff.noprefix=false \
		-c diff.mnemonicPrefix=false -c diff.orderFile=/dev/null \
		-c diff.indentHeuristic=true -c diff.suppressBlankEmpty=false \
		-c format.encodeEmailHeaders=false \
		format-patch -q -p --stat=80 --summary \
		--zero-commit --no-signature --full-index --no-numbered --no-base \
		--no-thread --no-attach --no-to --no-cc --no-cover-letter --no-notes \
		--no-ext-diff --no-textconv --no-color --src-prefix=a/ --dst-prefix=b/ \
		--diff-algorithm=histogram -U3 --inter-hunk-context=0 -M \
		--subject-prefix=PATCH --suffix=.patch --start-number=1 \
		--filename-max-length=64 -o "$1" "$2"
}

# The patches in the order of series, without quilt's comments.
series_patches()
{
	[[ -f $TOP/series ]] || return 0
	sed -e 's/#.*//' -e 's/[[:space:]].*//' -e '/^$/d' "$TOP/series"
}

# Where the readable copy of an added file goes.  The only path map.
copy_path()
{
	case $1 in
	tools/testing/selftests/*)	echo "selftests/${1#tools/testing/selftests/}" ;;
	tools/*|Documentation/*)	echo "$1" ;;
	kernel/*)			echo "$1" ;;
	*)				echo "kernel/$1" ;;
	esac
}

# Everything that "make export" writes, beside the file "series".
EXPORTED_DIRS=(patches kernel tools selftests Documentation)
COVER_LETTER=patches/0000-cover-letter.txt

# The version in the base commit's subject.
base_version()
{
	git -C "$LINUX" log -1 --format=%s base | sed 's/.* //'
}

pinned_version()
{
	pin linux-source-6.12 3 | sed 's/.*linux-source-6.12_\(.*\)_all.deb/\1/'
}

need_tree()
{
	git -C "$LINUX" rev-parse -q --verify base > /dev/null 2>&1 ||
		die "$LINUX is not there: run 'make tree' first"
}
