# SPDX-License-Identifier: MIT
"""Which boots a comparison may use: those whose figures are what they claim to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rtgate.board.boot import ArmName
from rtgate.judge.judging import Subject
from rtgate.judge.limits import Finding
from rtgate.judge.verdict import Kind, Status
from rtgate.records.record import Record
from rtgate.validity.check import Check, CheckResult, Invalidates
from rtgate.validity.registry import checks


def usable(record: Record, not_applicable: Mapping[str, str]) -> bool:
    """Return whether a boot's figures are what they claim to be; a baseline's must be so in every respect."""
    failed = _failed(record, not_applicable)
    if record.arm == ArmName.BASELINE:
        return record.measured and not failed
    return record.measured and all(check.spoils is Invalidates.GOOD_NEWS for check in failed)


def flawed(record: Record, not_applicable: Mapping[str, str]) -> bool:
    """Return whether a boot lacks something, so that it is no good news."""
    return not record.measured or bool(_failed(record, not_applicable))


def valid(records: Sequence[Record], subject: Subject) -> list[Record]:
    """Return the boots that may be used."""
    return [record for record in records if usable(record, subject.not_applicable)]


def unusable(subject: Subject) -> Finding | None:
    """Return why no boot of one kernel can be used; None if some can."""
    for records in (subject.baseline, subject.records):
        if not valid(records, subject):
            bad = next((one for record in records for one in _failed(record, subject.not_applicable)), None)
            sentence = f"not compared: no boot of {records[0].arm} is valid{f': {bad.sentence}' if bad else ''}"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    return None


def _failed(record: Record, not_applicable: Mapping[str, str]) -> list[Check]:
    if not record.measured:
        return []
    return [check for check in checks(record, not_applicable) if check.held is CheckResult.FAILED]
