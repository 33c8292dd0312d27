#!/bin/sh
# SPDX-License-Identifier: MIT
# merge_config.sh -m -O DIR BASE FRAGMENT...
set -eu
shift
directory=$2
shift 2
cat "$@" > "$directory/.config.merged"
mv "$directory/.config.merged" "$directory/.config"
