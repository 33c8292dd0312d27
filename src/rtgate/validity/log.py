# SPDX-License-Identifier: MIT
"""Validity check: the kernel's log was read, where most faults stand while the console is silent."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for


def _judge(record: Record) -> Answer:
    problems = {"": "the kernel's log was not read", "late": "the kernel's log has lost its beginning"}
    return answer_for(problems.get(record.evidence.log, ""), f"{record.evidence.log} kernel log")


CHECK = ValidityCheck(
    name="log",
    holds="the kernel's log, the only place of most faults, was read and is complete. If rtgate booted the board, "
    "it begins with the kernel's first line. On an attached board its first time stamp is not later than the start of "
    "the measurement; it is later if the log was overwritten or cleared meanwhile",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
