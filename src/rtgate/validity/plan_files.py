# SPDX-License-Identifier: MIT
"""What a plan left on its target, as checks read it: text, lines of `/proc/PID/stat`, times."""

from __future__ import annotations

import re
from collections.abc import Mapping

MOMENTS = ("start", "middle", "late", "end")
"""When a plan looks at threads and processes."""

_STAT = re.compile(r"\d+ \((?P<name>.*)\) (?P<fields>\S(?: -?[0-9]{1,20}){38,})\s*")


def text(files: Mapping[str, bytes], name: str) -> str:
    """Return a file's text without the space around it; empty without the file."""
    return files.get(name, b"").decode("utf-8", errors="replace").strip()


def stats(files: Mapping[str, bytes], name: str) -> list[tuple[str, list[str]]]:
    """Return name and fields 3, 4, ... of each `/proc/PID/stat` line (proc(5)); names may hold spaces and brackets."""
    entries = []
    for line in files.get(name, b"").decode("utf-8", errors="replace").splitlines():
        match = _STAT.fullmatch(line)
        if match:
            entries.append((match["name"], match["fields"].split()))
    return entries


def uptime(files: Mapping[str, bytes], moment: str) -> float | None:
    """Return the target's seconds since it started, at one of `MOMENTS`; None if not read."""
    try:
        return float(text(files, f"uptime.{moment}").split()[0])
    except (IndexError, ValueError):
        return None
