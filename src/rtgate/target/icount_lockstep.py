# SPDX-License-Identifier: MIT
"""Makes `icount_lockstep.c`, which keeps QEMU's threads in step on virtual-time boards with several CPUs."""

from __future__ import annotations

from pathlib import Path

from rtgate.target.library_cache import compile_library

_SOURCE = Path(__file__).with_name("icount_lockstep.c")


def library() -> Path:
    """Return the shared library. Raises InfrastructureError: it cannot be compiled here."""
    return compile_library(_SOURCE, ["-ldl", "-lpthread"], "a virtual board with several CPUs")
