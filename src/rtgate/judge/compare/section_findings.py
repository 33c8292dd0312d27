# SPDX-License-Identifier: MIT
"""Judging critical sections: is one longer than the baseline's, by more than harmless changes make it?

A longest length is a sample, too: another phase takes other ways through the kernel. So growth alone says little, but
growth by what functions execute that the change altered says much, unless boots of the baseline differ as much there.
All limits come from measured kernels (docs/explanation/critical-sections.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import comb

from rtgate.judge.compare.placebos import Placebos
from rtgate.judge.judging import Subject
from rtgate.judge.limits import Finding, figure
from rtgate.judge.verdict import Figure, Kind, Status
from rtgate.records.longer_sections import SPREADS, LongerSection, SectionComparison
from rtgate.units import Quantity, Unit, plural

MEASUREMENT = "critical section"
GAINED = 400
"""Instructions by which functions that differ must make sections longer."""
GROWN = 2500
"""Instructions by which a section of the only CPU must be longer, whatever ran in it."""
CHANCE = 0.005
"""How often at most a section may seem to be the candidate's alone that is as likely in every boot of both kernels."""


def section_findings(subjects: Sequence[Subject], placebos: Placebos) -> Iterator[tuple[Subject, Finding]]:
    """Yield what the critical sections of each case say that was followed."""
    for subject in subjects:
        if subject.sections is not None and subject.sections.compared:
            yield subject, replace(_finding(subject, subject.sections, placebos), measurement=MEASUREMENT)


def _finding(subject: Subject, seen: SectionComparison, placebos: Placebos) -> Finding:
    if seen.why_not:
        sentence = f"critical sections were not compared: {seen.why_not}"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    longer = sorted(grown_sections(seen), key=lambda one: (not _changed(one), -max(one.gained, one.growth)))
    found = _longer(seen, longer) if longer else _unsure(seen) or _usual(seen) or _no_longer(seen)
    found = replace(found, sentence=found.sentence + _bounds(seen))
    if unknown := _unknown(subject, placebos):
        # Nobody knows how much harmless kernels grow there: neither good news nor bad news stands.
        return replace(found, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=f"{found.sentence}; {unknown}")
    if not longer and not seen.reached and not (subject.explained and subject.explained.executed):
        sentence = f"not exercised here: no function that differs ran in a critical section; {found.sentence}"
        return replace(found, status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)
    return found


def grown_sections(seen: SectionComparison) -> list[LongerSection]:
    """Return the sections that grew by more than harmless changes show.

    CPUs that take turns wait for each other as long as a turn is, whatever began the section. So of several CPUs only
    calls of functions that differ count.
    """
    needed = boots_needed(len(seen.seeds)) if seen.cpus == 1 else len(seen.seeds) + 1
    return [
        one
        for one in seen.longer
        if _call_gained(one)
        or (_is_new(one) and one.boots >= needed)
        or (seen.cpus == 1 and (one.growth >= GROWN or (_section_gained(one) and one.baseline)))
    ]


def _changed(one: LongerSection) -> bool:
    """Return whether a function that differs made it longer, by more than chance."""
    return _call_gained(one) or _section_gained(one)


def _call_gain(one: LongerSection) -> int:
    return one.call - one.call_before


def _call_gained(one: LongerSection) -> bool:
    return _call_gain(one) >= max(GAINED, SPREADS * one.call_spread)


def _section_gained(one: LongerSection) -> bool:
    return one.begins and one.growth >= max(GAINED, SPREADS * one.spread)


def _is_new(one: LongerSection) -> bool:
    """Return whether a function that differs begins a section that the baseline lacks, and that is long."""
    return _section_gained(one) and one.baseline == 0


@cache
def boots_needed(boots: int) -> int:
    """Return how many boots of a kernel must have a section that no boot of the other one has, to be no chance.

    Both kernels may have it rarely. Whatever the share of boots that have it, as many of one kernel's and none of the
    other's are rarer than `CHANCE` then. More than there are where no number says it: fewer than four boots.
    """
    return next((number for number in range(1, boots + 1) if _largest_chance(number, boots) < CHANCE), boots + 1)


def _largest_chance(number: int, boots: int) -> float:
    """Return the largest chance that `number` or more boots of one kernel have a section and none of the other."""

    def chance(share: float) -> float:
        have = (comb(boots, each) * share**each * (1 - share) ** (boots - each) for each in range(number, boots + 1))
        return sum(have) * (1 - share) ** boots

    return max(chance(step / 200) for step in range(1, 200))


