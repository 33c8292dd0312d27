# SPDX-License-Identifier: MIT
"""Judging what following a case's boots found: how late a wake-up can be, and its longest sections; by limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.judge.applicable import applicable
from rtgate.judge.limits import figure
from rtgate.judge.thresholds import Threshold
from rtgate.judge.verdict import Figure, Finding, Kind, Status
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.bound import Bound
from rtgate.records.longer_sections import RAWLOCK, LongestHold, LongestSection, SectionComparison
from rtgate.records.record import Record
from rtgate.units import plural

_STATES: Mapping[str, str] = {
    "irqsoff": "interrupts are off",
    "preemptoff": "preemption is off",
    "preemptirqsoff": "interrupts or preemption are off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedBoots:
    """What was followed of a case on one arm.

    Attributes:
        seen: what following found.
        bound: the kernel's, one of `seen`; None if it has none.
        longest: the kernel's longest sections, those of `seen`.
        holds: the longest holds of its raw spinlocks.
        followed: the boots that were followed.
        seeds: the boots that are judged, whose measurements are valid.
        whose: `the baseline: `, where it is not the candidate's.
    """

    seen: SectionComparison
    bound: Bound | None
    longest: Sequence[LongestSection]
    holds: Sequence[LongestHold]
    followed: Collection[int]
    seeds: Collection[int | None]
    whose: str = ""

    @classmethod
    def of_candidate(cls, sections: SectionComparison, seeds: Collection[int | None]) -> FollowedBoots:
        """Return what was found of the candidate, of which the boots of some seeds are judged."""
        return cls(
            seen=sections,
            bound=sections.candidate_bound,
            longest=sections.candidate_longest,
            holds=sections.candidate_holds,
            followed=sections.candidate_seeds,
            seeds=seeds,
        )

    @classmethod
    def of_baseline(cls, sections: SectionComparison) -> FollowedBoots:
        """Return what was found of the baseline."""
        return cls(
            seen=sections,
            bound=sections.baseline_bound,
            longest=sections.baseline_longest,
            holds=sections.baseline_holds,
            followed=sections.seeds,
            seeds=sections.seeds,
            whose="the baseline: ",
        )

    @property
    def why_not(self) -> str:
        """Why no boot was followed; empty if some were. That kernels could not be compared says nothing of limits."""
        return "" if self.longest else self.seen.why_not

    def flaw(self, seed: int) -> str:
        """Return why what was found, in the boot of a seed, says nothing of the boots that are judged."""
        missing_seeds = sorted(number for number in self.seeds if number is not None and number not in self.followed)
        if missing_seeds:
            return f"seed {', '.join(map(str, missing_seeds))} was measured and not followed"
        return "" if seed in self.seeds else f"the longest is of seed {seed}, which is invalid"

    def figure(self, instructions: int) -> Figure:
        """Return a length as people read it."""
        return figure(self.seen.time(instructions), str(self.seen.instruction_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Length:
    """What a limit is of.

    Attributes:
        measurement: as verdicts name it.
        what: the same in words, as the end of `... has a limit`.
        flaw: why it is not known, or not known to be the longest; empty if it is.
        valid: whether it is a length of a valid boot, which may break a limit whatever else there is.
        sentence: with `{value}` and `{boots}`.
        detail: what it is made of, or where it is.
    """

    measurement: str
    what: str
    flaw: str = ""
    valid: bool = False
    instructions: int = 0
    seed: int | None = None
    sentence: str = ""
    detail: str = ""


def section_limit_findings(limits: Sequence[Threshold], boots: FollowedBoots) -> Iterator[Finding]:
    """Yield what each limit says, or that a wake-up was longer than its bound, after which nobody may believe any."""
    bound = boots.bound
    if bound is not None and not bound.holds:
        sentence = f"{boots.whose}{bound.mistake}"
        yield _finding(_bound(boots), Status.ERROR, Kind.VALIDITY, sentence)
        return
    for limit in limits:
        yield replace(_apply(limit, boots), source=limit.origin)


def unfollowed_limits(limits: Sequence[Threshold], records: Sequence[Record]) -> Iterator[Finding]:
    """Yield what is said of limits where no boot was followed.

    Limits of sections and of locks are somebody's requirements, so that nothing is known of them is MISS, and one for
    other options or kernels is told. Limits of bounds are shipped, for those who ask for sections: without that they
    say nothing.
    """
    required = applicable([limit for limit in limits if limit.measurement != BOUND], records)
    for limit in required.limits:
        sentence = f"{_what(limit)} has a limit of {limit.limit}, and no boot was followed: gate with --sections"
        finding = Finding(status=Status.MISS, kind=Kind.MISSING, sentence=sentence, measurement=limit.name)
        yield replace(finding, source=limit.origin)
    for sentence in required.left_out:
        yield Finding(status=Status.DONE, kind=Kind.NOT_APPLIED, sentence=sentence)


def shown(boots: FollowedBoots) -> Finding:
    """Return what is said of a bound that was asked for, and has no limit."""
    length = _bound(boots)
    if length.flaw:
        return _finding(length, Status.DONE, Kind.UNJUDGED, f"the bound of a wake-up is not known: {length.flaw}")
    value = boots.figure(length.instructions)
    sentence = f"the bound of a wake-up is {value}, for which thresholds.yaml has no limit; {length.detail}"
    return replace(_finding(length, Status.DONE, Kind.UNJUDGED, sentence), value=value)


def _apply(limit: Threshold, boots: FollowedBoots) -> Finding:
    assert limit.limit is not None
    length = _length(limit, boots)
    limit_figure = figure(limit.limit, str(boots.seen.instruction_ns))
    value = boots.figure(length.instructions)
    assert value.quantity is not None
    is_broken = length.valid and value.quantity.to(limit.limit.unit).value > limit.limit.value
    if length.flaw and not is_broken:
        sentence = f"{length.what} has a limit of {limit.limit}, and {length.flaw}"
        return replace(_finding(length, Status.MISS, Kind.MISSING, sentence), limit=limit_figure)
    where = length.sentence.format(value=value, boots=plural(len(boots.followed), "boot"))
    against = f", {length.detail}: over the limit of" if is_broken else ", within"
    sentence = f"{where}{against} {limit_figure} ({limit.origin})"
    finding = _finding(length, Status.FAIL if is_broken else Status.PASS, Kind.LIMIT, sentence)
    return replace(finding, value=value, limit=limit_figure)


def _length(limit: Threshold, boots: FollowedBoots) -> _Length:
    if limit.measurement == BOUND:
        return _bound(boots)
    length = _longest_hold(limit, boots) if limit.measurement == RAWLOCK else _longest(limit, boots)
    if boots.seen.cpus > 1:
        turns = f"the board has {boots.seen.cpus} CPUs, whose lengths depend on the turns in which QEMU runs them"
        return replace(length, flaw=turns, valid=False)
    return length


def _bound(boots: FollowedBoots) -> _Length:
    bound = boots.bound
    length = _Length(measurement=BOUND, what="the bound of a wake-up")
    if bound is None:
        reason = boots.why_not or "cyclictest's wake-ups have one, with PREEMPT_RT and on one CPU"
        return replace(length, flaw=f"no boot has one: {reason}")
    return replace(
        _known(length, boots, bound),
        sentence="the bound of a wake-up is {value} in {boots}",
        detail=bound.parts,
    )


def _known(length: _Length, boots: FollowedBoots, longest: Bound | LongestSection | LongestHold) -> _Length:
    """Return a length that was measured, with what speaks against it."""
    return replace(
        length,
        flaw=boots.flaw(longest.seed),
        valid=longest.seed in boots.seeds,
        instructions=longest.instructions,
        seed=longest.seed,
    )


def _what(limit: Threshold) -> str:
    """Return what a limit of a section or of a lock is of, in words."""
    if limit.measurement == RAWLOCK:
        return f"how long {limit.lock or 'a raw spinlock'} is held"
    return f"how long {_STATES[limit.measurement]}{_by(limit)}"


def _by(limit: Threshold) -> str:
    return f" by {limit.function}" if limit.function else ""


def _longest(limit: Threshold, boots: FollowedBoots) -> _Length:
    length = _Length(measurement=limit.name, what=_what(limit))
    own = [
        section
        for section in boots.longest
        if section.off == limit.measurement and limit.function in {"", section.function}
    ]
    if not own:
        return replace(length, flaw=boots.why_not or "no boot has such a section")
    longest = max(own, key=lambda section: section.instructions)
    return replace(
        _known(length, boots, longest),
        sentence=f"{_STATES[limit.measurement]} for {{value}}{_by(limit)} at the longest in {{boots}}",
        detail=f"in {longest.place} ({longest.context})",
    )


def _longest_hold(limit: Threshold, boots: FollowedBoots) -> _Length:
    length = _Length(measurement=limit.name, what=_what(limit))
    own = [hold for hold in boots.holds if limit.lock in {"", hold.lock}]
    if not own:
        return replace(length, flaw=boots.why_not or "no boot has such a hold (names: rtgate sections)")
    longest = max(own, key=lambda hold: hold.instructions)
    return replace(
        _known(length, boots, longest),
        sentence=f"{limit.lock or 'a raw spinlock'} is held for {{value}} at the longest in {{boots}}",
        detail=f"locked by {longest.function}" if limit.lock else f"{longest.lock}, locked by {longest.function}",
    )


def _finding(length: _Length, status: Status, kind: Kind, sentence: str) -> Finding:
    boot = "" if length.seed is None else f"seed {length.seed}"
    return Finding(status=status, kind=kind, sentence=sentence, boot=boot, measurement=length.measurement)
