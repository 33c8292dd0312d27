# SPDX-License-Identifier: MIT
"""Two kernels' critical sections beside each other: which sites are new, and which are longer at their longest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rtgate.explain.sections import Context, Kind, Section, Site, Spot

_OFF = {Kind.IRQSOFF: "interrupts off", Kind.PREEMPTOFF: "preemption off", Kind.PREEMPTIRQSOFF: "not preemptible"}


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One site in both kernels; None where it has no sections."""

    site: Site
    baseline: Section | None
    candidate: Section | None

    @property
    def growth(self) -> int:
        """By how many instructions the candidate's longest is longer; of a new site all of them."""
        return (self.candidate.longest if self.candidate else 0) - (self.baseline.longest if self.baseline else 0)


def changes(baseline: Iterable[Section], candidate: Iterable[Section]) -> tuple[SiteChange, ...]:
    """Return every site of two kernels, the one that grew most first.

    A section that is counted as `preemptirqsoff`, too, and is no longer there, is listed once.
    """
    old = {section.site: section for section in baseline}
    new = {section.site: section for section in candidate}
    found = [SiteChange(site, old.get(site), new.get(site)) for site in old.keys() | new.keys()]
    kinds = tuple(Kind)
    found.sort(key=lambda change: (-change.growth, kinds.index(change.site.kind), change.site))
    shown: dict[tuple[Context, Spot, Spot, bool, int, int], SiteChange] = {}
    for change in found:
        site = change.site
        lengths = [side.longest if side else 0 for side in (change.baseline, change.candidate)]
        shown.setdefault((site.context, site.begin, site.end, site.switches, lengths[0], lengths[1]), change)
    return tuple(shown.values())


def sentence(found: Iterable[SiteChange], instruction_ns: int) -> str:
    """Return what grew most, for people: which site, by how much, how often."""
    change = next(iter(found), None)
    if change is None or change.growth <= 0 or change.candidate is None:
        return "no critical section is longer than in the baseline"
    old, new, site = change.baseline, change.candidate, change.site
    place = site.begin.function if site.begin.function == site.end.function else f"{site.begin} to {site.end}"
    before = f"{old.longest:,} before" if old else "a new site"
    return (
        f"{_OFF[site.kind]} for {change.growth:,} instructions ({change.growth * instruction_ns / 1000:.1f} virtual us) "
        f"more in {place}: {new.longest:,} at the longest of {new.count:,} ({site.context}), {before}"
    )
