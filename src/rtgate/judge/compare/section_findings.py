# SPDX-License-Identifier: MIT
"""Judging critical sections: is one longer than the baseline's, by more than harmless changes make it?

A longest length is a sample, too: another phase takes other ways through the kernel. So growth alone says little, but
growth by what functions execute that the change altered says much, unless boots of the baseline differ as much there.
All limits come from measured kernels (docs/explanation/critical-sections.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import comb

from rtgate.judge.compare.placebos import Placebos, model_of
from rtgate.judge.compare.usable import is_flawed, is_usable
from rtgate.judge.judging import Subject
from rtgate.judge.limits import figure
from rtgate.judge.verdict import Figure, Finding, Kind, Status
from rtgate.records.longer_sections import (
    CALL,
    GAINED,
    GROWN,
    MEASUREMENT,
    LongerSection,
    SectionComparison,
    least_gain,
)
from rtgate.units import Quantity, Unit, plural

CHANCE = 0.005
"""How often at most a section may seem to be the candidate's alone that is as likely in every boot of both kernels."""


def section_findings(subjects: Sequence[Subject], placebos: Placebos) -> Iterator[tuple[Subject, Finding]]:
    """Yield what the critical sections of each case say that was followed."""
    for subject in subjects:
        if subject.sections is not None and subject.sections.compared:
            finding = _finding(subject, subject.sections, placebos)
            yield subject, replace(finding, measurement=finding.measurement or MEASUREMENT)


