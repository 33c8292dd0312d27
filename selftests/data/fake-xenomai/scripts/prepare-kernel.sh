#!/bin/sh
# SPDX-License-Identifier: MIT
# Stands in for the script of Xenomai 3 that prepares a kernel tree: the same options, refusals and kind of result.
# It writes the patch that --outpatch names, and leaves the tree alone.
set -eu
me=${0##*/}
for word; do
	case $word in
	--linux=*) linux=${word#*=} ;;
	--arch=*) arch=${word#*=} ;;
	--outpatch=*) patch=${word#*=} ;;
	*) echo "$me: unknown flag: $word" >&2; exit 1 ;;
	esac
done
case $arch in
arm | arm64 | x86) ;;
*) echo "$me: unsupported architecture: $arch" >&2; exit 1 ;;
esac
if [ "$(head -n 1 "$linux/README" 2>/dev/null)" != "Linux kernel" ]; then
	echo "$me: $linux is not a valid Linux kernel tree" >&2
	exit 2
fi
if [ ! -r "$linux/arch/$arch/include/asm/dovetail.h" ]; then
	echo "$me: $linux has no IRQ pipeline support for $arch" >&2
	exit 2
fi
scratch=$(mktemp -d prepare-kernel-XXX --tmpdir)
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$scratch/kernel/xenomai" "$scratch/init"
cp "$here/kernel/cobalt/"*.c "$scratch/kernel/xenomai/"
cp "$linux/init/Kconfig" "$scratch/init/"
printf '\nconfig XENOMAI\n\tdef_bool y\n' >>"$scratch/init/Kconfig"
cd "$scratch"
find . -type f | sort | while read -r name; do
	diff -Naurd "$linux/$name" "$name" | sed -e "s,^--- $linux/\.,--- linux," -e "s,^+++ \.,+++ linux-patched,"
done >"$patch"
rm -r "$scratch"
