#!/bin/sh
# SPDX-License-Identifier: MIT
# What Kconfig would do, as far as this tree needs it: unknown symbols vanish; PREEMPT_RT needs a symbol that nobody
# can set, so it is never on.
set -eu
config=$1
known=$(sed -n 's/^config \([A-Z0-9_]*\)$/\1/p' init/Kconfig)
: > "$config.new"
for symbol in $known; do
	line=$(grep -E "^CONFIG_$symbol=|^# CONFIG_$symbol is not set\$" "$config" | tail -n 1 || true)
	case $symbol in
	PREEMPT_RT) test -z "$line" || line="# CONFIG_PREEMPT_RT is not set" ;;
	ARCH_SUPPORTS_RT) line= ;;
	MODULES) line=${line:-CONFIG_MODULES=y} ;;
	esac
	test -z "$line" || echo "$line" >> "$config.new"
done
mv "$config.new" "$config"
