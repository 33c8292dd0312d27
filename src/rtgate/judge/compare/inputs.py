# SPDX-License-Identifier: MIT
"""What a comparison rests on beside the records: placebos for virtual time, the past for boards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.placebos import Placebos
from rtgate.records.record import Record


class HistoryProvider(Protocol):
    """What earlier runs know of boards."""

    @property
    def left_out(self) -> Sequence[str]:
        """Sentences about boots that `case_history` must not use: their kernels turned out to be bad."""

    def case_history(self, like: Record, records: Sequence[Record]) -> CaseHistory:
        """Return what is known of a case, measured as a record was.

        Args:
            like: the record.
            records: those under judgement; nothing is learnt from the run that they are of.
        """

    def disqualification(self, like: Record) -> str:
        """Return why the record's board may not judge; empty if its noise was measured."""


class NoHistory:
    """Nothing is known."""

    left_out: Sequence[str] = ()

    def case_history(self, like: Record, records: Sequence[Record]) -> CaseHistory:  # noqa: ARG002
        """Return nothing."""
        return CaseHistory()

    def disqualification(self, like: Record) -> str:
        """Return that no board is qualified."""
        return f"nobody has measured the noise of {like.board} (`rtgate qualify`, then --history)"


@dataclass(frozen=True, slots=True)
class ComparisonInputs:
    """What a comparison rests on beside the records.

    Attributes:
        placebos: for virtual time.
        history: for boards.
    """

    placebos: Placebos = field(default_factory=Placebos)
    history: HistoryProvider = field(default_factory=NoHistory)
