# SPDX-License-Identifier: MIT
"""`rtgate plan --detect` on virtual time: which figures show a change, and with how many boots."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.progress import track
from rich.table import Table

from rtgate.errors import ConfigError
from rtgate.judge.learn.phase_planning import DRAWS, MOST, Draw, PhasePlan, error_of, plan_phases
from rtgate.judge.learn.plannable import PlannableFigure, plannable
from rtgate.judge.learn.planning import Change, span
from rtgate.records.record import Record
from rtgate.validity.registry import not_applicable_on
from rtgate.workflow.verdicts import harmless


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
        ValueError: as `plannable` and `plan_phases`.
    """
    cases = list(plannable(records, harmless(), not_applicable_on))
    figures = [figure for case in cases for figure in case.figures]
    selection = [figure for figure in figures if metric in {None, figure.name}]
    remarks = [remark for case in cases for remark in case.remarks]
    if not selection:
        have = ", ".join(dict.fromkeys(figure.name for figure in figures)) or "nothing"
        subject = f"the metric {metric!r}" if metric else "these records"
        raise ConfigError(f"{subject} cannot be planned (what can: {have}); {'; '.join(remarks)}".removesuffix("; "))
    tests = 2 * (sum(case.learnt for case in cases) if counted else change.tests)
    planned_change = replace(change, tests=tests)
    progress = track(selection, "trying", console=Console(stderr=True), transient=True)
    rows = [
        (figure, plan_phases(figure.boots, figure.placebo, planned_change, draws(f"{figure.case} {figure.name}")))
        for figure in progress
    ]
    console = Console()
    console.print(_table(rows))
    console.print(_legend(rows, planned_change), highlight=False)
    for remark in remarks:
        console.print(remark, highlight=False)


def draws(name: str) -> Draw:
    """Return what draws boots by chance, for the same name always the same ones."""
    chance = random.Random(name)  # noqa: S311 - no secret
    return lambda boots, count: chance.choices(boots, k=count)


def _table(rows: Sequence[tuple[PlannableFigure, PhasePlan]]) -> Table:
    table = Table()
    table.add_column("case", overflow="fold")
    for name in ("figure", "passes", "found", "boots", "one core"):
        table.add_column(name, no_wrap=True)
    last_case = ""
    for figure, plan in rows:
        if last_case not in {"", figure.case}:
            table.add_section()
        table.add_row(
            figure.case if figure.case != last_case else "",
            figure.name,
            f"x{plan.passes:.3f}",
            f"{plan.power:.0%} of {len(figure.boots)}",
            "-" if plan.boots is None else str(plan.boots),
            span(2 * plan.boots * figure.boot_s / 60) if plan.boots and figure.boot_s else "",
        )
        last_case = figure.case
    return table


def _legend(rows: Sequence[tuple[PlannableFigure, PhasePlan]], change: Change) -> str:
    fewest = min(len(figure.boots) for figure, _ in rows)
    share = 1 - 0.05 ** (1 / fewest)
    return (
        f"x{change.ratio:g} put upon {DRAWS} pairs of kernels drawn from these boots, judged as a gate judges at its "
        f"first analysis, {change.alpha:g} false alarms in {change.tests} tests of all its figures. passes: what is "
        "let through, whatever the number of boots, because harmless changes move it or it is not worth blocking; "
        f"found: by as many boots of each kernel as were measured; boots: of each kernel, to find it with "
        f"{change.power:g} (+-{error_of(change.power):.2f}); -: it passes, or no number up to {MOST} does. {fewest} "
        f"boots may miss phases that up to {share:.0%} of all boots have (95 %), and one more such boot changes the "
        "answer: measure 20 or more."
    )
