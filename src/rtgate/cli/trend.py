# SPDX-License-Identifier: MIT
"""`rtgate trend`: how a board's figures went from run to run, and where they changed permanently."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtgate.cli import command_options, drift
from rtgate.cli.stored_boots import by_case, of_newest_environment
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot
from rtgate.history.url import require_url
from rtgate.judge.compare.summaries import levels, summaries
from rtgate.judge.learn.change_points import FEWEST_POINTS, Change, change_points
from rtgate.report import plots
from rtgate.report.listing import show_listing
from rtgate.report.notices import say

DESCRIPTION = """\
Show how a board's figures went from run to run: one line per case and metric, and each place where the level changed
and stayed (E-divisive, at least three runs on each side; see docs/reference/history.md). With -o a plot of each case.

The value of a run is the median of its valid boots. Metrics are those of comparisons: exceedance rate, 1 h return
level, winsorised mean, throughput. Boots of different environments are not put into one series: that of the boot that
was stored last counts. Boots of revoked kernels are left out. --good-kernels leaves out all that were not
promoted, such as merge requests.

examples:
  rtgate trend --board rk3568-evb1 --history sqlite:///history.db
  rtgate trend --board rk3568-evb1 --good-kernels
  rtgate trend --board rk3568-evb1 --case latency/cyclictest:idle -o trend/
  rtgate trend --board virt-arm64 --drift-budget 3% --last 20

With --drift-budget the shifts of the last gates on virtual time are added up instead, from the newest that was merged
back to the one in which its baseline was the candidate, and so on: exit code 1 where they come to more than the budget
for certain. Merged is a candidate that was promoted, or that is the baseline of a later gate.

