# SPDX-License-Identifier: MIT
"""Makes the plugin of QEMU that says when what was executed (`trace.c`), and in which sections (`sections.c`)."""

from __future__ import annotations

import re
from pathlib import Path

from rtgate.target.library_cache import compile_library

_SOURCE = Path(__file__).with_name("trace.c")
_NAMES = (
    *("sections", "sites", "calls", "callers", "locks", "ranges"),
    *("accesses", "caches", "guest", "machine", "qemu", "base"),
)
_PARTS = [_SOURCE.with_name(f"{name}.c") for name in _NAMES] + [_SOURCE.with_name(f"{name}.h") for name in _NAMES]
INTERFACES = {(11, 1): 7, (9, 1): 3, (0, 0): 1}
"""Versions of the plugin interface (`qemu.h`), by the first QEMU that has each; a QEMU refuses those it does not know."""


def library(emulator: str) -> Path:
    """Return the plugin for a QEMU.

    Args:
        emulator: its version line, as `rtgate.target.qemu.version` returns it.

    Raises:
        InfrastructureError: it cannot be compiled here.
    """
    match = re.search(r"version (\d+)\.(\d+)", emulator)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    interface = next(interface for first, interface in INTERFACES.items() if number >= first)
    return compile_library(_SOURCE, [f"-DQEMU_PLUGIN={interface}", "-ldl"], "tracing a virtual board", _PARTS)
