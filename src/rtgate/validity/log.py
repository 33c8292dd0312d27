# SPDX-License-Identifier: MIT
"""Validity check: the kernel's log was read, where most faults stand while the console is silent."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, judged


def _judge(record: Record) -> Answer:
    problems = {"": "the kernel's log was not read", "late": "the kernel's log has lost its beginning"}
    return judged(problems.get(record.evidence.log, ""), f"{record.evidence.log} kernel log")


CHECK = ValidityCheck(
    name="log",
    holds="the kernel's log was read, where most faults stand and nowhere else. Of a boot of ours it begins with its "
    "first line. Of a board that ran before it begins no later than the measurement, by the stamps of its lines: one "
    "that was overwritten or cleared meanwhile begins later",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
