# SPDX-License-Identifier: MIT
"""What is judged inside a job, case by case, so that LAVA's own table shows a limit that was exceeded.

It is preliminary: one boot is judged by its limits, without those that follow, the baseline, the history and waivers.
`rtgate fetch` judges all that the job brought.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rtgate.board.boards import Board
from rtgate.judge.applicable import applicable
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Status, Verdict
from rtgate.lava.in_job import signals
from rtgate.lava.results.classify import SAYS
from rtgate.lava.results.plain_text import plain_line
from rtgate.records.record import Record
from rtgate.validity import registry

NOT_COMPARED = "rtgate.not-compared"
"""The result that says that two kernels are compared, and not here."""
_LONGEST = 300  # characters of a sentence


@dataclass(slots=True)
class CaseJudge:
    """Judges the cases of one boot as they come."""

    board: Board
    limits: Thresholds
    _before: list[Record] = field(default_factory=list)

    def judge(self, record: Record) -> tuple[Verdict, ...]:
        """Return the verdicts of a record, never none. Raises ConfigError: the board's file names no check."""
        subject = Subject(
            case=record.case,
            board=record.board,
            arm=record.arm,
            flavour=record.kernel.flavour,
            records=(record,),
            beside=[
                sibling for sibling in self._before if sibling.boot_id == record.boot_id and sibling.case != record.case
            ],
            not_applicable=registry.not_applicable(self.board),
        )
        self._before.append(record)
        return judge(subject, self.limits)

    def lines(self, record: Record) -> Iterator[str]:
        """Yield what the job prints of a record: why it is not simply good, in words, and LAVA's signals."""
        verdicts = self.judge(record)
        for verdict in verdicts:
            if verdict.status not in {Status.PASS, Status.SKIP}:
                yield f"{SAYS}{record.case}: {verdict.status.value} (preliminary): {_sentence(verdict)}"
        limits = self.limits.of(record.board, record.kernel.flavour, record.case)
        yield from signals.record_signals(record, applicable(limits, (record,)).limits, verdicts)


def _sentence(verdict: Verdict) -> str:
    """Return one line; a figure and its limit without the line of the job's own copy of the limits."""
    if verdict.value and verdict.limit:
        return plain_line(f"{verdict.measurement} {verdict.value}, limit {verdict.limit}")[:_LONGEST]
    return plain_line(verdict.sentence.partition("\n")[0])[:_LONGEST]
