# SPDX-License-Identifier: MIT
"""Which patch sets are still to be reviewed, and which were: each once, across restarts of the service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.durations import DAY_S
from rtgate.errors import RtgateError
from rtgate.forge.gerrit_change import PatchSet
from rtgate.records.codec import decode
from rtgate.records.document import read_document

FORMAT = 1
# A review that takes the machine down with it must not do so for ever.
STARTS = 3
# A comment on a change whose review is forgotten would have it reviewed again.
_KEEP_S = 400 * DAY_S
_REMEDY = (
    "it says which patch sets were reviewed: remove it; open changes of the last days (--since) are then reviewed again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What became of a change's newest patch set that was started.

    Attributes:
        number: of the patch set.
        starts: how often its review was started.
        ended: whether a review came to its end, whatever that was.
        at: when it was started last, in seconds since 1970.
    """

    number: int
    starts: int
    ended: bool
    at: float


@dataclass(slots=True)
class Journal:
    """What was started and what ended, by change; every word is on disk before anything else happens.

    Raises InfrastructureError where it cannot be written; it is known all the same, and written with the next one.
    """

    path: Path
    now: Callable[[], float] = time.time
    _entries: dict[int, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._entries = read_document(self.path, _entries, _REMEDY, supported=FORMAT) or {}

    def open(self, patch_set: PatchSet) -> bool:
        """Return whether a patch set is still to be reviewed."""
        entry = self._entries.get(patch_set.change)
        if entry is None or entry.number < patch_set.number:
            return True
        return entry.number == patch_set.number and not entry.ended and entry.starts < STARTS

    def start(self, patch_set: PatchSet) -> None:
        """Note that a review begins."""
        entry = self._entries.get(patch_set.change)
        starts = entry.starts if entry and entry.number == patch_set.number else 0
        self._write(patch_set.change, Entry(number=patch_set.number, starts=starts + 1, ended=False, at=self.now()))

    def end(self, patch_set: PatchSet) -> None:
        """Note that a review has come to its end."""
        self._write(patch_set.change, replace(self._entries[patch_set.change], ended=True))

    def undo(self, patch_set: PatchSet) -> None:
        """Note that a review was ended by us before its end: that start does not count."""
        entry = self._entries[patch_set.change]
        self._write(patch_set.change, replace(entry, starts=entry.starts - 1))

    def reopen(self, change: int) -> bool:
        """Note that a review which has ended, or was given up, is to be made again; return whether there was one."""
        entry = self._entries.get(change)
        if entry is None or not (entry.ended or entry.starts >= STARTS):
            return False
        self._write(change, replace(entry, starts=0, ended=False))
        return True

    def _write(self, change: int, entry: Entry) -> None:
        oldest = self.now() - _KEEP_S
        self._entries = {number: row for number, row in self._entries.items() if row.at >= oldest} | {change: entry}
        changes = {str(number): asdict(row) for number, row in sorted(self._entries.items())}
        with files.writing(self.path):
            files.write_text(self.path, json.dumps({"format": FORMAT, "changes": changes}, indent=1) + "\n")


def _entries(data: Mapping[str, Any]) -> dict[int, Entry]:
    return {int(change): decode(entry, Entry) for change, entry in data["changes"].items()}


@dataclass(slots=True)
class ReviewQueue:
    """The patch sets that wait: of each change the newest, in the order in which they came."""

    journal: Journal
    _waiting: dict[int, PatchSet] = field(default_factory=dict)

    def wants(self, patch_set: PatchSet) -> bool:
        """Return whether a patch set is new here: it was not reviewed, and no newer one waits."""
        rival = self._waiting.get(patch_set.change)
        return not (rival and rival.number >= patch_set.number) and self.journal.open(patch_set)

    def offer(self, patch_set: PatchSet) -> bool:
        """Take a patch set if it is new here, and return whether it is."""
        if not self.wants(patch_set):
            return False
        self._waiting.pop(patch_set.change, None)  # whoever pushes again goes to the end
        self._waiting[patch_set.change] = patch_set
        return True

    def withdraw(self, change: int) -> bool:
        """Take a change off the queue; return whether it was there."""
        return self._waiting.pop(change, None) is not None

    def take(self) -> PatchSet | None:
        """Return what is to be reviewed next, and take it off the queue; None when nothing waits."""
        for change in list(self._waiting):
            patch_set = self._waiting.pop(change)
            if self.journal.open(patch_set):
                return patch_set
        return None

    @contextmanager
    def next(self) -> Iterator[PatchSet | None]:
        """Yield what `take` returns; it waits again, behind the others, if what is done with it fails."""
        patch_set = self.take()
        try:
            yield patch_set
        except RtgateError:
            if patch_set is not None:
                self.offer(patch_set)
            raise

    @property
    def waiting(self) -> Mapping[int, PatchSet]:
        """The patch sets that wait, by change."""
        return dict(self._waiting)

    @property
    def changes(self) -> tuple[int, ...]:
        """The changes that wait."""
        return tuple(self._waiting)
