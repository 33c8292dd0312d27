# SPDX-License-Identifier: MIT
"""Makes `trace.c`, the plugin of QEMU that says when what was executed."""

from __future__ import annotations

from pathlib import Path

from rtgate.target.compiled import compiled

_SOURCE = Path(__file__).with_name("trace.c")


def library() -> Path:
    """Return the plugin. Raises InfrastructureError: it cannot be compiled here."""
    return compiled(_SOURCE, ["-ldl"], "tracing a virtual board")
