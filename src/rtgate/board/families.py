# SPDX-License-Identifier: MIT
"""What a board's file says by kernel family: the vendor's kernels name consoles and device trees differently."""

from __future__ import annotations

import re

from rtgate.strict_yaml import Value

# What a kernel was made from, which decides the name of its console: Rockchip's vendor tree, or kernel.org's.
FAMILIES = ("bsp", "mainline")


def by_family(value: Value | None) -> dict[str, str]:
    """Return a name for each kernel family that a board's file has one for. Raises ConfigError."""
    if value is None:
        return {}
    names = value.mapping(optional=FAMILIES)
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9/_.,+-]{1,100}", names[name].text()):
            names[name].fail(f"{names[name].text()!r} has characters that no device and no device tree has in its name")
    return {name: names[name].text() for name in names}


def dtbs(value: Value | None) -> dict[str, str]:
    """Return the device tree of each kernel family, below arch/ARCH/boot/dts. Raises ConfigError."""
    paths = by_family(value)
    for name, path in paths.items():
        if not re.fullmatch(r"(?:[A-Za-z0-9_.,+-]+/)*[A-Za-z0-9_,+-][A-Za-z0-9_.,+-]*\.dtb", path) or ".." in path:
            assert value is not None
            value.entries()[name].value.fail(
                f"{path!r} is not a device tree (allowed: a path below arch/ARCH/boot/dts that ends in .dtb)"
            )
    return paths
