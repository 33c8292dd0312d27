# SPDX-License-Identifier: MIT
"""Device trees: overlays are applied here, because not every boot loader can, and LAVA only since 2024.09."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rtgate import process
from rtgate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def overlaid(tree: Path, overlays: Sequence[Path], into: Path) -> Path:
    """Apply overlays to a device tree, in this order; return the new one, a file of the same name in `into`.

    Sources of overlays (`.dtso`) are compiled first. The C preprocessor does not see them.

    Raises:
        ConfigError: an overlay cannot be compiled or applied to this device tree, or changes nothing in it.
        InfrastructureError: the program fdtoverlay is not installed.
    """
    process.require("fdtoverlay")
    path, names = into / tree.name, " ".join(str(overlay) for overlay in overlays)
    words = ["fdtoverlay", "-i", str(tree.absolute()), "-o", str(path.absolute())]
    compiled = [
        _compiled(overlay, into / f"{number}-{overlay.stem}.dtbo") if overlay.suffix == ".dtso" else overlay
        for number, overlay in enumerate(overlays)
    ]
    attempt = process.attempt([*words, *(str(overlay.absolute()) for overlay in compiled)])
    message = " ".join((attempt.stderr or attempt.stdout).split())
    if attempt.returncode or not path.is_file():
        # The usual reason; libfdt's own word for it is FDT_ERR_NOTFOUND.
        symbols = "; has the device tree no symbols (build it with DTC_FLAGS=-@), or none that the overlay names?"
        hint = symbols if "NOTFOUND" in message else ""
        raise ConfigError(f"{names} cannot be applied to {tree}: {message or 'fdtoverlay says nothing'}{hint}")
    if path.read_bytes() == tree.read_bytes():
        raise ConfigError(f"{names} changes nothing in {tree}: is it an overlay (dtc -@ from a file with /plugin/)?")
    return path


def _compiled(source: Path, path: Path) -> Path:
    """Compile an overlay from its source; return `path`, where it is. Raises ConfigError."""
    process.require("dtc")
    attempt = process.attempt(["dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", str(path), str(source.absolute())])
    if attempt.returncode:
        directives = "; lines like #include are for the kernel's own build: give its .dtbo"
        hint = directives if re.search(rb"^\s*#\s*(include|define|if)", source.read_bytes(), re.MULTILINE) else ""
        raise ConfigError(f"{source} cannot be compiled: {' '.join(attempt.stderr.split())}{hint}")
    return path
