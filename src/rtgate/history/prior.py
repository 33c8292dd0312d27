# SPDX-License-Identifier: MIT
"""What a comparison borrows from the history, as `HistoryProvider` asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.qualifying import standing_of
from rtgate.history.queries import revoked_warnings
from rtgate.history.screens import level
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.records.record import Record


class HistoryPrior:
    """A history that lends. Its methods raise InfrastructureError when the database cannot be reached."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._left_out: dict[str, None] = {}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about revoked kernels whose boots `case_history` did not lend."""
        return tuple(self._left_out)

    def case_history(self, like: Record, records: Sequence[Record]) -> CaseHistory:
        """Return levels, variances, spikes and sessions of comparable boots, of other runs than those judged."""
        self._left_out |= dict.fromkeys(revoked_warnings(self._history, like))
        return replace(borrow(self._history, like, records), screen=level(self._history, like))

    def disqualification(self, like: Record) -> str:
        """Return why the record's board may not judge; empty if it may."""
        standing = standing_of(self._history, like)
        return "" if standing.qualified else standing.reason
