# SPDX-License-Identifier: MIT
"""What a board's file says by kernel family: the vendor's kernels name consoles and device trees differently."""

from __future__ import annotations

import re
from collections.abc import Callable

from rtgate.board.serial_console import read_device
from rtgate.strict_yaml import Value

# What a kernel was made from, which decides the name of its console: Rockchip's vendor tree, or kernel.org's.
FAMILIES = ("bsp", "mainline")


def consoles(value: Value | None) -> dict[str, str]:
    """Return the console's device of each kernel family that a board's file has one for. Raises ConfigError."""
    return _by_family(value, read_device)


def dtbs(value: Value | None) -> dict[str, str]:
    """Return the device tree of each kernel family, below arch/ARCH/boot/dts. Raises ConfigError."""
    return _by_family(value, _read_dtb)


def _by_family(value: Value | None, read: Callable[[Value], str]) -> dict[str, str]:
    if value is None:
        return {}
    names = value.mapping(optional=FAMILIES)
    return {name: read(names[name]) for name in names}


def _read_dtb(value: Value) -> str:
    path = value.text()
    pattern = r"(?:[A-Za-z0-9_.,+-]+/)*[A-Za-z0-9_,+-][A-Za-z0-9_.,+-]*\.dtb"
    if not re.fullmatch(pattern, path) or ".." in path or len(path) > 100:
        value.fail(f"{path!r} is not a device tree (allowed: a path below arch/ARCH/boot/dts that ends in .dtb)")
    return path
