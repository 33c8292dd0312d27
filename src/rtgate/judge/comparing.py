# SPDX-License-Identifier: MIT
"""Comparing: the boots of two kernels become verdicts, for all cases of a run at once.

The limits of `thresholds.yaml` say whether a kernel is good; this says whether it became worse. Neither replaces the
other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from rtgate.judge.boot_figures import BootFigure, Part, boot_figures
from rtgate.judge.comparable import differences
from rtgate.judge.judging import Subject
from rtgate.judge.limits import Finding, shown
from rtgate.judge.phases import Outcome, Shift, boots_needed, decided, shifts
from rtgate.judge.placebos import Placebos
from rtgate.judge.validity import Held, Spoils, checks
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.record import Record
from rtgate.units import Quantity, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One case on virtual time, both kernels' valid boots.

    Attributes:
        lost: how many boots of either kernel cannot be used.
        boot_s: how long a boot took this machine.
    """

    subject: Subject
    found: tuple[Shift, ...]
    lost: int
    instruction_ns: str
    boot_s: float


def compare(subjects: Sequence[Subject], placebos: Placebos) -> tuple[Verdict, ...]:
    """Return what the comparison of candidate and baseline says, for each case that has both.

    A case whose two kernels must not be compared has its verdict already (`judging`); here it is passed over.
    """
    cases = [_compared(subject, placebos) for subject in subjects if _has_both(subject)]
    open_figures = [figure for case in cases for figure in case.found]
    outcomes = iter(decided(open_figures))
    verdicts: list[Verdict] = []
    for case in cases:
        found = tuple(next(outcomes) for _ in case.found)
        verdicts += (_verdict(case.subject, finding) for finding in _findings(case, found))
    return tuple(verdicts)


def _has_both(subject: Subject) -> bool:
    """Return whether both kernels were measured on virtual time, by boots that may be compared."""
    measured = [one for one in (*subject.records, *subject.baseline) if one.state == "measured"]
    arms = {one.arm for one in measured}
    virtual = all(one.virtual_time for one in measured)
    return len(arms) == 2 and virtual and not differences(subject.baseline, subject.records)


def _compared(subject: Subject, placebos: Placebos) -> Compared:
    before = [record for record in subject.baseline if _valid(record, subject.undeclared)]
    after = [record for record in subject.records if _valid(record, subject.undeclared)]
    one = next(record for record in (*subject.records, *subject.baseline) if record.state == "measured")
    learnt = placebos.of(subject.board, one.kernel.flavour, subject.case, " ".join(one.argv))
    return Compared(
        subject=subject,
        found=shifts(_figures(before), _figures(after), learnt),
        lost=len(subject.baseline) + len(subject.records) - len(before) - len(after),
        instruction_ns=one.environment.instruction_ns,
        boot_s=mean(record.seconds.get("total", 0.0) for record in (*before, *after)) if before or after else 0.0,
    )


def _valid(record: Record, undeclared: Mapping[str, str]) -> bool:
    return record.state == "measured" and not any(
        check.held is Held.FAILED and check.spoils is not Spoils.GOOD_NEWS for check in checks(record, undeclared)
    )


def _figures(records: Sequence[Record]) -> list[Mapping[str, BootFigure]]:
    return [boot_figures(record) for record in records]


def _findings(case: Compared, found: Sequence[Shift]) -> Iterator[Finding]:
    """Yield a finding for each regression; and one for what is open, what was never learnt, and what is no worse."""
    of = {outcome: [one for one in found if one.outcome is outcome] for outcome in Outcome}
    for one in of[Outcome.REGRESSION]:
        yield _regression(case, one)
    if of[Outcome.INCONCLUSIVE]:
        yield _open(case, of[Outcome.INCONCLUSIVE])
    if of[Outcome.UNKNOWN] or not found:
        yield _unknown(case, of[Outcome.UNKNOWN])
    if of[Outcome.NO_WORSE] and len(of[Outcome.NO_WORSE]) == len(found):
        yield _no_worse(case, found)


