# SPDX-License-Identifier: MIT
"""Applying limits to the bound of a case's wake-ups (`records.bound`), where its boots were followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtgate.judge.limits import Finding, figure
from rtgate.judge.thresholds import Threshold
from rtgate.judge.verdict import Kind, Status
from rtgate.records.bound import MEASUREMENT, Bound
from rtgate.records.longer_sections import SectionComparison
from rtgate.units import Quantity, Unit


def bound_findings(limits: Sequence[Threshold], seen: SectionComparison, bound: Bound | None) -> Iterator[Finding]:
    """Yield what a kernel's bound says: what each limit of it does, or that there is none.

    Args:
        limits: of the bound.
        seen: what following the boots of the case found.
        bound: of the kernel that is judged, one of `seen`.
    """
    if bound is not None and not bound.holds:
        # Good news from what we misunderstand is none.
        yield Finding(
            status=Status.ERROR, kind=Kind.VALIDITY, sentence=bound.mistake, measurement=MEASUREMENT, boot=_boot(bound)
        )
    elif limits:
        yield from (_apply(limit, seen, bound) for limit in limits)
    elif not seen.compared:
        yield _unjudged(seen, bound)


def _apply(limit: Threshold, seen: SectionComparison, bound: Bound | None) -> Finding:
    assert limit.limit is not None
    allowed = figure(limit.limit, str(seen.instruction_ns))
    if bound is None:
        return Finding(
            status=Status.MISS,
            kind=Kind.MISSING,
            sentence=f"the bound of a wake-up has a limit of {limit.limit}, and there is none: {_why_none(seen)}",
            limit=allowed,
            measurement=MEASUREMENT,
            source=limit.origin,
        )
    value = Quantity(float(bound.instructions * seen.instruction_ns), Unit.VIRTUAL_NS).to(limit.limit.unit)
    broken = value.value > limit.limit.value
    told = f"the bound of a wake-up is {figure(value, str(seen.instruction_ns))}"
    against = f"over the limit of {allowed}" if broken else f"within {allowed}"
    return Finding(
        status=Status.FAIL if broken else Status.PASS,
        kind=Kind.LIMIT,
        sentence=f"{told}, {against} ({limit.origin})" + (f"; {bound.parts}" if broken else ""),
        value=figure(value, str(seen.instruction_ns)),
        limit=allowed,
        boot=_boot(bound),
        measurement=MEASUREMENT,
        source=limit.origin,
    )


def _unjudged(seen: SectionComparison, bound: Bound | None) -> Finding:
    """Return what is said of a kernel whose boots were followed for its bound alone, without a limit of it."""
    if bound is None:
        told = f"the bound of a wake-up is not known: {_why_none(seen)}"
        return Finding(status=Status.DONE, kind=Kind.UNJUDGED, sentence=told, measurement=MEASUREMENT)
    value = figure(Quantity(float(bound.instructions * seen.instruction_ns), Unit.VIRTUAL_NS), str(seen.instruction_ns))
    return Finding(
        status=Status.DONE,
        kind=Kind.UNJUDGED,
        sentence=f"the bound of a wake-up is {value}, for which thresholds.yaml has no limit; {bound.parts}",
        value=value,
        boot=_boot(bound),
        measurement=MEASUREMENT,
    )


def _why_none(seen: SectionComparison) -> str:
    return seen.why_not or "it is computed for cyclictest and PREEMPT_RT, on one CPU"


def _boot(bound: Bound) -> str:
    return f"seed {bound.seed}"
