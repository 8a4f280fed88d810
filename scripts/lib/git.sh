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

# topics: a line for each topic: its folder, the topics that it needs, and the range of its
# commits in build/linux; separated by "|".
topics()
{
	local folder needs first line i
	local -a folders=() lists=() starts=()
	local -A commits=()

	while IFS= read -r line; do
		commits[${line#* }]=${line%% *}
	done < <(git -C "$LINUX" log --format='%H %s' base..HEAD)
	while IFS='|' read -r folder needs first; do
		[[ -n ${commits[$first]:-} ]] ||
			die "${SCRIPTS#"$TOP"/}/data/topics: no patch '$first'"
		folders+=("$folder")
		lists+=("$needs")
		starts+=("$(git -C "$LINUX" rev-parse "${commits[$first]}~")")
	done < <(sed '/^#/d; /^$/d' "$SCRIPTS/data/topics")
	[[ ${starts[0]} = $(git -C "$LINUX" rev-parse 'base^{commit}') ]] ||
		die "${SCRIPTS#"$TOP"/}/data/topics: the first topic lacks the first patches"
	starts+=("$(git -C "$LINUX" rev-parse HEAD)")
	for ((i = 0; i < ${#folders[@]}; i++)); do
		echo "${folders[i]}|${lists[i]}|${starts[i]}..${starts[i + 1]}"
	done
}

# patch_diffs FILE...: the changes of these patches, without their messages.
patch_diffs()
{
	awk 'FNR == 1 { diff = 0 } /^diff --git / { diff = 1 } diff' "$@"
}

# built_tree COMMIT: what its tree holds, without documents, which nothing is built from.
built_tree()
{
	git -C "$LINUX" ls-tree "$1" | grep -v '\sDocumentation$'
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

# Files in there that are written by hand.
by_hand()
{
	[[ $1 = */0000-cover-letter.txt || $1 = Documentation/hacking.rst ||
	   $1 = Documentation/results/* ]]
}

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
