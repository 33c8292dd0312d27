# SPDX-License-Identifier: MIT
"""What a comparison borrows from the history, as `judge.comparing.Past` asks for it."""

from __future__ import annotations

from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.qualifying import qualified
from rtgate.judge.pairing import Known
from rtgate.record import Record


class Lender:
    """A history that lends. Its methods raise InfrastructureError when the database cannot be reached."""

    def __init__(self, history: History) -> None:
        self._history = history

    def known(self, like: Record) -> Known:
        """Return levels, variances and spikes of comparable boots."""
        return borrow(self._history, like).known

    def unqualified(self, like: Record) -> str:
        """Return why the record's board may not judge; empty if it may."""
        standing = qualified(self._history, like)
        return "" if standing.qualified else standing.reason