exit codes: 0 nothing got worse permanently, 1 a change for the worse that is still there, 5 too few runs to tell.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.add_history_options(parser)
    parser.add_argument("--arm", metavar="ARM", help="only this kernel: baseline or candidate (default: both)")
    parser.add_argument("--good-kernels", action="store_true", help="only kernels that `rtgate baseline` promoted")
    parser.add_argument("--drift-budget", type=drift.share, metavar="SHARE", help="add up gates; for example 3%%")
    parser.add_argument(
        "--last", type=command_options.positive, metavar="N", help=f"so many gates (default: {drift.GATES})"
    )
    parser.add_argument("--json", action="store_true", help="print series and changes as JSON")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write a plot of each case there")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One metric of one case over runs, oldest first; values are natural logarithms."""

    case: str
    metric: str
    runs: tuple[str, ...]
    kernels: tuple[str, ...]
    values: tuple[float, ...]
    changes: tuple[Change, ...]

    @property
    def worse(self) -> bool:
        """Whether a change for the worse is still there: what has got better since did not take half of it back."""
        return any(
            change.after > change.before and self.changes[-1].after - change.before > (change.after - change.before) / 2
            for change in self.changes
        )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    _check_options(arguments)
    with History.open(require_url(arguments.history)) as history:
        if arguments.drift_budget is not None:
            return drift.run(history, replace(command_options.boot_filter(arguments), usable=True), arguments)
        trends = _trends(history, arguments)
    if arguments.json:
        print(json.dumps([_as_json(trend) for trend in trends], indent=1))
    else:
        _show(trends)
    if arguments.output is not None:
        _plot(trends, arguments.output, arguments.board)
    if any(trend.worse for trend in trends):
        return 1
    return 0 if trends and all(len(trend.runs) >= FEWEST_POINTS for trend in trends) else 5


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that would say nothing. Raises ConfigError."""
    if arguments.drift_budget is None:
        if arguments.last:
            raise ConfigError("--last is for --drift-budget: add it, or leave out --last")
    elif arguments.arm or arguments.good_kernels or arguments.output:
        raise ConfigError(
            "--drift-budget adds up gates of both kernels and draws no plot: leave out --arm, --good-kernels and -o"
        )


def _trends(history: History, arguments: argparse.Namespace) -> list[Trend]:
    boot_filter = replace(
        command_options.boot_filter(arguments), arm=arguments.arm, usable=True, good_kernels=arguments.good_kernels
    )
    for sentence in queries.left_out(history, boot_filter):
        say(sentence)
    boots = queries.find(history, replace(boot_filter, revoked=False))
    if not boots:
        raise ConfigError(f"the history {history.name} has no valid boots of {arguments.board} that were asked for")
    return [trend for case, of_case in by_case(boots).items() for trend in _of_case(history, case, of_case)]


def _of_case(history: History, case: str, boots: Sequence[Boot]) -> list[Trend]:
    same = of_newest_environment(boots)
    (like,) = queries.records(history, same[-1:])
    records = queries.measured_like(history, same, like)
    case_levels = levels(records)
    by_run: dict[str, list[Mapping[str, float]]] = {}
    kernels: dict[str, str] = {}
    for boot, record in zip(same, records, strict=True):
        by_run.setdefault(boot.run, []).append(summaries(record, case_levels))
        kernels[boot.run] = boot.kernel_release
    metrics = sorted({metric for run_boots in by_run.values() for boot in run_boots for metric in boot})
    if not metrics:
        say(f"{case}: none of {len(same)} boots has a metric of comparisons, so it has no trend")
    return [_trend(case, metric, by_run, kernels) for metric in metrics]


def _trend(
    case: str, metric: str, by_run: Mapping[str, Sequence[Mapping[str, float]]], kernels: Mapping[str, str]
) -> Trend:
    medians = {
        run_name: statistics.median(boot[metric] for boot in run_boots if metric in boot)
        for run_name, run_boots in by_run.items()
        if any(metric in boot for boot in run_boots)
    }
    values = tuple(medians.values())
    return Trend(
        case=case,
        metric=metric,
        runs=tuple(medians),
        kernels=tuple(kernels[name] for name in medians),
        values=values,
        changes=change_points(values),
    )


def _show(trends: Sequence[Trend]) -> None:
    show_listing(
        ("case", "metric", "runs", "first to last", "changes: at run (kernel), by how much"),
        (
            (
                trend.case,
                trend.metric,
                len(trend.runs),
                _percent(math.exp(trend.values[-1] - trend.values[0])),
                _changes(trend),
            )
            for trend in trends
        ),
    )


def _changes(trend: Trend) -> str:
    if len(trend.runs) < FEWEST_POINTS:
        return f"too few runs to tell: it takes {FEWEST_POINTS}"
    return "\n".join(_sentence(trend, change) for change in trend.changes) or "none"


def _sentence(trend: Trend, change: Change) -> str:
    by = _percent(math.exp(change.after - change.before))
    word = "worse" if change.after > change.before else "better"
    return f"{trend.runs[change.index]} ({trend.kernels[change.index]}): {by}, {word} (p {change.p:.3f})"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %" if ratio < 3 else f"x{ratio:.1f}"


def _as_json(trend: Trend) -> dict[str, Any]:
    return {
        "case": trend.case,
        "metric": trend.metric,
        "series": [
            {"run": name, "kernel": kernel, "ln": value}
            for name, kernel, value in zip(trend.runs, trend.kernels, trend.values, strict=True)
        ],
        "changes": [
            {"run": trend.runs[change.index], "ratio": math.exp(change.after - change.before), "p": change.p}
            for change in trend.changes
        ],
    }


def _plot(trends: Sequence[Trend], directory: Path, board: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for case in dict.fromkeys(trend.case for trend in trends):
            lines = [
                plots.TrendLine(
                    label=trend.metric,
                    runs=trend.runs,
                    values=tuple(math.exp(value - trend.values[0]) for value in trend.values),
                    changes=tuple(change.index for change in trend.changes),
                )
                for trend in trends
                if trend.case == case
            ]
            title = f"{case} on {board}: times the first run, more is worse"
            picture = plots.trend_plot(title, lines)
            stem = case.replace("/", ".").replace(":", ".")
            for suffix, data in (("svg", picture.svg), ("png", picture.png)):
                path = directory / f"{stem}.{suffix}"
                path.write_bytes(data)
                say(str(path))
    except OSError as error:
        raise InfrastructureError(f"{directory} cannot be written: {error}") from error
