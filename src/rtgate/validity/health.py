# SPDX-License-Identifier: MIT
"""Validity check: the disk was well before and after."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for

# Bits of an NVMe disk's critical warning (NVMe base specification, SMART / Health Information).
_WARNINGS = (
    *("its spare blocks are used up", "its temperature is beyond its limit", "its reliability is degraded"),
    *("it is read-only", "its volatile memory is not backed up", "its persistent memory is read-only"),
)


def _judge(record: Record) -> Answer:
    start = record.evidence.expectation.health
    if not start:
        return answer_for("", "the tool has no disk")
    health = {
        measurement.name: measurement.quantity.value for measurement in record.measurements if measurement.quantity
    }
    warning, errors = health.get(f"{start}.critical_warning"), health.get(f"{start}.media_errors")
    if warning is None or errors is None:
        return answer_for("the disk's health was not read before and after", "", Invalidates.GOOD_NEWS)
    reasons = [word for bit, word in enumerate(_WARNINGS) if int(warning) >> bit & 1]
    problems = [f"the disk warns: {', '.join(reasons) or f'code {warning:g}'}"] if warning else []
    problems += [f"the disk counted {errors:g} new media errors"] if errors else []
    return answer_for("; ".join(problems), "no warning and no new media error")


CHECK = ValidityCheck(
    name="health",
    holds="an NVMe disk had no critical warning before and after, and no new media error",
    invalidates=Invalidates.EVERYTHING,
    exceptions="good news, if it was not read",
    judge=_judge,
)
