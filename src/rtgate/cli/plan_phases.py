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
from rtgate.judge.phase_planning import DRAWS, MOST, PhasePlan, plan_phases
from rtgate.judge.phases import Placebo
from rtgate.judge.planning import Change, span
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


def show(boots: Sequence[Sequence[Record]], change: Change, metric: str | None, *, counted: bool) -> None:
    """Print what it takes to find a change.

    Args:
        boots: of one kernel on virtual time, for each case.
        change: what to find.
        metric: only this one.
        counted: its metrics are all these figures; each has two tests, of its shift and of its spikes.

    Raises:
        ConfigError: nobody knows what harmless kernels move there, or there is no such figure.
    """
    known = [figure for each in boots for figure in _figures(each)]
    if not known:
        raise ConfigError(
            "placebos.yaml does not say how much harmless kernels move these cases with these commands: on virtual "
            "time a change is found beyond that, and nobody can say how large it must be"
        )
    chosen = [one for one in known if metric in {None, one.name}]
    if not chosen:
        have = ", ".join(dict.fromkeys(one.name for one in known))
        raise ConfigError(f"the records have no metric {metric!r} (they have: {have})")
    asked = replace(change, tests=2 * (len(known) if counted else change.tests))
    console = Console()
    chance = random.Random(1)  # noqa: S311 - the same answer each time
    rows = [
        (one, plan_phases(one.boots, one.placebo, asked, lambda boots, count: chance.choices(boots, k=count)))
        for one in track(chosen, "trying", console=Console(stderr=True), transient=True)
    ]
    console.print(_table(rows))
    console.print(
        f"x{asked.ratio:g} put upon {DRAWS} pairs of kernels drawn from these boots, judged as a gate judges, at "
        f"{asked.alpha:g} false alarms in {asked.tests} tests; passes: what is let through, whatever the number of "
        "boots, because placebos moved it or it is not worth blocking; found: by as many boots of each kernel as were "
        f"measured; boots: of each kernel, to find it with {asked.power:g} (-: no number up to {MOST} does)",
        highlight=False,
    )


def _table(rows: Sequence[tuple[_Figure, PhasePlan]]) -> Table:
    table = Table()
    table.add_column("case", overflow="fold")
    for name in ("figure", "passes", "found", "boots", "one core"):
        table.add_column(name, no_wrap=True)
    shown = ""
    for one, plan in rows:
        if shown not in {"", one.case}:
            table.add_section()
        cost = "" if plan.boots is None else span(2 * plan.boots * one.boot_s / 60)
        table.add_row(
            one.case if one.case != shown else "",
            one.name,
            f"x{plan.passes:.3f}",
            f"{plan.power:.0%} of {len(one.boots)}",
            "-" if plan.boots is None else str(plan.boots),
            cost,
        )
        shown = one.case
    return table


def _figures(records: Sequence[Record]) -> Iterator[_Figure]:
    """Yield the figures of a case that every boot has, that placebos moved, and that are not zero."""
    one = records[0]
    learnt = harmless().of(one.board, one.kernel.flavour, one.case, " ".join(one.argv))
    boots = [boot_figures(record) for record in records]
    boot_s = mean(record.seconds.get("total", 0.0) for record in records)
    for name, placebo in learnt.figures.items():
        values = tuple(boot[name] for boot in boots if name in boot)
        if len(values) == len(boots) and all(figure.value for figure in values):
            yield _Figure(case=one.case, boots=values, placebo=placebo, boot_s=boot_s)
