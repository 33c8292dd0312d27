#!/bin/sh
# SPDX-License-Identifier: MIT
#
# On a board: hash a region of a boot medium, or restore it from an image. BusyBox is enough.
#   sh boot_media.sh DIRECTORY hash    DEVICE OFFSET LENGTH SIZE MODEL
#   sh boot_media.sh DIRECTORY restore DEVICE OFFSET LENGTH SIZE MODEL SHA256 URL
# Numbers are bytes, 0 for a length: all of the device; 0 and '' for a size and a model: any. DIRECTORY is in RAM.
# DIRECTORY/shown is one line with a checksum, replaced as a whole: `media:STATE:CKSUM LENGTH:`, and STATE
#   hashing|network|fetching|writing BYTES [fetched BYTES]   at work; `writing`: the medium may be half-written
#   hashed SHA256 LENGTH SIZE MODEL                   of DEVICE
#   restored BYTES                                    so many were written, because they differed
#   failed BYTES WHY                                  so many were written
# Nothing is written before the whole image has arrived once and hashed to SHA256, and no piece of it before that
# piece has arrived whole in RAM. Bytes that are right are not written again.

# Neither the line nor who types on it ends this.
trap '' HUP INT QUIT

# The variables are for tests.
sys=${RTGATE_SYS:-/sys}
proc=${RTGATE_PROC:-/proc}

work=$1 action=$2 device=$3 offset=$4 length=$5 size=$6 model=$7 sha256=$8 url=$9
name=${device##*/}
node=$device
step=1048576 # bytes between two signs of life; few, for flash memory takes seconds to write them
opened=''

state() {
	# What a device calls itself may have a backslash, which some shells' echo takes for more.
	printf '%s\n' "$*" >"$work/state"
	printf '%s\n' "media:$*:$(printf %s "$*" | cksum):" >"$work/shown.new" && mv "$work/shown.new" "$work/shown"
}

is_medium() {
	if [ "$RTGATE_MEDIUM" = file ]; then [ -f "$1" ]; else [ -b "$1" ]; fi
}

# The loops below run in processes of their own, and how much was written is in a file.
fail() {
	[ -z "$opened" ] || echo 1 >"$opened"
	state failed "$(cat "$work/written" 2>/dev/null || echo 0)" "$*"
	exit 1
}

last_line() {
	tail -n 1 "$1" 2>/dev/null | cut -c1-100
}

check_programs() {
	for program in cat cksum cmp cut dd head mv sed sha256sum sync tail wc "$@"; do
		command -v "$program" >/dev/null || fail "the board lacks $program"
	done
}

check_device() {
	if [ "${name#mtd}" != "$name" ]; then
		[ -c "$device" ] || is_medium "$device" || fail "$device is not there"
		total=$(cat "$sys/class/mtd/$name/size" 2>/dev/null)
		files=name
	else
		is_medium "$device" || fail "$device is not there"
		total=$(cat "$sys/class/block/$name/size" 2>/dev/null)
		total=$((${total:-0} * 512))
		files='device/model device/name ../device/model ../device/name device/device/name'
	fi
	[ "${total:-0}" -gt 0 ] || fail "the kernel does not tell the size of $device"
	[ "$length" -gt 0 ] || length=$((total - offset))
	[ "$size" -eq 0 ] || [ "$size" -eq "$total" ] || fail "$device has $total bytes, not $size: another device"
	{ [ "$length" -gt 0 ] && [ $((offset + length)) -le "$total" ]; } || fail "$device has $total bytes: the region is behind"
	told=''
	for file in $files; do
		{ [ -n "$told" ] || read -r told <"$sys/class/${1:-block}/$name/$file"; } 2>/dev/null
	done
	[ -z "$model" ] || [ "$model" = "$told" ] || fail "$device is '$told', not '$model': another device"
}

# What was read or written before must not stand for what is on the medium.
drop_caches() {
	sync
	(echo 3 >"$proc/sys/vm/drop_caches") 2>/dev/null || fail "the page cache cannot be dropped"
}

choose_block() {
	block=1048576
	while [ $((offset % block)) -ne 0 ] || [ $((length % block)) -ne 0 ]; do block=$((block / 2)); done
}

# How many bytes the next step has, from byte $1 of $2.
next() {
	count=$(($2 - $1))
	[ "$count" -le "$step" ] || count=$step
}

all_bytes() {
	at=0
	while [ "$at" -lt "$length" ]; do
		[ ! -e "$work/stop" ] || exit 1
		next "$at" "$length"
		blocks=$((count / block))
		{
			dd if="$device" bs="$block" skip=$(((offset + at) / block)) count="$blocks" 2>"$work/dd" &&
				grep -q "^$blocks+0 records in" "$work/dd"
		} ||
			fail "reading $device at byte $((offset + at)): $(last_line "$work/dd")"
		at=$((at + count))
		state hashing "$at"
	done
}

hash() {
	check_programs grep
	check_device "$([ "${name#mtd}" = "$name" ] || echo mtd)"
	choose_block
	state hashing 0
	drop_caches
	sum=$(all_bytes | sha256sum) || fail "sha256sum does not work"
	case $(cat "$work/state") in
	"hashing $length") state hashed "${sum%% *}" "$length" "$total" "$told" ;;
	failed*) exit 1 ;;
	*) fail "stopped" ;;
	esac
}

