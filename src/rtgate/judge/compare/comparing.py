# SPDX-License-Identifier: MIT
"""Comparing: the boots of two kernels become verdicts, for all cases of a run at once.

The limits of `thresholds.yaml` say whether a kernel is good; this says whether it became worse. Neither replaces the
other. On virtual time boots are phases (`on_virtual_time`). On boards, and on virtual boards in host time, they are
pairs (`on_boards`), which are judged only where the noise of the board was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rtgate.board.boot import ArmName, TimeBase
from rtgate.judge.boot_identity import identity_conflicts
from rtgate.judge.compare.comparable import configuration_effects, differences
from rtgate.judge.compare.inputs import ComparisonInputs
from rtgate.judge.compare.on_boards import has_screen, pairs
from rtgate.judge.compare.on_virtual_time import phases
from rtgate.judge.compare.repetition import first_mismatch
from rtgate.judge.compare.section_findings import section_findings
from rtgate.judge.judging import Subject, verdict
from rtgate.judge.verdict import Finding, Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import is_compared


def compare(subjects: Sequence[Subject], grounds: ComparisonInputs) -> tuple[Verdict, ...]:
    """Return what the comparison of candidate and baseline says, for each case that has both.

    A case whose two kernels must not be compared has its verdict already (`judging`); here it is passed over. A
    candidate that was screened needs no baseline: the history is what it is compared with.
    """
    on_virtual_time = [subject for subject in subjects if _time(subject) == TimeBase.VIRTUAL]
    on_boards = comparable_on_boards(subjects)
    findings = (
        *_without_baseline(subjects),
        *phases(on_virtual_time, grounds.placebos),
        *section_findings(on_virtual_time, grounds.placebos),
        *pairs(on_boards, grounds.history),
    )
    return tuple(verdict(subject, _reporting(subject, finding)) for subject, finding in findings)


def _reporting(subject: Subject, finding: Finding) -> Finding:
    """Return a finding that says what the two configurations made of the board."""
    effects = configuration_effects(subject.baseline, subject.records)
    return replace(finding, sentence=f"{finding.sentence}; differs: {', '.join(effects)}") if effects else finding


def comparable_on_boards(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the cases that pairs of boots, or boots beside the history, may say something of."""
    return [
        subject
        for subject in subjects
        if (_time(subject) in {TimeBase.REAL, TimeBase.HOST} or (has_screen(subject) and not subject.baseline))
        and is_compared(subject.case)
    ]


def _without_baseline(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Finding]]:
    """Yield that no boot of a baseline measured: that is no reason to compare nothing, and pass."""
    for subject in subjects:
        if subject.arm == ArmName.BASELINE or not _has_results(subject.records) or _has_results(subject.baseline):
            continue
        if has_screen(subject) and not subject.baseline:
            continue
        mismatch = first_mismatch(subject)
        if mismatch:
            yield subject, mismatch
            continue
        place = _baseline_place(subject, subjects)
        states = [f"{record.boot} {record.state}" for record in subject.baseline[:4]]
        states += [f"{boots} left no record" for boots in subject.unpaired[: 4 - len(states)]]
        if place:
            sentence = f"baseline and candidate cannot be compared: {place}"
            yield subject, Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
        elif subject.paired or subject.baseline:
            why = ", ".join(states) or "there is no record of it"
            sentence = f"not compared: no boot of the baseline measured ({why})"
            yield subject, Finding(status=Status.MISS, kind=Kind.MISSING, sentence=sentence)


def _has_results(records: Sequence[Record]) -> bool:
    return any(record.has_results for record in records)


def _baseline_place(subject: Subject, subjects: Sequence[Subject]) -> str:
    """Return where the baseline was measured instead, as a difference; empty if it was not."""
    mine = CaseName.parse(subject.case)
    for peer in subjects:
        if (
            peer.case == subject.case
            and peer.arm == ArmName.BASELINE
            and not subject.paired
            and _has_results(peer.records)
        ):
            return f"board: {peer.board!r} against {subject.board!r}"
        theirs = CaseName.parse(peer.case)
        alone = _has_results(peer.baseline) and not _has_results(peer.records)
        if alone and (peer.board, theirs.without_tuning) == (subject.board, mine.without_tuning) and theirs != mine:
            return f"tuning: {theirs.tuning!r} against {mine.tuning!r}"
    return ""


def _time(subject: Subject) -> TimeBase:
    """Return the time that both kernels were measured on, by boots that may be compared, if there are any."""
    records = [record for record in (*subject.records, *subject.baseline) if record.has_results]
    times = {record.environment.time for record in records}
    if (
        len({record.arm for record in records}) != 2
        or len(times) != 1
        or differences(subject.baseline, subject.records)
    ):
        return TimeBase.UNKNOWN
    if identity_conflicts(subject.baseline, subject.records):
        return TimeBase.UNKNOWN
    return times.pop()
