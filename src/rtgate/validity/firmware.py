# SPDX-License-Identifier: MIT
"""Validity check: the board's firmware is what its file pins."""

from __future__ import annotations

from rtgate.board import firmware
from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for, not_applicable


def _judge(record: Record) -> Answer:
    pins, versions = record.evidence.expectation.firmware, firmware.strings(record.environment.firmware)
    if not pins:
        return not_applicable("the board's file pins no firmware")
    if not versions:
        problem = f"{', '.join(pins)}: the board's file pins it, and no log of the boot told any (a LAVA job has one)"
        return answer_for(problem, "", Invalidates.GOOD_NEWS)
    return answer_for(firmware.unlike(pins, versions), f"{', '.join(pins)} as pinned")


CHECK = ValidityCheck(
    name="firmware",
    holds="each version that the board's file pins (`firmware`) is among those that firmware and boot loader printed "
    "while the board booted",
    invalidates=Invalidates.EVERYTHING,
    exceptions="good news, if no log of the boot was seen",
    judge=_judge,
)
