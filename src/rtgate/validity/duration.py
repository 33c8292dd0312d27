# SPDX-License-Identifier: MIT
"""Validity check: the run took as long as asked."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.plan_files import uptime


def elapsed_s(files: Mapping[str, bytes]) -> float | None:
    """Return the target's seconds from the tool's start to its end; None when they were not read."""
    start, end = uptime(files, "start"), uptime(files, "end")
    return None if start is None or end is None else round(end - start, 2)


def _judge(record: Record) -> Answer:
    duration_s, length = record.evidence.expectation.duration_s, record.evidence.elapsed_s
    problem = ""
    if length is None:
        problem = "the length of the run was not read"
    elif length < duration_s * 0.99:
        problem = f"the run took {length:g} s of the {duration_s:g} s asked for"
    return answer_for(problem, f"{length} s for {duration_s:g} s asked")


CHECK = ValidityCheck(
    name="duration",
    holds="the run took as long as asked. A shorter one is not told if the tool ended it with a failure of the kernel",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
