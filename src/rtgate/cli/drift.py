# SPDX-License-Identifier: MIT
"""`rtgate trend --drift-budget`: what the small shifts of a branch's merges come to."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from rtgate.board.boot import ArmName
from rtgate.cli.stored_boots import by_case
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot, BootFilter
from rtgate.judge.compare.comparable import differences
from rtgate.judge.compare.drift import Drift, Gate, drifts
from rtgate.records.record import Record
from rtgate.report.listing import show_listing
from rtgate.report.notices import say
from rtgate.report.text import plain_text

GATES = 20
"""How many gates are added up unless somebody says how many."""


def share(text: str) -> float:
    """Read a budget such as `3%`. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not (text.endswith("%") and 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0% and 100%, such as 3%")
    return value


def run(history: History, boot_filter: BootFilter, arguments: argparse.Namespace) -> int:
    """Print what the last gates of a branch come to; return the exit code."""
    case_drifts: list[Drift] = []
    gaps: list[str] = []
    for case, boots in by_case(queries.find(history, boot_filter)).items():
        groups = chain(boots, arguments.last or GATES)
        gates = _gates(history, groups)
        figures = list(drifts(case, gates))
        case_drifts += figures
        if not groups and _has_comparison(boots):
            gaps.append(f"{case}: not added up: no run has one baseline and one other candidate in one environment")
        elif gates and not figures:
            gaps.append(f"{case}: not added up: no figure has bounds in each of its {len(gates)} gates: too few boots")
        elif len(gates) < len(groups):
            gaps.append(f"{case}: what lies before that gate is not added up either")
    beyond = [drift for drift in case_drifts if drift.beyond(arguments.drift_budget)]
    if arguments.json:
        print(
            json.dumps(
                [{**asdict(drift), "total": drift.total, "low": drift.low, "high": drift.high} for drift in case_drifts]
            )
        )
    else:
        _show(case_drifts, beyond, arguments.drift_budget)
    for sentence in gaps:
        say(sentence)
    if not case_drifts:
        say("no gate on virtual time with both kernels was stored that could be added up")
        return 5
    return 1 if beyond else 5 if gaps else 0


def _gates(history: History, groups: Sequence[Sequence[Boot]]) -> list[Gate]:
    """Return the newest gates, oldest first, up to one that cannot be added up: a sum over a gap says nothing."""
    gates: list[Gate] = []
    for boots in reversed(groups):
        gate = _gate(history, boots)
        if gate is None:
            break
        gates.insert(0, gate)
    return gates


def chain(boots: Sequence[Boot], last: int) -> tuple[tuple[Boot, ...], ...]:
    """Return the boots of the newest gate and of those before it, oldest first, at most `last`.

    Before it: the gate in which its baseline was the candidate. A gate of what was never merged is in no chain.
    """
    gates = _gates_by_run(boots)
    same = [gate for gate in gates if gate[0].comparable == gates[-1][0].comparable]
    links: list[tuple[Boot, ...]] = []
    for gate in reversed(same):
        old, new = _image(gate, "baseline"), _image(gate, "candidate")
        if old != new and len(links) < last and (not links or new == _image(links[-1], "baseline")):
            links.append(tuple(gate))
    return tuple(reversed(links))


def _gates_by_run(boots: Sequence[Boot]) -> list[list[Boot]]:
    """Return the boots of each run and environment that compared two kernels, in the order in which they were stored.

    The newest boot may be of a night, which measures one kernel, and for another time than reviews do.
    """
    by_run: dict[tuple[str, str], list[Boot]] = {}
    for boot in boots:
        by_run.setdefault((boot.run, boot.comparable), []).append(boot)
    return [gate for gate in by_run.values() if _image(gate, "baseline") and _image(gate, "candidate")]


def _has_comparison(boots: Sequence[Boot]) -> bool:
    """Whether any run has boots of both kernels."""
    arms = ({boot.run for boot in boots if boot.arm == arm} for arm in ("baseline", "candidate"))
    return bool(set.intersection(*arms))


def _image(gate: Sequence[Boot], arm: str) -> str:
    """Return the one image of an arm; empty if there are none or several."""
    images = {boot.image for boot in gate if boot.arm == arm}
    return images.pop() if len(images) == 1 else ""


def _gate(history: History, boots: Sequence[Boot]) -> Gate | None:
    """Return a gate with its records; None if they are not of virtual time, or may not be compared."""
    arms: dict[str, list[Record]] = {"baseline": [], "candidate": []}
    for boot, record in zip(boots, queries.records(history, boots), strict=True):
        if boot.arm in arms:
            arms[boot.arm].append(record)
    before, after = _same_seeds(arms["baseline"], arms["candidate"])
    if not before or not all(record.virtual_time for record in (*before, *after)):
        return None
    if why := differences(before, after):
        say(f"{boots[0].run} is not added up: {'; '.join(why)}")
        return None
    last = next(boot for boot in boots if boot.arm == ArmName.CANDIDATE)
    kernel = f"{last.kernel_name} {last.source}".strip() or last.kernel_release
    return Gate(run=last.run, kernel=kernel, baseline=before, candidate=after)


def _same_seeds(before: Sequence[Record], after: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the boots with seeds that both kernels have: of a boot that was not good the other one stands alone."""
    seeds = {record.seed for record in before} & {record.seed for record in after}
    return [record for record in before if record.seed in seeds], [record for record in after if record.seed in seeds]


def _show(case_drifts: Sequence[Drift], beyond: Sequence[Drift], budget: float) -> None:
    show_listing(
        ("case", "figure", "gates", "drift", "between"),
        (
            (
                drift.case,
                drift.figure,
                len(drift.steps),
                _percent(drift.total),
                f"{_percent(drift.low)} and {_percent(drift.high)}",
            )
            for drift in case_drifts
        ),
    )
    for drift in beyond:
        print(
            f"{plain_text(drift.case)}: {drift.figure} drifted by {_percent(drift.total)} over {len(drift.steps)} "
            f"gates (between {_percent(drift.low)} and {_percent(drift.high)}), and {budget:.1%} is the budget; "
            "what contributed:"
        )
        for step in drift.contributors:
            print(f"  {_percent(step.change)} {plain_text(step.run)}: {plain_text(step.kernel)}")


def _percent(change: float) -> str:
    return f"{math.expm1(change):+.1%}"