def _regression(case: Compared, one: Shift) -> Finding:
    old, new = _shown(case, one, one.baseline), _shown(case, one, one.candidate)
    if one.shift >= one.practical:
        sentence = (
            f"{one.figure} went from {old} to {new} ({_change(one, one.shift)}, median of {one.boots} boots of each "
            f"kernel); equal kernels show so much with p = {one.p:.1g}, and {_change(one, one.practical)} would have "
            "been let through"
        )
    else:
        sentence = (
            f"{one.spikes} of {one.boots} boots had a {one.figure} that no boot of any placebo had "
            f"(p = {one.spike_p:.1g}); median {old} before, {new} now"
        )
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence,
        value=new,
        limit=_shown(case, one, one.baseline + one.practical),
        measurement=one.figure,
    )


def _open(case: Compared, found: Sequence[Shift]) -> Finding:
    worst = max(found, key=lambda one: (one.most - one.must_see) / (abs(one.baseline) or 1.0))
    names = ", ".join(one.figure for one in found)
    if math.isfinite(worst.most):
        told = f"{worst.figure} may have become worse by {_change(worst, worst.most)}"
    else:
        told = f"{worst.boots} boots of each kernel are too few"
    sentence = f"the boots do not decide about {names}: {told}, and {_change(worst, worst.must_see)} counts; "
    return Finding(
        status=Status.DONE,
        kind=Kind.INCONCLUSIVE,
        sentence=sentence + _advice(case, found),
        measurement=worst.figure,
    )


def _advice(case: Compared, found: Sequence[Shift]) -> str:
    needed = [boots_needed(one) for one in found]
    boots = max((number for number in needed if number is not None), default=0)
    if None in needed:
        return "the effect is so near to what counts as worse that more boots may not decide"
    minutes = 2 * max(0, boots - found[0].boots) * case.boot_s / 60
    return f"about {boots} boots of each kernel would decide ({minutes:.1f} min more of one core)"


def _unknown(case: Compared, found: Sequence[Shift]) -> Finding:
    told = "; ".join(f"{one.figure} {_change(one, one.shift)} (p = {one.p:.1g})" for one in found)
    sentence = (
        "compared, not judged: placebos.yaml does not say how much harmless kernels move this case on "
        f"{case.subject.board} with this command line" + (f": {told}" if told else "")
    )
    return Finding(status=Status.DONE, kind=Kind.UNJUDGED, sentence=sentence)


def _no_worse(case: Compared, found: Sequence[Shift]) -> Finding:
    if case.lost:
        sentence = f"no regression seen, but {case.lost} boots could not be used: the comparison does not count as good"
        return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence)
    body = next((one for one in found if one.part is Part.BODY), found[0])
    widest = max(found, key=lambda one: one.ruled_out / (abs(one.baseline) or 1.0))
    sentence = (
        f"no worse than the baseline in {len(found)} figures of {body.boots} boots of each kernel; ruled out at 95 %: "
        f"more than {_change(body, body.ruled_out)} of {body.figure}, {_change(widest, widest.ruled_out)} of "
        f"{widest.figure}"
    )
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=sentence)


def _change(one: Shift, change: float) -> str:
    """Return a change as a share of the baseline, or as a number where the baseline is zero."""
    if not one.baseline:
        return f"{change:+g} {one.unit}"
    return f"{change / abs(one.baseline):+.1%}"


def _shown(case: Compared, one: Shift, value: float) -> str:
    # Throughputs are kept with a minus sign, so that larger is worse everywhere.
    amount = abs(value) if one.unit not in {Unit.COUNT, Unit.CELSIUS} else value
    return shown(Quantity(amount, one.unit), case.instruction_ns)


def _verdict(subject: Subject, finding: Finding) -> Verdict:
    return Verdict(
        status=finding.status,
        kind=finding.kind,
        sentence=finding.sentence,
        board=subject.board,
        arm=subject.arm,
        flavour=subject.flavour,
        case=subject.case,
        measurement=finding.measurement,
        value=finding.value,
        limit=finding.limit,
        source=finding.source,
        boot=finding.boot,
    )
