# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Which QEMU guests run in. Source it after lib.sh.

# find_qemu: prints the path of a QEMU that is new enough.
#
# QEMU before 8.1 translates code that another CPU writes at that moment, and keeps the stale
# translation: tracepoints and function tracing that are switched on and off end in "Oops: int3"
# sooner or later. The libraries and firmware of the newer one are those of Debian 12's own.
find_qemu()
{
	local qemu version bundle

	qemu=$(command -v qemu-system-x86_64) || { warn "no qemu-system-x86_64"; return 1; }
	version=$("$qemu" --version | sed -n '1s/.*version \([0-9]*\)\..*/\1/p')
	if ((${version:-0} < 9)); then
		qemu=$(unpack_deb "$(debian_package qemu-system-x86)")/usr/bin/qemu-system-x86_64 ||
			return 1
		# It would load the modules that Debian 12's has for sound and windows, where
		# those are installed, and abort. In a directory of this name beside it QEMU
		# looks for all its files: firmware is there, modules are not.
		bundle=${qemu%/*}/qemu-bundle
		if [[ ! -d $bundle ]]; then
			mkdir -p "$bundle.$$/usr/lib"
			ln -s /usr/share "$bundle.$$/usr/share"
			ln -s /usr/lib/ipxe "$bundle.$$/usr/lib/ipxe"
			mv -T "$bundle.$$" "$bundle" 2> /dev/null || rm -rf "$bundle.$$"
		fi
	fi
	printf '%s\n' "$qemu"
}