def _longer(seen: SectionComparison, longer: Sequence[LongerSection]) -> Finding:
    one = longer[0]
    old, new = (one.baseline, one.candidate) if one.growth >= one.gained else (one.call_before, one.call)
    others = f"; {plural(len(longer) - 1, 'more site')} grew as clearly" if len(longer) > 1 else ""
    whose = f" by {one.function} (changed)" if one.function and _changed(one) else ""
    what = f"{one.off} for {_amount(new - old, seen)} more{whose} in {one.place}"
    if one.growth >= one.gained:
        before = f"{old:,} before" if old else "where the baseline has none"
        sentence = f"{what}: {new:,} at the longest of {one.count:,} ({one.context}), {before}"
    else:
        sentence = (
            f"{what}: {new:,} in one call there ({one.context}), {old:,} at the longest before; the longest of "
            f"{one.count:,} sections has {one.candidate:,}, {one.baseline:,} before"
        )
    instruction_ns = str(seen.instruction_ns)
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence + others,
        value=figure(seen.time(new), instruction_ns),
        baseline=figure(seen.time(old), instruction_ns),
        change=_change(old, new),
        boot=f"seed {one.seed}",
    )


def _unsure(seen: SectionComparison) -> Finding | None:
    """Return what is said of a new section that each of too few boots has; None if there is none."""
    new = (one for one in seen.longer if seen.cpus == 1 and _is_new(one) and one.boots == len(seen.seeds))
    one = next(new, None)
    if one is None:
        return None
    sentence = (
        f"{one.off} in {one.place}, {one.candidate:,} instructions at the longest, where the baseline has none: "
        f"{plural(len(seen.seeds), 'boot')} of each kernel may be chance, measure four at least"
    )
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence)


def _usual(seen: SectionComparison) -> Finding | None:
    """Return what is said where functions that differ gained, but not more than boots of the baseline differ."""
    calls = [one for one in seen.longer if GAINED <= _call_gain(one) < SPREADS * one.call_spread]
    begun = [one for one in seen.longer if one.begins and one.baseline and GAINED <= one.growth < SPREADS * one.spread]
    one = max([*calls, *(begun if seen.cpus == 1 else ())], key=lambda one: one.gained, default=None)
    if one is None:
        return None
    spread = one.call_spread if one in calls else one.spread
    sentence = (
        f"{one.off} for {_amount(one.gained, seen)} more by {one.function} (changed) in {one.place}, which may be "
        f"chance: what it takes differs by {spread:,} between the baseline's boots; measure more boots to know"
    )
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence)


def _no_longer(seen: SectionComparison) -> Finding:
    sites = f"{plural(seen.sites, 'site')} in {plural(len(seen.seeds), 'boot')} of each kernel"
    grown = [one for one in seen.longer if one.growth > 0]
    most = max(grown, key=lambda one: one.growth, default=None)
    grew = f", the one that grew most by {_amount(most.growth, seen)} in {most.place}" if most else ""
    told = f"no critical section is longer than harmless changes make one: {sites}{grew}"
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=told)


def _bounds(seen: SectionComparison) -> str:
    """Return how the longest possible wake-up changed, as the end of a sentence; empty if nobody knows."""
    old, new = seen.baseline_bound, seen.candidate_bound
    if not old or not new:
        return ""
    before, after = (one.instructions * seen.instruction_ns / 1000 for one in (old, new))
    return f"; bound of a wake-up {before:.1f} -> {after:.1f} virtual us"


def _unknown(subject: Subject, placebos: Placebos) -> str:
    """Return why nobody knows what harmless changes do in this case; empty if it was measured."""
    one = next(record for record in subject.records if record.has_results)
    model = placebos.model_for(one)
    if not model.figures:
        return "not judged: placebos.yaml does not say how much harmless kernels move this case"
    mismatch = model.mismatch(one.environment)
    return f"measured with {mismatch}" if mismatch else ""


def _change(old: int, new: int) -> Figure | None:
    return Figure(Quantity((new - old) / old, Unit.RATIO), f"{(new - old) / old:+.0%}") if old else None


def _amount(instructions: int, seen: SectionComparison) -> str:
    return f"{instructions:,} instructions ({instructions * seen.instruction_ns / 1000:.1f} virtual us)"
