# SPDX-License-Identifier: MIT
"""What is known before a boot of a case that an instrument outside of the board measures."""

from __future__ import annotations

from rtgate.board.boards import Board
from rtgate.tools import Tool
from rtgate.tools.needs import NEVER, Need


def needs(tool: Tool, board: Board) -> tuple[Need, ...]:
    """Return what no target has: an instrument that a tool measures with, and that the board's file does not name."""
    if not tool.instrumented or board.instrument is not None:
        return ()
    return (Need(test=NEVER, reason=f"{board.name}.yaml names no instrument (instrument:)"),)
