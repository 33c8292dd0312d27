# SPDX-License-Identifier: MIT
"""Which boots a comparison may use: those whose figures are what they claim to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.board.boot import ArmName
from rtgate.judge.judging import Subject
from rtgate.judge.short_runs import is_of_short_run
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.validity.check import Check, CheckResult, Invalidates
from rtgate.validity.registry import checks

_Failed = tuple[Record, Sequence[Check]]
"""A boot and the checks that failed in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableBoots:
    """The boots of a case's kernels that may be compared. To check a boot takes longer than to compare it.

    Attributes:
        lost: how many boots of both lack something, so that they are no good news.
        broken: why no boot of one kernel can be used; None if some can. It is DONE, and no ERROR, if each of its runs
            ended with the kernel's own failure.
    """

    baseline: Sequence[Record]
    candidate: Sequence[Record]
    lost: int
    broken: Finding | None


def usable_boots(subject: Subject) -> UsableBoots:
    """Return the boots of a case that may be used, each of them checked once."""
    kernels = [
        [(record, _failed_checks(record, subject.not_applicable)) for record in records]
        for records in (subject.baseline, subject.records)
    ]
    baseline, candidate = ([record for record, failures in boots if _is_usable(record, failures)] for boots in kernels)
    empty = [boots for boots, good in zip(kernels, (baseline, candidate), strict=True) if not good]
    return UsableBoots(
        baseline=baseline,
        candidate=candidate,
        lost=sum(not record.has_results or bool(failures) for boots in kernels for record, failures in boots),
        broken=_unusable(min(empty, key=_is_cut_short)) if empty else None,
    )


def is_usable(record: Record, not_applicable: Mapping[str, str]) -> bool:
    """Return whether a boot's figures are what they claim to be; a baseline's must be so in every respect."""
    return _is_usable(record, _failed_checks(record, not_applicable))


def is_flawed(record: Record, not_applicable: Mapping[str, str]) -> bool:
    """Return whether a boot lacks something, so that it is no good news."""
    return not record.has_results or bool(_failed_checks(record, not_applicable))


def _is_usable(record: Record, failures: Sequence[Check]) -> bool:
    if record.arm == ArmName.BASELINE:
        return record.has_results and not failures
    return record.has_results and all(check.invalidates is Invalidates.GOOD_NEWS for check in failures)


def _is_cut_short(boots: Sequence[_Failed]) -> bool:
    """Return whether nothing is wrong with what a kernel measured but that its own failure ended each run."""
    return any(failures for _, failures in boots) and all(
        is_of_short_run(check, record) for record, failures in boots for check in failures
    )


def _unusable(boots: Sequence[_Failed]) -> Finding:
    if _is_cut_short(boots):
        # Judging tells the candidate's failure. A baseline's is no fault of the candidate, nor of the measurement.
        sentence = f"not compared: the runs of the {boots[0][0].arm} ended with its own failure"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    bad = next((check for _, failures in boots for check in failures), None)
    sentence = f"not compared: no boot of {boots[0][0].arm} is valid{f': {bad.sentence}' if bad else ''}"
    return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)


def _failed_checks(record: Record, not_applicable: Mapping[str, str]) -> list[Check]:
    if not record.has_results:
        return []
    return [check for check in checks(record, not_applicable) if check.result is CheckResult.FAILED]
