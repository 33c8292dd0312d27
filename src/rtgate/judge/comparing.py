# SPDX-License-Identifier: MIT
"""Comparing: the boots of two kernels become verdicts, for all cases of a run at once.

The limits of `thresholds.yaml` say whether a kernel is good; this says whether it became worse. Neither replaces the
other. On virtual time boots are phases (`phases`), on boards they are pairs (`paired`); on host time nothing is
compared, because the host takes part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Protocol

from rtgate.judge import looks, pairing, summaries
from rtgate.judge.boot_figures import BootFigure, boot_figures
from rtgate.judge.check import Check, Held, Spoils
from rtgate.judge.comparable import differences
from rtgate.judge.judging import Subject, verdict
from rtgate.judge.limits import Finding
from rtgate.judge.looks import Comparison
from rtgate.judge.pairing import BoardRecords, Known
from rtgate.judge.phase_findings import Compared, findings
from rtgate.judge.phases import decided, shifts
from rtgate.judge.placebos import Placebos
from rtgate.judge.validity import checks
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.record import Record, digest_source

_BOOT_MINUTES = 1.5  # of a board, around its measurements
_FEWEST_PHASES = 4  # seeds, of which half or more are copies, that tell something
_FEWEST_PAIRS = 3  # with a history; without one the paired test says how many it takes


class Past(Protocol):
    """What earlier runs know of boards."""

    def known(self, like: Record) -> Known:
        """Return what is known of a case, measured as this record was."""

    def unqualified(self, like: Record) -> str:
        """Return why the record's board may not judge; empty if somebody has shown how good a judge it is."""


