# SPDX-License-Identifier: MIT
"""`rtgate plan --detect` on virtual time: which figures show a change, and with how many boots."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from rich.console import Console
from rich.progress import track
from rich.table import Table

from rtgate.cli.verdicts import harmless
from rtgate.errors import ConfigError
from rtgate.judge.boot_figures import BootFigure, boot_figures
from rtgate.judge.phase_planning import DRAWS, FEWEST, MOST, Draw, PhasePlan, error_of, plan_phases, too_few
from rtgate.judge.phases import Placebo
from rtgate.judge.placebos import Placebos
from rtgate.judge.planning import Change, span
from rtgate.judge.usable import usable
from rtgate.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """One figure of the boots of a case, and what harmless kernels moved it by."""

    case: str
    boots: tuple[BootFigure, ...]
    placebo: Placebo
    boot_s: float

    @property
    def name(self) -> str:
        """The figure's."""
        return self.boots[0].name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The boots of one kernel in one case.

    Attributes:
        figures: that can be planned.
        learnt: how many figures a gate judges there.
        remarks: what was left out, and what else is to be known.
    """

    figures: tuple[_Figure, ...]
    learnt: int
    remarks: tuple[str, ...]


def show(records: Sequence[Record], change: Change, metric: str | None, *, counted: bool) -> None:
    """Print what it takes to find a change.

    Args:
        records: boots on virtual time; of several kernels the baseline's are taken.
        change: what to find.
        metric: only this one.
        counted: its metrics are all that a gate of these cases judges; each has two tests, of its shift and of its
            spikes.

    Raises:
        ConfigError: nothing can be planned; the message says why.
        ValueError: as `plan_phases`.
    """
    cases = list(_cases(records, harmless()))
    known = [figure for case in cases for figure in case.figures]
    chosen = [one for one in known if metric in {None, one.name}]
    remarks = [remark for case in cases for remark in case.remarks]
    if not chosen:
        have = ", ".join(dict.fromkeys(one.name for one in known)) or "nothing"
        asked = f"the metric {metric!r}" if metric else "these records"
        raise ConfigError(f"{asked} cannot be planned (what can: {have}); {'; '.join(remarks)}".removesuffix("; "))
    tests = 2 * (sum(case.learnt for case in cases) if counted else change.tests)
    planned = replace(change, tests=tests)
    tried = track(chosen, "trying", console=Console(stderr=True), transient=True)
    rows = [(one, plan_phases(one.boots, one.placebo, planned, draws(f"{one.case} {one.name}"))) for one in tried]
    console = Console()
    console.print(_table(rows))
    console.print(_legend(rows, planned), highlight=False)
    for remark in remarks:
        console.print(remark, highlight=False)


def draws(name: str) -> Draw:
    """Return what draws boots by chance, for the same name always the same ones."""
    chance = random.Random(name)  # noqa: S311 - no secret
    return lambda boots, count: chance.choices(boots, k=count)


def _table(rows: Sequence[tuple[_Figure, PhasePlan]]) -> Table:
    table = Table()
    table.add_column("case", overflow="fold")
    for name in ("figure", "passes", "found", "boots", "one core"):
        table.add_column(name, no_wrap=True)
    shown = ""
    for one, plan in rows:
        if shown not in {"", one.case}:
            table.add_section()
        table.add_row(
            one.case if one.case != shown else "",
            one.name,
            f"x{plan.passes:.3f}",
            f"{plan.power:.0%} of {len(one.boots)}",
            "-" if plan.boots is None else str(plan.boots),
            span(2 * plan.boots * one.boot_s / 60) if plan.boots and one.boot_s else "",
        )
        shown = one.case
    return table


def _legend(rows: Sequence[tuple[_Figure, PhasePlan]], change: Change) -> str:
    fewest = min(len(one.boots) for one, _ in rows)
    unseen = 1 - 0.05 ** (1 / fewest)
    return (
        f"x{change.ratio:g} put upon {DRAWS} pairs of kernels drawn from these boots, judged as a gate judges at its "
        f"first look, {change.alpha:g} false alarms in {change.tests} tests of all its figures. passes: what is let "
        "through, whatever the number of boots, because placebos moved it or it is not worth blocking; found: by as "
        f"many boots of each kernel as were measured; boots: of each kernel, to find it with {change.power:g} "
        f"(+-{error_of(change.power):.2f}); -: it passes, or no number up to {MOST} does. {fewest} boots may miss "
        f"phases that up to {unseen:.0%} of all boots have (95 %), and one more such boot changes the answer: measure "
        "20 or more."
    )


def _cases(records: Sequence[Record], placebos: Placebos) -> Iterator[_Case]:
    by_case: dict[tuple[str, str], list[Record]] = {}
    for one in records:
        by_case.setdefault((one.board, one.case), []).append(one)
    several = len({board for board, _ in by_case}) > 1
    for (board, case), boots in sorted(by_case.items()):
        yield _case(f"{board} {case}" if several else case, _of_one_kernel(case, boots), placebos)


def _of_one_kernel(case: str, records: Sequence[Record]) -> Sequence[Record]:
    """Return the boots of the baseline, or of the only kernel. Raises ConfigError: nobody can say which kernel."""
    chosen = [one for one in records if one.arm == "baseline"] or records
    for what, values in (
        ("kernels", {one.kernel.image_sha256 for one in chosen}),
        ("commands of the tool", {one.argv for one in chosen}),
    ):
        if len(values) > 1:
            raise ConfigError(f"{case}: boots of {len(values)} {what}: name a directory with those of one (--records)")
    return chosen


def _case(name: str, records: Sequence[Record], placebos: Placebos) -> _Case:
    """Return what can be planned of the boots of one kernel, and what cannot."""
    one = records[0]
    valid = [record for record in records if usable(record, {})]
    learnt = placebos.of(one.board, one.kernel.flavour, one.case, " ".join(one.argv))
    remarks = []
    if len(valid) < len(records):
        remarks.append(f"{name}: {len(records) - len(valid)} of {len(records)} boots are not valid and left out")
    if len(valid) < FEWEST:
        return _Case(figures=(), learnt=len(learnt.figures), remarks=(*remarks, f"{name}: {too_few(len(valid))}"))
    if not learnt.figures:
        remarks.append(f"{name}: placebos.yaml does not say how much harmless kernels move it with this command")
    strange = learnt.strange(one.environment)
    if strange:
        remarks.append(f"{name}: measured with {strange}")
    boots = [boot_figures(record) for record in valid]
    boot_s = mean(record.seconds.get("total", 0.0) for record in valid)
    figures = []
    for figure, placebo in learnt.figures.items():
        values = tuple(boot[figure] for boot in boots if figure in boot)
        if len(values) < len(boots):
            remarks.append(f"{name}: not every boot has {figure}")
        elif not all(value.value for value in values):
            remarks.append(f"{name}: {figure} is zero in some boot, of which no share can be taken")
        else:
            figures.append(_Figure(case=name, boots=values, placebo=placebo, boot_s=boot_s))
    return _Case(figures=tuple(figures), learnt=len(learnt.figures), remarks=tuple(remarks))
