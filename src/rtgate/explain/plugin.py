# SPDX-License-Identifier: MIT
"""Makes the plugin of QEMU that says when what was executed (`trace.c`), and in which sections (`sections.c`)."""

from __future__ import annotations

from pathlib import Path

from rtgate.target.library_cache import compile_library

_SOURCE = Path(__file__).with_name("trace.c")
_FILES = ("sections.c", "locks.c", "guest.c", "machine.c", "trace.h", "locks.h", "guest.h", "machine.h")
_PARTS = [_SOURCE.with_name(name) for name in _FILES]


def library() -> Path:
    """Return the plugin. Raises InfrastructureError: it cannot be compiled here."""
    return compile_library(_SOURCE, ["-ldl"], "tracing a virtual board", _PARTS)
