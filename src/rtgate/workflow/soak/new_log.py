# SPDX-License-Identifier: MIT
"""What is new in a kernel's log, so that a fault belongs to the chunk of a soak in which it was said."""

from __future__ import annotations

import re

from rtgate.measure.observations import LOG_GOES_ON, LOG_LOST

# A line that begins with the time at which it was said is said once.
_STAMPED = re.compile(rb"[<0-9>]*\[ *[0-9]+\.[0-9]+\]")


def last_line(log: bytes) -> str:
    """Return the line up to which a log was seen; empty for a log without time stamps."""
    last = log.rstrip(b"\n").rpartition(b"\n")[2]
    return last.decode("latin-1") if _STAMPED.match(last) else ""


def new_lines(log: bytes, old_line: str) -> bytes:
    """Return what follows `old_line` in a log, after a line that says so; all of a log of which none was seen."""
    if not old_line or not log:
        return log
    lines = log.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if line.rstrip(b"\r\n") == old_line.encode("latin-1")]
    if not places:
        return f"{LOG_LOST}\n".encode() + log
    return f"{LOG_GOES_ON}\n".encode() + b"".join(lines[places[0] + 1 :])
