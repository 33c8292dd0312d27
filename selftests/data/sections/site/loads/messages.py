# SPDX-License-Identifier: MIT
"""messages: a shell that writes to the kernel's log, every 10 ms at most; the console takes each, and prints none."""

from __future__ import annotations

from rtgate.board.boards import Board
from rtgate.tools.loads import Load


def load(board: Board) -> Load:
    """Return the load; it is the same on every board."""
    return Load(name="messages", argv=("sh", "-c", "while sleep 0.01; do echo rtgate >/dev/kmsg; done"))
