# SPDX-License-Identifier: MIT
"""Whether the change that a PASS names would have been found: placebos of the campaigns, made worse by just that.

Each placebo is judged as a candidate and names its sizes (`judge.detection`); all *others* are made worse by that size
and judged by the rule as a gate does, with what the placebos showed. A size that is named with nine of ten should be
found in about as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from selftests.campaigns.comparisons import UNPATCHED
from selftests.campaigns.kernels import placebos_of
from selftests.campaigns.rates import CaseBoots

from rtgate.judge.compare.boot_figures import BootFigure, Part, boot_figures
from rtgate.judge.compare.detection import Detection, detections, make_worse
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phases import Boots, Placebo, Shift, decide, first, shifts
from rtgate.judge.judging import Subject
from rtgate.units import Unit

FEWEST = 8
"""Placebos of a case that say something."""
_TAIL = frozenset({Part.TAIL, Part.EXTREME})


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSize:
    """One size that runs name, and how often it was found.

    Attributes:
        change: what became worse.
        size: by which share; None for more than any that is tried.
        runs: so many placebos name it.
        found, tried: slowed kernels that were called a regression, of all; over all runs that name it.
    """

    change: str
    size: float | None
    runs: int
    found: int = 0
    tried: int = 0


def sizes_named(case: CaseBoots, baselines: Sequence[str] = (UNPATCHED,)) -> Iterator[NamedSize]:
    """Yield the sizes that the placebos of a case name at the first look, smallest first."""
    harmless = placebos_of(case.first)
    known = _placebo_shifts(case)
    quiet = [one for beside in case.beside for one in _without_change(beside.quiet, known)]
    own = known[case.place[1]]
    tally: dict[tuple[str, float | None], list[int]] = {}
    for baseline in baselines:
        others = {name: boots.figures for name, boots in harmless.items() if name != baseline}
        rule = _Rule(case.first[baseline].figures, own, quiet)
        for name, after in others.items():
            for one in rule.named_sizes(after):
                found = [] if one.size is None else rule.detect_all(others, name, one.change, one.size)
                counts = tally.setdefault((one.change, one.size), [0, 0, 0])
                tally[one.change, one.size] = [counts[0] + 1, counts[1] + sum(found), counts[2] + len(found)]
    for (change, size), (runs, seen, tried) in sorted(tally.items(), key=lambda item: (item[0][0], item[0][1] or 9)):
        yield NamedSize(change=change, size=size, runs=runs, found=seen, tried=tried)


def _placebo_shifts(case: CaseBoots) -> Mapping[str, Mapping[str, Placebo]]:
    """Return what all placebos showed, by case."""
    return {key[2]: one.figures for key, (one,) in case.case_history("").cases.items()}


def _without_change(subject: Subject, known: Mapping[str, Mapping[str, Placebo]]) -> list[Shift]:
    before = [boot_figures(record) for record in subject.baseline]
    return list(shifts(before, [boot_figures(record) for record in subject.records], known[subject.case]))


class _Rule:
    """The rule of a gate, for kernels against one baseline in a run with quiet cases beside it; it remembers."""

    def __init__(self, before: Boots, known: Mapping[str, Placebo], quiet: Sequence[Shift]) -> None:
        self._before, self._known, self._quiet = before, known, quiet
        self._seen: dict[tuple[str, str, float], bool] = {}

    def named_sizes(self, after: Boots) -> list[Detection]:
        """Return what a run of this candidate says that it would find."""
        level = first([*shifts(self._before, after, self._known), *self._quiet])
        return detections(self._before, after, self._known, level)

    def detect_all(self, others: Mapping[str, Boots], without: str, change: str, size: float) -> list[bool]:
        """Return of each kernel but one whether it is a regression once it became worse."""
        return [self.detects(name, after, change, size) for name, after in others.items() if name != without]

    def detects(self, name: str, after: Boots, change: str, size: float) -> bool:
        """Return whether a kernel that became worse is a regression."""
        key = (name, change, size)
        if key not in self._seen:
            worse = [{label: _worse(one, change, size) for label, one in boot.items()} for boot in after]
            said = decide([*shifts(self._before, worse, self._known), *self._quiet])
            self._seen[key] = any(one.outcome is Outcome.REGRESSION for one in said)
        return self._seen[key]


def _worse(one: BootFigure, change: str, size: float) -> BootFigure:
    if one.unit is Unit.COUNT or (change == "the tail alone" and one.part not in _TAIL):
        return one
    return replace(one, value=make_worse(one.value, 1 + size))
