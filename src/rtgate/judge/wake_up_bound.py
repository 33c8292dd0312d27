# SPDX-License-Identifier: MIT
"""Judging the bound of a case's wake-ups (`records.bound`), where its boots were followed: by limits, and by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rtgate.judge.limits import Finding, figure
from rtgate.judge.thresholds import Threshold
from rtgate.judge.verdict import Figure, Kind, Status
from rtgate.records.bound import MEASUREMENT, Bound
from rtgate.records.longer_sections import SectionComparison
from rtgate.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedBoots:
    """What was followed of a case on one arm.

    Attributes:
        seen: what following found.
        bound: the kernel's, one of `seen`; None if it has none.
        seeds: the boots that are judged, whose measurements are valid.
        whose: `the baseline: `, where it is not the candidate's.
    """

    seen: SectionComparison
    bound: Bound | None
    seeds: Collection[int | None]
    whose: str = ""

    @property
    def flaw(self) -> str:
        """Why its bound says nothing of the boots that are judged; empty if it does."""
        if self.bound is None:
            reason = self.seen.why_not or "cyclictest's wake-ups have one, with PREEMPT_RT and on one CPU"
            return f"no boot has one: {reason}"
        left = sorted(seed for seed in self.seeds if seed is not None and seed not in self.seen.seeds)
        if left:
            return f"seed {', '.join(map(str, left))} was measured and not followed"
        return "" if self.bound.seed in self.seeds else f"the longest is of seed {self.bound.seed}, which is invalid"

    def figure(self, bound: Bound) -> Figure:
        """Return a bound as people read it."""
        return figure(self.seen.time(bound.instructions), str(self.seen.instruction_ns))


def bound_findings(limits: Sequence[Threshold], boots: FollowedBoots) -> Iterator[Finding]:
    """Yield what each limit of the bound says, or that a wake-up was longer, which nobody may believe."""
    bound = boots.bound
    if bound is not None and not bound.holds:
        sentence = f"{boots.whose}{bound.mistake}"
        yield _finding(boots, Status.ERROR, Kind.VALIDITY, sentence)
        return
    for limit in limits:
        yield replace(_apply(limit, boots), source=limit.origin)


def shown(boots: FollowedBoots) -> Finding:
    """Return what is said of a bound that was asked for, and has no limit."""
    if boots.flaw or boots.bound is None:
        return _finding(boots, Status.DONE, Kind.UNJUDGED, f"the bound of a wake-up is not known: {boots.flaw}")
    value = boots.figure(boots.bound)
    told = f"the bound of a wake-up is {value}, for which thresholds.yaml has no limit; {boots.bound.parts}"
    return replace(_finding(boots, Status.DONE, Kind.UNJUDGED, told), value=value)


def _apply(limit: Threshold, boots: FollowedBoots) -> Finding:
    assert limit.limit is not None
    allowed = figure(limit.limit, str(boots.seen.instruction_ns))
    if boots.flaw or boots.bound is None:
        sentence = f"the bound of a wake-up has a limit of {limit.limit}, and {boots.flaw}"
        return replace(_finding(boots, Status.MISS, Kind.MISSING, sentence), limit=allowed)
    value = boots.figure(boots.bound)
    assert value.quantity is not None
    broken = value.quantity.to(limit.limit.unit).value > limit.limit.value
    where = f"the bound of a wake-up is {value} in {plural(len(boots.seen.seeds), 'boot')}"
    against = f", {boots.bound.parts}: over the limit of" if broken else ", within"
    sentence = f"{where}{against} {allowed} ({limit.origin})"
    judged = _finding(boots, Status.FAIL if broken else Status.PASS, Kind.LIMIT, sentence)
    return replace(judged, value=value, limit=allowed)


def _finding(boots: FollowedBoots, status: Status, kind: Kind, sentence: str) -> Finding:
    boot = f"seed {boots.bound.seed}" if boots.bound else ""
    return Finding(status=status, kind=kind, sentence=sentence, boot=boot, measurement=MEASUREMENT)
