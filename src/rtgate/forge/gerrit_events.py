# SPDX-License-Identifier: MIT
"""What `gerrit stream-events` prints: one JSON object in a line. What is not understood is passed over.

An event is a reason to ask Gerrit about a change, never more: what is gated is what Gerrit answers then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# After these a change has another patch set, or is another to us, or somebody wants it reviewed again.
KINDS = (
    "change-abandoned",
    "change-merged",
    "change-restored",
    "comment-added",
    "patchset-created",
    "private-state-changed",
    "wip-state-changed",
)
# After these a query of the user's may have another answer.
QUERY_KINDS = ("hashtags-changed", "reviewer-added", "topic-changed", "vote-deleted")
# Gerrit dropped events, because nobody read them in time.
DROPPED = "dropped-output"
# A line of its own: Gerrit puts its own lines ("Patch Set 2:", "(1 comment)") above a comment's text.
_COMMAND = re.compile(r"^/rtgate[ \t]+run[ \t]*\r?$", re.MULTILINE)
_LINE = 1 << 20  # an event with a commit message of 100 kB has 300 kB


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to a change; of `dropped-output` there is no change (0) and no project.

    Attributes:
        run_for: the account whose comment says `/rtgate run`, by its user name or else its mail address; empty where
            nobody says it.
    """

    kind: str
    project: str = ""
    change: int = 0
    run_for: str = ""


def event(line: bytes) -> Event | None:
    """Return what a line says, None for what is not an event of a change."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return None
    if data["type"] == DROPPED:
        return Event(kind=DROPPED)
    change = data.get("change")
    if not isinstance(change, dict) or not isinstance(change.get("project"), str):
        return None
    try:
        number = int(change.get("number", 0))  # a text in old releases
    except (TypeError, ValueError, OverflowError):
        return None
    change_event = Event(kind=data["type"], project=change["project"], change=number, run_for=_run_for(data))
    return change_event if number > 0 else None


def _run_for(data: Mapping[str, Any]) -> str:
    text, author = data.get("comment"), data.get("author")
    if not isinstance(text, str) or not _COMMAND.search(text) or not isinstance(author, dict):
        return ""
    return str(author.get("username") or author.get("email") or "somebody")


@dataclass(slots=True)
class Lines:
    """Bytes become lines; a line that is longer than any event is dropped."""

    _rest: bytearray = field(default_factory=bytearray)
    _dropping: bool = False

    def add(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        *complete, rest = data.split(b"\n")
        lines = []
        for part in complete:
            self._keep(part)
            if not self._dropping:
                lines.append(bytes(self._rest))
            self._rest.clear()
            self._dropping = False
        self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        if len(self._rest) + len(part) > _LINE:
            self._dropping = True
            self._rest.clear()
        if not self._dropping:
            self._rest += part
