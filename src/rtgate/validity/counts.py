# SPDX-License-Identifier: MIT
"""Validity check: the tool counted as much work as it had to do."""

from __future__ import annotations

from rtgate.board.boot import TimeBase
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    problem, fine = "", []
    for entry in record.evidence.expectation.counts:
        name, least = entry.measurement, entry.least
        values = [quantity.value for quantity, _ in record.numbers(name)]
        if not values:
            problem = f"{name} was not measured, at least {least:g} are needed"
        elif min(values) < least:
            problem = f"{name} was {min(values):g}, at least {least:g} are needed"
        fine.append(f"{name} at least {least:g}")
    return answer_for(problem, ", ".join(fine) or "the tool has nothing to count")


def slowed_by_host(record: Record) -> bool:
    """Return whether a virtual board's host may have slowed the tool down: it had its time, and did too little."""
    evidence, duration_s = record.evidence, record.evidence.expectation.duration_s
    return record.environment.time == TimeBase.HOST and 0 < duration_s <= (evidence.elapsed_s or 0)


CHECK = ValidityCheck(
    name="counts",
    holds="a tool without a period counted as many samples, loops or inversions as its length asks for. What it "
    "lacks since it ended its run with a failure of the kernel is not told. On a virtual board in host time less is "
    "MISS if the tool had its time, as its host may be busy",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
