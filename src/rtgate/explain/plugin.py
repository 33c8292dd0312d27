# SPDX-License-Identifier: MIT
"""Makes the plugin of QEMU that says when what was executed (`trace.c`), and in which sections (`sections.c`)."""

from __future__ import annotations

import re
from pathlib import Path

from rtgate import site
from rtgate.errors import InfrastructureError
from rtgate.files import writing
from rtgate.target.library_cache import compile_library, library_name

_SOURCE = Path(__file__).with_name("trace.c")
_NAMES = (
    *("sections", "sites", "calls", "callers", "handlers", "locks", "ranges"),
    *("accesses", "caches", "guest", "machine", "qemu", "base"),
)
_PARTS = [_SOURCE.with_name(f"{name}.c") for name in _NAMES] + [_SOURCE.with_name(f"{name}.h") for name in _NAMES]
INTERFACES = {(11, 1): 7, (11, 0): 6, (10, 1): 5, (9, 2): 4, (9, 1): 3, (9, 0): 0, (6, 0): 1}
"""Versions of the plugin interface (`qemu.h`), by the first QEMU that has each; 0: the plugin has no part for it."""


def library(emulator: str) -> Path:
    """Return the plugin for a QEMU.

    Args:
        emulator: its version line, as `rtgate.target.qemu.version` returns it.

    Raises:
        InfrastructureError: it cannot be compiled or written here, or there is none for this QEMU.
    """
    interface = _interface(emulator)
    if not interface:
        raise InfrastructureError(f"{emulator} cannot trace here: use the QEMU of Debian 12 (7.2) or Debian 13 (10.0)")
    with writing(site.cache()):
        return compile_library(_SOURCE, _flags(interface), "tracing a virtual board", _PARTS)


def identity(emulator: str) -> str:
    """Return what tells the plugin for a QEMU from all others, without making it."""
    return library_name(_SOURCE, _flags(_interface(emulator)), _PARTS)


def _flags(interface: int) -> list[str]:
    return [f"-DQEMU_PLUGIN={interface}", "-ldl"]


def _interface(emulator: str) -> int:
    match = re.search(r"version (\d+)\.(\d+)", emulator)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    return next((interface for first, interface in INTERFACES.items() if number >= first), 0)
