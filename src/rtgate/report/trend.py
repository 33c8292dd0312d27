# SPDX-License-Identifier: MIT
"""The trend of a report: what Allure remembered of earlier runs in the same place, with axes, run names and changes.

The file is Allure's own, beside a report. The history database has boots and not figures, and only where somebody keeps
one: `rtgate trend` shows it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rtgate.judge.learn.change_points import Change, change_points
from rtgate.report import page
from rtgate.report.plots import TrendLine, trend_plot

_MOST_RUNS = 30
_FEWEST = 2
_MOST_PLOTS = 20  # a picture takes as long as a case's own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run of the history: its name, and its figures by key."""

    name: str
    figures: Mapping[str, float]


def trend(figures: Path, history: Path) -> str:
    """Return the trend as HTML; empty where no figure was measured twice.

    Args:
        figures: the file of the results that names the figures of this run.
        history: the file in which Allure remembers runs, this one among them.

    Raises:
        OSError, ValueError, KeyError, TypeError: a file is missing or damaged.
    """
    entries: list[dict[str, Any]] = json.loads(figures.read_text(encoding="utf-8"))
    by_tests: dict[Hashable, Mapping[str, Any]] = {}
    for text in history.read_text(encoding="utf-8").splitlines():
        data = json.loads(text)
        by_tests.setdefault(_tests(data), data)
    runs = [_run(data) for data in by_tests.values()][-_MOST_RUNS:]
    by_case: dict[str, list[TrendLine]] = {}
    for name in dict.fromkeys(_case(entry) for entry in entries):
        lines = [line for entry in entries if _case(entry) == name and (line := _line(entry, runs))]
        by_case |= {name: lines} if lines else {}
    changed_cases = {name: lines for name, lines in by_case.items() if any(line.changes for line in lines)}
    pairs = list((changed_cases | by_case).items())[:_MOST_PLOTS]
    plots = {name: trend_plot(name, lines).svg for name, lines in pairs}
    return (
        page.trend(plots, len(runs), [sentence for name in changed_cases for sentence in _changes(name, by_case[name])])
        if plots
        else ""
    )


def _changes(name: str, lines: Sequence[TrendLine]) -> list[str]:
    """Return in words where the figures of a case changed and stayed, from which level to which."""
    return [
        f"{name}: {label} from {math.exp(change.before):.4g} to {math.exp(change.after):.4g} {unit}, "
        f"since {line.runs[change.index]}"
        for line in lines
        for label, _, unit in [line.label.partition("\n")]
        for change in _find_changes(line.values)
    ]


def _find_changes(values: Sequence[float]) -> tuple[Change, ...]:
    """Return changes of level by ratio, as `rtgate trend` looks for them; a figure that is zero has none."""
    return change_points([math.log(value) for value in values]) if all(value > 0 for value in values) else ()


def _case(entry: Mapping[str, Any]) -> str:
    return f"{entry['title'].rpartition(': ')[0]}: {entry['groupTitle']}"


def _tests(data: Mapping[str, Any]) -> Hashable:
    """Return what tells a run from others: Allure remembers a run again whenever its report is made again."""
    tests = data.get("testResults", {}).items()
    return frozenset((name, test["start"], test["stop"]) for name, test in tests if "stop" in test) or data["timestamp"]


def _run(data: Mapping[str, Any]) -> _Run:
    moment = datetime.fromtimestamp(data["timestamp"] / 1000, UTC)
    # A report's name ends with what tells its kernel from others.
    return _Run(name=f"{moment:%Y-%m-%d %H:%M} {data['name'].rpartition(' ')[2]}", figures=data.get("metrics", {}))


def _line(entry: Mapping[str, Any], runs: Sequence[_Run]) -> TrendLine | None:
    points = [(run.name, float(run.figures[entry["key"]])) for run in runs if entry["key"] in run.figures]
    if len(points) < _FEWEST:
        return None
    names, values = zip(*points, strict=True)
    label = f"{entry['title'].rpartition(': ')[2]}\n{entry['unit']}"
    changes = tuple(change.index for change in _find_changes(values))
    return TrendLine(label=label, runs=names, values=values, changes=changes)
