# SPDX-License-Identifier: MIT
"""`rtgate trend --drift-budget`: what the small shifts of a branch's merges come to."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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


@dataclass(frozen=True, slots=True)
class Chain:
    """The boots of gates whose shifts add up, oldest first.

    Attributes:
        gap: the run that would be one of them if it had not several kernels of one arm; empty if there is none.
        newer: how many of them are newer than the gap.
    """

    gates: tuple[tuple[Boot, ...], ...] = ()
    gap: str = ""
    newer: int = 0


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The boots of one run and environment, of both arms."""

    boots: tuple[Boot, ...]

    @property
    def run(self) -> str:
        """Its name."""
        return self.boots[0].run

    @property
    def comparable(self) -> str:
        """Which environment it is."""
        return self.boots[0].comparable

    @property
    def baselines(self) -> set[str]:
        """Images of the baseline; none where nobody knows them."""
        return {boot.image for boot in self.boots if boot.arm == ArmName.BASELINE and boot.image}

    @property
    def candidates(self) -> set[str]:
        """Images of the candidate; none where nobody knows them."""
        return {boot.image for boot in self.boots if boot.arm == ArmName.CANDIDATE and boot.image}

    @property
    def several(self) -> bool:
        """Whether it is more than one gate, as one of a merge request that was reviewed again."""
        return len(self.baselines) > 1 or len(self.candidates) > 1

    @property
    def good(self) -> bool:
        """Whether a candidate is a good kernel."""
        return any(boot.good_kernel for boot in self.boots if boot.arm == ArmName.CANDIDATE)


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
        links = chain(boots, arguments.last or GATES)
        groups = links.gates
        gates = _gates(history, groups)
        figures = list(drifts(case, gates))
        case_drifts += figures
        if not groups and not links.gap and _has_comparison(boots):
            gaps.append(f"{case}: not added up: {_why_no_gate(boots)}")
        elif gates and not figures:
            gaps.append(f"{case}: not added up: no figure has bounds in each of its {len(gates)} gates: too few boots")
        elif len(gates) < len(groups):
            gaps.append(f"{case}: what lies before that gate is not added up either")
        if links.gap:
            gaps.append(f"{case}: {_gap_sentence(links)}")
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


def _gap_sentence(links: Chain) -> str:
    """Return which run is not added up, and what to do: what is stored stays in its run."""
    remedies = ["from now on store each review as a run of its own (rtgate history add without --run)"]
    if links.newer:
        remedies.append(f"--last {links.newer} takes the gates after it alone")
    return f"{links.gap} is not added up: it has several baselines or candidates: {'; '.join(remedies)}"


def _gates(history: History, groups: Sequence[Sequence[Boot]]) -> list[Gate]:
    """Return the newest gates, oldest first, up to one that cannot be added up: a sum over a gap says nothing."""
    gates: list[Gate] = []
    for boots in reversed(groups):
        gate = _gate(history, boots)
        if gate is None:
            break
        gates.insert(0, gate)
    return gates


def chain(boots: Sequence[Boot], last: int) -> Chain:
    """Return the newest gate of what was merged and those before it, oldest first, at most `last`.

    Before it: the gate in which its baseline was the candidate. Merged is what is a good kernel or a later run's
    baseline: a gate of a request that is open is in no chain.
    """
    comparisons = _comparisons(boots)
    merged = _merged(comparisons)
    start = next((run for run in merged if not run.several), None)
    if start is None:
        return Chain(gap=merged[0].run if merged else "")
    links: list[_Comparison] = []
    gap: _Comparison | None = None
    newer = 0
    for run in reversed([run for run in comparisons if run.comparable == start.comparable]):
        is_next = bool(run.candidates & links[-1].baselines) if links else run in merged
        if len(links) < last and is_next and run.several:
            gap, newer = run, len(links)
        elif len(links) < last and is_next:
            links.append(run)
            gap = None if gap and run.candidates <= gap.candidates else gap
    return Chain(tuple(run.boots for run in reversed(links)), *((gap.run, newer) if gap else ()))


def _merged(comparisons: Sequence[_Comparison]) -> list[_Comparison]:
    """Return the runs of what was merged, newest first: of a good kernel, or of one that a later run compared with."""
    later_baselines: set[str] = set()
    merged = []
    for run in reversed(comparisons):
        if run.good or run.candidates & later_baselines:
            merged.append(run)
        later_baselines |= run.baselines
    return merged


def _comparisons(boots: Sequence[Boot]) -> list[_Comparison]:
    """Return the runs that compared kernels, in each environment, in the order in which they were stored.

    The newest boot may be of a night, which measures one kernel, and for another time than reviews do.
    """
    by_run: dict[tuple[str, str], list[Boot]] = {}
    for boot in boots:
        by_run.setdefault((boot.run, boot.comparable), []).append(boot)
    runs = [_Comparison(tuple(run_boots)) for run_boots in by_run.values()]
    return [
        run for run in runs if run.baselines and run.candidates and (run.several or run.baselines != run.candidates)
    ]


def _why_no_gate(boots: Sequence[Boot]) -> str:
    """Return why no run begins a sum, and what to do."""
    if not _comparisons(boots):
        return "no run has one baseline and one other candidate in one environment"
    return (
        "no gate of something merged: promote the kernel of the branch (rtgate baseline promote), or gate the next "
        "merge with it as the baseline"
    )


def _has_comparison(boots: Sequence[Boot]) -> bool:
    """Whether any run has boots of both kernels."""
    arms = ({boot.run for boot in boots if boot.arm == arm} for arm in ("baseline", "candidate"))
    return bool(set.intersection(*arms))


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
