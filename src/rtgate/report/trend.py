# SPDX-License-Identifier: MIT
"""The trend of a report: what Allure remembered of earlier runs in the same place, as plots with axes and run names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rtgate.report import page
from rtgate.report.plots import TrendLine, trend_plot

_MOST_RUNS = 30
_FEWEST = 2


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
    runs = [_run(json.loads(line)) for line in history.read_text(encoding="utf-8").splitlines()][-_MOST_RUNS:]
    plots: dict[str, bytes] = {}
    for name in dict.fromkeys(_case(entry) for entry in entries):
        lines = [line for entry in entries if _case(entry) == name and (line := _line(entry, runs))]
        if lines:
            plots[name] = trend_plot(name, lines).svg
    return page.trend(plots, len(runs)) if plots else ""


def _case(entry: Mapping[str, Any]) -> str:
    return f"{entry['title'].rpartition(': ')[0]}: {entry['groupTitle']}"


def _run(data: Mapping[str, Any]) -> _Run:
    moment = datetime.fromtimestamp(data["timestamp"] / 1000, UTC)
    # A report's name ends with what tells its kernel from others.
    return _Run(name=f"{moment:%Y-%m-%d %H:%M} {data['name'].rpartition(' ')[2]}", figures=data.get("metrics", {}))


def _line(entry: Mapping[str, Any], runs: Sequence[_Run]) -> TrendLine | None:
    known = [(run.name, float(run.figures[entry["key"]])) for run in runs if entry["key"] in run.figures]
    if len(known) < _FEWEST:
        return None
    names, values = zip(*known, strict=True)
    label = f"{entry['title'].rpartition(': ')[2]}\n{entry['unit']}"
    return TrendLine(label=label, runs=names, values=values)
