# SPDX-License-Identifier: MIT
"""Validity check of the record itself: it names the files that it was made from, and says what they say."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, judged

_EXIT_CODE = "raw/tool.rc"  # every plan that measured leaves it


def _judge(record: Record) -> Answer:
    problems = list(record.discrepancies)
    if _EXIT_CODE not in record.sources and not problems:
        problems = [f"record.json does not name the raw output that it was made from (`sources` has no {_EXIT_CODE})"]
    return judged("; ".join(problems), "the files say the same")


CHECK = ValidityCheck(
    name="record",
    holds="`record.json` names the raw output that it was made from, and says what that says",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
