# SPDX-License-Identifier: MIT
"""Two kernels' critical sections beside each other: which sites are new, and which are longer at their longest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtgate.explain.sections import Context, Kind, Section, Site
from rtgate.explain.trace import INSTRUCTION_NS

_OFF = {Kind.IRQSOFF: "interrupts off", Kind.PREEMPTOFF: "preemption off", Kind.PREEMPTIRQSOFF: "not preemptible"}


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One site in both kernels.

    Attributes:
        baseline: None where the baseline has no sections of the site.
        candidate: None where the candidate has none.
        like: what the baseline has of the site or, if it has none, of the one with the longest section of those that
            begin or end alike; None if there are none, so that the site is new.
    """

    site: Site
    baseline: Section | None
    candidate: Section | None
    like: Section | None

    @property
    def before(self) -> int:
        """The baseline's longest, in instructions; 0 if the site is new."""
        return self.like.longest if self.like else 0

    @property
    def off(self) -> str:
        """What was off, in words."""
        return _OFF[self.site.kind]

    @property
    def growth(self) -> int:
        """By how many instructions the candidate's longest is longer."""
        return (self.candidate.longest if self.candidate else 0) - self.before

    @property
    def new(self) -> bool:
        """Whether the baseline has no section that begins or ends there."""
        return not self.before


def changes(baseline: Iterable[Section], candidate: Iterable[Section]) -> tuple[SiteChange, ...]:
    """Return every site of two kernels, the one that grew most first.

    What ends a section is often chance: whether a thread waits, and which. So where the baseline lacks a site, it is
    compared with the longest of those that begin in the same function, or else of those that end in the same one. A
    section that was measured as `preemptirqsoff` as well, and was no longer there, is listed once.
    """
    old = {section.site: section for section in baseline}
    new = {section.site: section for section in candidate}
    alike = [(key, _longest(old.values(), key)) for key in (_begin, _end)]
    site_changes = [
        SiteChange(site, old.get(site), new.get(site), _like(site, old, alike)) for site in old.keys() | new.keys()
    ]
    kinds = tuple(Kind)
    site_changes.sort(key=lambda change: (-change.growth, kinds.index(change.site.kind), change.site))
    return tuple(_once(site_changes))


_Place = tuple[Kind, Context, str]  # a site by one of its two functions
_Key = Callable[[Site], _Place]


def _begin(site: Site) -> _Place:
    return site.kind, site.context, site.begin.function


def _end(site: Site) -> _Place:
    return site.kind, site.context, site.end.function


def _longest(sections: Iterable[Section], key: _Key) -> dict[_Place, Section]:
    longest: dict[_Place, Section] = {}
    for section in sections:
        best = longest.setdefault(key(section.site), section)
        if section.longest > best.longest:
            longest[key(section.site)] = section
    return longest


def _like(
    site: Site, old: Mapping[Site, Section], alike: Sequence[tuple[_Key, Mapping[_Place, Section]]]
) -> Section | None:
    if site in old:
        return old[site]
    return next((longest[key(site)] for key, longest in alike if key(site) in longest), None)


def _once(site_changes: Iterable[SiteChange]) -> Iterator[SiteChange]:
    """Leave out what only repeats another kind of section: the first one names its own kind best."""
    keys: set[tuple[object, ...]] = set()
    for change in site_changes:
        site = change.site
        lengths = [side.longest if side else 0 for side in (change.baseline, change.candidate)]
        calls = [(call.function, call.instructions) for call in change.candidate.calls] if change.candidate else []
        key = (site.context, site.begin, site.end, site.switches, *lengths, *calls)
        if key not in keys:
            keys.add(key)
            yield change


def boots_with_longer(
    change: SiteChange, baseline: Iterable[Section], boots: Iterable[Sequence[Section]], least: int
) -> int:
    """Return how many boots of the candidate have a section that is longer by `least` than all of the baseline's.

    What ends a section is often chance. So those that begin alike count together, if that makes more boots.

    Args:
        change: one site.
        baseline: the sections of the baseline, of all its boots.
        boots: those of each of the candidate's boots.
        least: in instructions.
    """
    site, alike = change.site, _longest(baseline, _begin).get(_begin(change.site))
    longest_alike = max(change.before, alike.longest if alike else 0)
    lengths = [
        (
            max((own.longest for own in sections if own.site == site), default=0),
            max((own.longest for own in sections if _begin(own.site) == _begin(site)), default=0),
        )
        for sections in boots
    ]
    return max(
        sum(same >= change.before + least for same, _ in lengths),
        sum(like >= longest_alike + least for _, like in lengths),
    )


def sentence(site_changes: Iterable[SiteChange]) -> str:
    """Return what grew most, for people: which site, by how much, how often."""
    change = next(iter(site_changes), None)
    if change is None or change.growth <= 0 or change.candidate is None:
        return "no critical section is longer than in the baseline"
    new = change.candidate
    before = "a new site" if change.new else f"{change.before:,} before"
    time = f"{change.growth * INSTRUCTION_NS / 1000:.1f} virtual us"
    return (
        f"{change.off} for {change.growth:,} instructions ({time}) more in {change.site.place}: "
        f"{new.longest:,} at the longest of {new.count:,} ({change.site.context}), {before}"
    )
