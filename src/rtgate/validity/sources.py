# SPDX-License-Identifier: MIT
"""Validity check of the record itself: it names the files that it was made from, and says what they say."""

from __future__ import annotations

from rtgate.records.record import Record
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for

# Every plan that measured leaves an exit code, and every boot says something.
_SOURCES = ("raw/tool.rc", "console.log")


def _judge(record: Record) -> Answer:
    problems = list(record.discrepancies)
    missing_names = [name for name in _SOURCES if name not in record.sources]
    if missing_names and not problems:
        text = ", ".join(missing_names)
        problems = [f"record.json does not name the raw output that it was made from (`sources` has no {text})"]
    return answer_for("; ".join(problems), "the files say the same")


CHECK = ValidityCheck(
    name="record",
    holds="`record.json` names the raw output that it was made from, and says what that says",
    invalidates=Invalidates.EVERYTHING,
    judge=_judge,
)