class NoPast:
    """Nothing is known."""

    def known(self, like: Record) -> Known:  # noqa: ARG002
        """Return nothing."""
        return Known()

    def unqualified(self, like: Record) -> str:
        """Return that no board is qualified."""
        return f"nobody has shown how good a judge {like.board} is (`rtgate qualify`, then --history)"


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a comparison rests on beside the records.

    Attributes:
        placebos: for virtual time.
        past: for boards.
    """

    placebos: Placebos = field(default_factory=Placebos)
    past: Past = field(default_factory=NoPast)


def compare(subjects: Sequence[Subject], grounds: Grounds) -> tuple[Verdict, ...]:
    """Return what the comparison of candidate and baseline says, for each case that has both.

    A case whose two kernels must not be compared has its verdict already (`judging`); here it is passed over.
    """
    both = [(subject, time) for subject in subjects if (time := _time(subject))]
    on_virtual_time = [subject for subject, time in both if time == "virtual"]
    on_boards = [subject for subject, time in both if time == "real"]
    return (
        *(verdict(subject, found) for subject, found in _without_baseline(subjects)),
        *(verdict(subject, found) for subject, found in _phases(on_virtual_time, grounds.placebos)),
        *(verdict(subject, found) for subject, found in _pairs(on_boards, grounds.past)),
    )


def _without_baseline(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Finding]]:
    """Yield that no boot of a baseline measured: that is no reason to compare nothing, and pass."""
    for subject in subjects:
        there = any(record.state == "measured" for record in subject.records)
        if there and subject.baseline and not any(record.state == "measured" for record in subject.baseline):
            told = ", ".join(f"{record.boot} {record.state}" for record in subject.baseline[:4])
            sentence = f"not compared: no boot of the baseline measured ({told})"
            yield subject, Finding(status=Status.MISS, kind=Kind.MISSING, sentence=sentence)


def _time(subject: Subject) -> str:
    """Return the time that both kernels were measured on, by boots that may be compared; empty otherwise."""
    measured = [one for one in (*subject.records, *subject.baseline) if one.state == "measured"]
    times = {one.environment.time for one in measured}
    if len({one.arm for one in measured}) != 2 or len(times) != 1 or differences(subject.baseline, subject.records):
        return ""
    return times.pop()


def _phases(subjects: Sequence[Subject], placebos: Placebos) -> Iterator[tuple[Subject, Finding]]:
    cases = [_compared(subject, placebos) for subject in subjects]
    outcomes = iter(decided([figure for case in cases for figure in case.found]))
    for subject, case in zip(subjects, cases, strict=True):
        decided_here = tuple(next(outcomes) for _ in case.found)
        broken = _unusable(subject) or _not_repeated(subject)
        for found in (broken,) if broken else findings(case, decided_here):
            yield subject, found


def _unusable(subject: Subject) -> Finding | None:
    """Return why no boot of one kernel can be used; None if some can."""
    for records in (subject.baseline, subject.records):
        if not _valid(records, subject):
            bad = next((one for record in records for one in _failed(record, subject.undeclared)), None)
            sentence = f"not compared: no boot of {records[0].arm} is valid{f': {bad.sentence}' if bad else ''}"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    return None


def _not_repeated(subject: Subject) -> Finding | None:
    """Return that virtual time did not do what it must: one kernel and one seed give one result, each seed its own."""
    both = [_valid(records, subject) for records in (subject.baseline, subject.records)]
    digests = [{record.seed: digest_source(record) for record in records} for records in both]
    images = {record.kernel.image_sha256 for records in both for record in records}
    if len(images) == 1:
        odd = [seed for seed, digest in digests[0].items() if digests[1].get(seed, digest) != digest]
        if odd:
            sentence = f"virtual time did not repeat: one kernel image, and other data with seed {odd[0]}"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    # A single number may be the same in all boots; a distribution of thousands of samples is not.
    whole = all(any(one.histogram for one in record.measurements) for records in both for record in records)
    for arm in digests if whole else ():
        if len(arm) >= _FEWEST_PHASES and len(set(arm.values())) <= len(arm) / 2:
            different = len(set(arm.values()))
            sentence = f"{len(arm)} seeds gave {different} different results: copies of a boot are no boots"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    return None


def _compared(subject: Subject, placebos: Placebos) -> Compared:
    before, after = _valid(subject.baseline, subject), _valid(subject.records, subject)
    flawed = sum(_flawed(record, subject.undeclared) for record in (*subject.baseline, *subject.records))
    one = next(record for record in (*subject.records, *subject.baseline) if record.state == "measured")
    learnt = placebos.of(subject.board, one.kernel.flavour, subject.case, " ".join(one.argv))
    old, new = _figures(before), _figures(after)
    found = shifts(old, new, learnt)
    named = {name for boot in (*old, *new) for name in boot} | set(learnt)
    return Compared(
        board=subject.board,
        absent=tuple(sorted(named - {figure.figure for figure in found})),
        found=found,
        lost=flawed,
        instruction_ns=one.environment.instruction_ns,
        explained=subject.explained,
        same=len({record.kernel.image_sha256 for record in (*before, *after)}) == 1,
        boot_s=mean(record.seconds.get("total", 0.0) for record in (*before, *after)) if before or after else 0.0,
    )


def _valid(records: Sequence[Record], subject: Subject) -> list[Record]:
    return [record for record in records if _usable(record, subject.undeclared)]


def _usable(record: Record, undeclared: Mapping[str, str]) -> bool:
    """Return whether a boot's figures are what they claim to be; a baseline's must be so in every respect."""
    failed = _failed(record, undeclared)
    if record.arm == "baseline":
        return record.state == "measured" and not failed
    return record.state == "measured" and all(check.spoils is Spoils.GOOD_NEWS for check in failed)


def _flawed(record: Record, undeclared: Mapping[str, str]) -> bool:
    return record.state != "measured" or bool(_failed(record, undeclared))


def _failed(record: Record, undeclared: Mapping[str, str]) -> list[Check]:
    if record.state != "measured":
        return []
    return [check for check in checks(record, undeclared) if check.held is Held.FAILED]


def _figures(records: Sequence[Record]) -> list[Mapping[str, BootFigure]]:
    return [boot_figures(record) for record in records]


def _pairs(subjects: Sequence[Subject], past: Past) -> Iterator[tuple[Subject, Finding]]:
    """Yield what pairs of boots say, all metrics of all cases of a board together (Holm).

    All pairs were measured before anybody looked, so there is one look. Boards of different kinds are different
    families; each may err as often as its share allows.
    """
    names = sorted({subject.board for subject in subjects})
    for name in names:
        here = [subject for subject in subjects if subject.board == name]
        boards = {subject.case: _board(subject, past) for subject in here}
        # The look takes as many pairs as every case has that has enough of them at all.
        counts = [len(board.pairs) for board in boards.values() if len(board.pairs) >= _FEWEST_PAIRS]
        pairs = min(counts, default=_FEWEST_PAIRS)
        plan = looks.once(pairs, looks.RELEASE.alpha / len(names))
        family = [one for case, board in boards.items() for one in pairing.evidence(case, [board], pairs)]
        told = {comparison.case: comparison for comparison in looks.compare(family, plan)}
        for subject in here:
            yield subject, _paired(subject, boards[subject.case], told.get(subject.case), past)


def _board(subject: Subject, past: Past) -> BoardRecords:
    """Return a board's pairs: the nth boot of each kernel, neighbours in time; a boot that is no good takes both."""
    couples = zip(subject.baseline, subject.records, strict=False)
    usable = [
        (old, new) for old, new in couples if _usable(old, subject.undeclared) and _usable(new, subject.undeclared)
    ]
    return BoardRecords(board=subject.board, pairs=usable, known=past.known(subject.records[0]))


def _paired(subject: Subject, board: BoardRecords, comparison: Comparison | None, past: Past) -> Finding:
    if comparison is None:
        sentence = "nothing of what was measured can be compared" if board.pairs else "no pair of boots can be used"
        return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence)
    found = pairing.finding(comparison, summaries.minutes(board.pairs[0][0]), _BOOT_MINUTES)
    why = past.unqualified(subject.records[0])
    if why:
        sentence = f"{found.sentence}; not judged: {why}"
        return replace(found, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    lost = max(len(subject.baseline), len(subject.records)) - len(board.pairs)
    if lost and found.status is Status.PASS:
        sentence = f"{found.sentence}; but {lost} pairs could not be used: that does not count as good"
        return replace(found, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    return found