def _finding(subject: Subject, comparison: SectionComparison, placebos: Placebos) -> Finding:
    if comparison.why_not:
        sentence = f"critical sections were not compared: {comparison.why_not}"
        return Finding(status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    flawed = _flawed_boots(subject, comparison)
    longer = grown_sections(comparison)
    finding = _longer(comparison, longer) if longer else _doubt(comparison) or _no_longer(comparison)
    finding = replace(finding, sentence=finding.sentence + _bounds(comparison))
    if caveat := _unknown(subject, placebos):
        # Nobody knows how much harmless kernels grow there: neither good news nor bad news stands.
        return replace(finding, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=f"{finding.sentence}; {caveat}")
    # What is no good news says nothing against a section that is longer, unless the figures themselves are wrong.
    if bad := [boot for boot, usable in flawed if not (usable and longer)]:
        sentence = f"{finding.sentence}; not judged: {', '.join(bad[:4])} {'is' if len(bad) == 1 else 'are'} invalid"
        return replace(finding, status=Status.DONE, kind=Kind.NOT_COMPARED, sentence=sentence)
    if not longer and not comparison.reached and not (subject.explained and subject.explained.is_exercised):
        sentence = f"not exercised here: no function that differs ran in a critical section; {finding.sentence}"
        return replace(finding, status=Status.SKIP, kind=Kind.NOT_EXERCISED, sentence=sentence)
    return finding


def _flawed_boots(subject: Subject, comparison: SectionComparison) -> list[tuple[str, bool]]:
    """Return the boots that were followed and lack something, by kernel and seed, and whether their figures stand."""
    return [
        (f"{record.boot} of the {record.arm}", is_usable(record, subject.not_applicable))
        for record in (*subject.baseline, *subject.records)
        if record.seed in comparison.seeds and is_flawed(record, subject.not_applicable)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """By how many instructions a section grew, or a call that was made in one.

    Attributes:
        by_call: whether it is a call's.
        before: the baseline's; 0 where it has no such section.
        after: the candidate's.
        function: the one that differs and that made it longer; empty if that is not known.
        seed: the candidate's boot that had it.
        doubt: why it may be chance; empty if harmless changes show no such growth.
    """

    section: LongerSection
    by_call: bool
    before: int
    after: int
    function: str
    seed: int
    doubt: str

    @property
    def amount(self) -> int:
        """By how many instructions."""
        return self.after - self.before


def grown_sections(comparison: SectionComparison) -> list[Growth]:
    """Return what grew by more than harmless changes show: first by functions that differ, and the most first.

    CPUs that take turns wait for each other as long as a turn is, and which way they take depends on what the others
    do. So of several CPUs enough boots must have a longer call or section, and a section counts from `GROWN` on.
    """
    grown = [growth for section in comparison.longer if (growth := _growth(section, comparison))]
    return sorted(grown, key=lambda growth: (not growth.function, -growth.amount))


def doubtful_sections(comparison: SectionComparison) -> list[Growth]:
    """Return each growth that is worth to be told and may be chance: the most first."""
    growths = [growth for section in comparison.longer for growth in _growths(section, comparison) if growth.doubt]
    return sorted(growths, key=lambda growth: -growth.amount)


def _growth(section: LongerSection, comparison: SectionComparison) -> Growth | None:
    """Return by what a section grew that no harmless change shows; None if by nothing.

    Of a call and the section itself it is what grew more; yet where no function is known to have made the section
    longer, a call tells more that gained half of it.
    """
    certain = [growth for growth in _growths(section, comparison) if not growth.doubt]
    return max(certain, key=lambda growth: growth.amount if growth.function else growth.amount / 2, default=None)


def _growths(section: LongerSection, comparison: SectionComparison) -> Iterator[Growth]:
    """Yield the growth of the section and that of a call in it, where they are worth to be told."""
    if _is_long(section, comparison):
        yield Growth(
            section=section,
            by_call=False,
            before=section.baseline,
            after=section.candidate,
            function=section.begin if _section_gained(section) or _is_new(section) else "",
            seed=section.seed,
            doubt=_doubt_of_length(section, comparison),
        )
    if section.call_gain >= GAINED:
        yield Growth(
            section=section,
            by_call=True,
            before=section.call_before,
            after=section.call,
            function=section.function,
            seed=section.call_seed,
            doubt=_doubt_of_call(section, comparison),
        )


def _is_long(section: LongerSection, comparison: SectionComparison) -> bool:
    """Return whether a section grew by as much as counts, if it is no chance."""
    if section.growth < GROWN:
        return bool(section.begin) and section.growth >= GAINED
    # With one boot its CPU may have waited for the other's turn: that says nothing where nothing that differs began it.
    boots = len(comparison.seeds)
    is_turn = comparison.cpus > 1 and section.longer_boots == 1 and boots_needed(boots) <= boots
    return bool(section.begin) or not is_turn


def _section_gained(section: LongerSection) -> bool:
    return bool(section.begin) and section.growth >= least_gain(section.spread)


def _is_new(section: LongerSection) -> bool:
    """Return whether a function that differs begins a section that the baseline lacks, and that is long."""
    return bool(section.begin) and section.growth >= GAINED and section.baseline == 0


def _doubt_of_call(section: LongerSection, comparison: SectionComparison) -> str:
    """Return why the gain of a call may be chance; empty if it is none."""
    if section.call_gain < least_gain(section.call_spread):
        return _by_spread(section.call_spread)
    if comparison.cpus == 1 and section.call > section.call_elsewhere:
        return ""
    why = "what other CPUs do decides its way" if comparison.cpus > 1 else "calls of the baseline elsewhere are as long"
    return _by_boots(section.call_boots, "a longer call of it", why, comparison)


def _doubt_of_length(section: LongerSection, comparison: SectionComparison) -> str:
    """Return the same of a long section.

    Enough boots must have a new one, and one so long that no function that differs begins: what is not changed takes a
    longer way in one boot or another, too.
    """
    several_cpus = comparison.cpus > 1
    if section.growth >= GROWN:
        if section.begin and not several_cpus:
            return ""
        why = "what other CPUs do decides how long it is" if several_cpus else "no function that differs begins it"
        return _by_boots(section.longer_boots, "one so long", why, comparison)
    if section.baseline and not _section_gained(section):
        return _by_spread(section.spread)
    if several_cpus:
        return f"with several CPUs a section counts from {GROWN:,} instructions more on"
    if section.baseline:
        return ""
    return _by_boots(section.boots, "a section there", "the baseline has none", comparison)


def _by_boots(number: int | None, what: str, why: str, comparison: SectionComparison) -> str:
    boots = len(comparison.seeds)
    if number is None:
        return f"nobody has counted how many boots have {what}, gate again"
    if number >= boots_needed(boots):
        return ""
    if boots < boots_needed(boots):
        return f"{why}, measure four boots at least"
    return f"{number} of {boots} boots have {what}, and {boots_needed(boots)} must, as {why}"


def _by_spread(spread: int | None) -> str:
    if spread is None:
        return "too few boots of the baseline show what it takes, and four at least are needed"
    return f"what it takes differs by {spread:,} between the baseline's boots"


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
        terms = (
            comb(boots, count) * share**count * (1 - share) ** (boots - count) for count in range(number, boots + 1)
        )
        return sum(terms) * (1 - share) ** boots

    return max(chance(step / 200) for step in range(1, 200))


def _longer(comparison: SectionComparison, longer: Sequence[Growth]) -> Finding:
    growth = longer[0]
    section, old, new = growth.section, growth.before, growth.after
    rest = f"; {plural(len(longer) - 1, 'more site')} grew as clearly" if len(longer) > 1 else ""
    what = _what(growth, comparison)
    if growth.by_call:
        sentence = (
            f"{what}: {new:,} in one call there ({section.context}), {old:,} at the longest before; the longest of "
            f"{section.count:,} sections has {section.candidate:,}, {section.baseline:,} before"
        )
    else:
        before = f"{old:,} before" if old else "where the baseline has none"
        sentence = f"{what}: {new:,} at the longest of {section.count:,} ({section.context}), {before}"
    instruction_ns = str(comparison.instruction_ns)
    return Finding(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence=sentence + rest,
        value=figure(comparison.time(new), instruction_ns),
        baseline=figure(comparison.time(old), instruction_ns),
        change=_change(old, new),
        boot=f"seed {growth.seed}",
        measurement=CALL if growth.by_call else "",
    )


def _what(growth: Growth, comparison: SectionComparison) -> str:
    """Return what grew: a call need not make the section longer that it is in."""
    section, amount = growth.section, _amount(growth.amount, comparison)
    if growth.by_call:
        return f"{growth.function} (changed) took {amount} more in {section.place} ({section.off})"
    whose = f" by {growth.function} (changed)" if growth.function else ""
    return f"{section.off} for {amount} more{whose} in {section.place}"


def _doubt(comparison: SectionComparison) -> Finding | None:
    """Return what is said where sections grew as much as matters, and it may be chance; None where none did."""
    growth = next(iter(doubtful_sections(comparison)), None)
    if growth is None:
        return None
    what = _what(replace(growth, function=growth.function or growth.section.begin), comparison)
    sentence = f"{what}, which may be chance: {growth.doubt}"
    measurement = CALL if growth.by_call else ""
    return Finding(status=Status.DONE, kind=Kind.INCONCLUSIVE, sentence=sentence, measurement=measurement)


def _no_longer(comparison: SectionComparison) -> Finding:
    sites = f"{plural(comparison.sites, 'site')} in {plural(len(comparison.seeds), 'boot')} of each kernel"
    sections = [section for section in comparison.longer if section.growth > 0]
    most = max(sections, key=lambda section: section.growth, default=None)
    detail = f", the one that grew most by {_amount(most.growth, comparison)} in {most.place}" if most else ""
    if most and most.growth >= GROWN:
        detail += ", in one boot alone"
    sentence = f"no critical section is longer than harmless changes make one: {sites}{detail}"
    return Finding(status=Status.PASS, kind=Kind.NO_WORSE, sentence=sentence)


def _bounds(comparison: SectionComparison) -> str:
    """Return how the longest possible wake-up changed, as the end of a sentence; empty if nobody knows."""
    old, new = comparison.baseline_bound, comparison.candidate_bound
    if not old or not new or new.seed not in comparison.seeds:  # another boot's says nothing of what changed
        return ""
    before, after = (bound.instructions * comparison.instruction_ns / 1000 for bound in (old, new))
    return f"; bound of a wake-up {before:.1f} -> {after:.1f} virtual us"


def _unknown(subject: Subject, placebos: Placebos) -> str:
    """Return why nobody knows what harmless changes do in this case; empty if it was measured."""
    model, mismatch = model_of(subject, placebos)
    if not model.figures:
        return "not judged: placebos.yaml does not say how much harmless kernels move this case"
    return f"measured with {mismatch}" if mismatch else ""


def _change(old: int, new: int) -> Figure | None:
    return Figure.of(Quantity((new - old) / old, Unit.RATIO), f"{(new - old) / old:+.0%}") if old else None


def _amount(instructions: int, comparison: SectionComparison) -> str:
    return f"{instructions:,} instructions ({instructions * comparison.instruction_ns / 1000:.1f} virtual us)"
