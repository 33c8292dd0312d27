# SPDX-License-Identifier: MIT
"""What a build prints, until it has ended: something that it leaves behind may hold its output open for ever."""

from __future__ import annotations

import codecs
import io
import os
import select
import subprocess
import time
from collections.abc import Iterator

_LINE = 1 << 16  # characters; a longer line comes in pieces
_PIECE = 1 << 16  # bytes, which is what a pipe holds
_POLL_S = 0.5
_MORE_S = 5.0  # for what still prints when the build has ended, as a program that became a daemon


def lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines that a process and its children print, with their ends, as UTF-8."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    rest = ""
    for piece in _pieces(process):
        *whole_lines, rest = (rest + decoder.decode(piece)).split("\n")
        yield from (f"{line}\n" for line in whole_lines)
        if len(rest) >= _LINE:
            yield rest
            rest = ""
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest


def _pieces(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what can be read until nobody can write any more, or the process has ended and there is no more."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    end = None
    while end is None or time.monotonic() < end:
        if end is None and process.poll() is not None:
            end = time.monotonic() + _MORE_S
        if poll.poll(1000 * _POLL_S):
            piece = os.read(pipe, _PIECE)
            if not piece:
                return
            yield piece
        elif end is not None:
            return