check_unused() {
	for place in "$sys/class/block/$name" "$sys/class/block/$name/$name"* "$sys/class/block/$name/.."; do
		[ -r "$place/dev" ] || continue
		number=$(cat "$place/dev")
		while read -r _ _ mounted _; do
			[ "$mounted" != "$number" ] || fail "$device, or a part of it, is mounted: nothing is written"
		done <"$proc/self/mountinfo"
		for holder in "$place/holders"/*; do
			[ ! -e "$holder" ] || fail "$device, or a part of it, is in use by ${holder##*/}: nothing is written"
		done
	done
	[ ! -r "$proc/swaps" ] || while read -r swap _; do
		[ "${swap#"$device"}" = "$swap" ] || fail "the system swaps to $swap: nothing is written"
	done <"$proc/swaps"
}

# Flash memory is erased in blocks, and the kernel's block device for it writes whole ones.
check_flash() {
	flash=$sys/class/mtd/$name
	[ "$(cat "$flash/type" 2>/dev/null)" = nor ] || fail "$device is no NOR flash: it cannot be restored byte by byte"
	[ $(($(cat "$flash/flags") & 0x400)) -ne 0 ] || fail "$device is read-only"
	erase=$(cat "$flash/erasesize")
	{ [ $((offset % erase)) -eq 0 ] && [ $((length % erase)) -eq 0 ]; } ||
		fail "$device is erased in blocks of $erase bytes, and the region has others"
	name=mtdblock${name#mtd}
	node=${device%/*}/$name
	is_medium "$node" || fail "the kernel has no $node to write by"
}

# eMMC boot partitions are read-only until somebody says otherwise.
open_medium() {
	guard=$sys/class/block/$name/force_ro
	if [ "$(cat "$guard" 2>/dev/null)" = 1 ]; then
		opened=$guard
		trap '[ -z "$opened" ] || echo 1 >"$opened"' EXIT
		(echo 0 >"$guard") 2>/dev/null || fail "$device cannot be made writable"
	fi
	[ "$(cat "$sys/class/block/$name/ro" 2>/dev/null || echo 0)" = 0 ] || fail "$device is read-only"
}

has_route() {
	[ "$(wc -l <"$proc/net/route")" -gt 1 ]
}

# A ramdisk may come without a network; then one interface after the other asks for an address.
network() {
	state network 0
	has_route 2>/dev/null && return
	cat >"$work/lease" <<-'END'
		#!/bin/sh
		case $1 in bound | renew) ;; *) exit 0 ;; esac
		ifconfig "$interface" "$ip" netmask "${subnet:-255.255.255.0}" up
		for gateway in $router; do route add default gw "$gateway" dev "$interface" && break; done
		for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
	END
	chmod 755 "$work/lease"
	for place in "$sys/class/net"/*; do
		interface=${place##*/}
		{ [ "$interface" != lo ] && [ -e "$place" ]; } || continue
		ifconfig "$interface" up
		udhcpc -i "$interface" -n -q -t 5 -T 3 -s "$work/lease" && has_route && return
	done >"$work/network" 2>&1
}

# How much of the image is held in RAM: half of what is free, and what the file system takes; whole blocks.
choose_piece() {
	room=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' "$proc/meminfo")
	room=$((${room:-0} / 2))
	# A RAM file system without a limit says that it has no blocks.
	limit=$(df -kP "$work" 2>/dev/null | sed -n '2s/^[^ ]*  *[1-9][0-9]*  *[0-9]*  *\([0-9]*\) .*/\1/p')
	[ -z "$limit" ] || [ "$limit" -ge "$room" ] || room=$limit
	# Beside the piece there is one step of it.
	room=$((room * 1024 - step))
	piece=$length
	[ "$piece" -le "$room" ] || piece=$((room / 1048576 * 1048576))
	[ "$piece" -gt 0 ] || fail "the board has no memory for the image"
}

# pieces DOING COMMAND: cut standard input, which must be as long as the region, into files and do COMMAND for each.
pieces() {
	from=0
	while [ "$from" -lt "$length" ]; do
		part=$((length - from))
		[ "$part" -le "$piece" ] || part=$piece
		: >"$work/piece"
		at=0
		while [ "$at" -lt "$part" ]; do
			[ ! -e "$work/stop" ] || fail "stopped"
			next "$at" "$part"
			dd bs="$block" count=$((count / block)) iflag=fullblock 2>"$work/dd" >>"$work/piece" ||
				fail "keeping the image: $(last_line "$work/dd")"
			at=$((at + count))
			got=$(wc -c <"$work/piece")
			[ "$got" -eq "$at" ] || fail "the image ends at byte $((from + got)) of $length: $(last_line "$work/wget")"
			if [ "$1" = fetching ]; then state fetching $((from + at)); else state "$1" "$from" fetched $((from + at)); fi
		done
		"$2"
		from=$((from + part))
	done
	[ "$(head -c 1 | wc -c)" -eq 0 ] || fail "the image is longer than the region's $length bytes"
}

note() {
	sha256sum <"$work/piece" >>"$work/sums" || fail "sha256sum does not work"
	cat "$work/piece"
}

write() {
	number=$((number + 1))
	[ "$(sha256sum <"$work/piece")" = "$(sed -n "${number}p" "$work/sums")" ] || fail "the image changed meanwhile"
	at=0
	while [ "$at" -lt "$part" ]; do
		[ ! -e "$work/stop" ] || fail "stopped"
		next "$at" "$part"
		where=$(((offset + from + at) / block))
		dd if="$work/piece" bs="$block" skip=$((at / block)) count=$((count / block)) >"$work/step" 2>"$work/dd"
		[ "$(wc -c <"$work/step")" -eq "$count" ] || fail "keeping the image: $(last_line "$work/dd")"
		if ! dd if="$node" bs="$block" skip="$where" count=$((count / block)) 2>/dev/null | cmp -s - "$work/step"; then
			written=$((written + count))
			echo "$written" >"$work/written"
			dd if="$work/step" of="$node" bs="$block" seek="$where" conv=notrunc,fsync 2>"$work/dd" ||
				fail "writing $node at byte $((where * block)): $(last_line "$work/dd")"
		fi
		at=$((at + count))
		state writing $((from + at))
	done
}

# Whoever loses patience kills it by its number: a BusyBox without time-outs crashes at -T.
fetch() {
	wget -q -O - "$url" 2>"$work/wget" &
	echo $! >"$work/fetching"
	wait $!
}

restore() {
	check_programs chmod df wget
	if [ "${name#mtd}" = "$name" ]; then
		check_device
	else
		check_device mtd
		check_flash
	fi
	check_unused
	choose_block
	choose_piece
	network
	state fetching 0
	: >"$work/sums"
	sum=$(fetch | pieces fetching note | sha256sum)
	[ "$(cat "$work/state")" = "fetching $length" ] || exit 1
	[ "${sum%% *}" = "$sha256" ] ||
		fail "the image hashes to $(echo "$sum" | cut -c1-12), not to $(echo "$sha256" | cut -c1-12)"
	open_medium
	drop_caches
	number=0 written=0
	state writing 0
	if [ "$piece" -eq "$length" ]; then
		from=0 part=$length
		(write) || exit 1
	else
		fetch | pieces writing write || exit 1
	fi
	drop_caches
	state restored "$(cat "$work/written" 2>/dev/null || echo 0)"
}

("$action")
case $(cat "$work/state" 2>/dev/null) in
hashed* | restored* | failed*) ;;
*) fail "it ended without a word: $(last_line "$work/said")" ;;
esac
