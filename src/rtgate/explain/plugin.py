# SPDX-License-Identifier: MIT
"""Makes the plugin of QEMU that says when what was executed (`trace.c`), and in which sections (`sections.c`)."""

from __future__ import annotations

from pathlib import Path

from rtgate.target.library_cache import compile_library

_SOURCE = Path(__file__).with_name("trace.c")
_NAMES = (
    *("sections", "sites", "calls", "callers", "locks", "ranges"),
    *("accesses", "caches", "guest", "machine", "base"),
)
_HEADERS = [*_NAMES, "qemu"]
_PARTS = [_SOURCE.with_name(f"{name}.c") for name in _NAMES] + [_SOURCE.with_name(f"{name}.h") for name in _HEADERS]


def library() -> Path:
    """Return the plugin. Raises InfrastructureError: it cannot be compiled here."""
    return compile_library(_SOURCE, ["-ldl"], "tracing a virtual board", _PARTS)
