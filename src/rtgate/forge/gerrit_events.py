# SPDX-License-Identifier: MIT
"""What `gerrit stream-events` prints: one JSON object in a line. What is not understood is passed over.

An event is a reason to ask Gerrit about a change, never more: what is gated is what Gerrit answers then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

# After these a change has another patch set, or is another to us.
KINDS = (
    "change-abandoned",
    "change-merged",
    "change-restored",
    "patchset-created",
    "private-state-changed",
    "wip-state-changed",
)
# After these a query of the user's may have another answer.
QUERY_KINDS = ("comment-added", "hashtags-changed", "reviewer-added", "topic-changed", "vote-deleted")
# Gerrit dropped events, because nobody read them in time.
DROPPED = "dropped-output"
_LINE = 1 << 20  # an event with a commit message of 100 kB has 300 kB


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to a change; of `dropped-output` there is no change (0) and no project."""

    kind: str
    project: str = ""
    change: int = 0


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
    return Event(kind=data["type"], project=change["project"], change=number) if number > 0 else None


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
