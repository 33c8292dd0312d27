# SPDX-License-Identifier: MIT
"""Measured figures beside their goals, as a table."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure: median and range of `runs`, beside the goal; None for a figure to compare with."""

    name: str
    median: float
    low: float
    high: float
    runs: int
    goal: float | None
    unit: str = "s"


def figure(name: str, values: Sequence[float], goal: float | None, unit: str = "s") -> Figure:
    """Return what several runs have measured."""
    median, low, high = (round(value, 2) for value in (statistics.median(values), min(values), max(values)))
    return Figure(name, median, low, high, len(values), goal, unit)


def machine() -> dict[str, object]:
    """Return what the figures depend on."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]}


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def show(figures: Sequence[Figure]) -> None:
    """Print a row for each figure."""
    facts = machine()
    table = Table(title=f"{facts['cpu']}, {facts['cores']} cores, load {facts['load']:.1f}")
    for heading in ("figure", "median", "min", "max", "runs", "goal"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for one in figures:
        numbers = (
            f"{one.median:.2f} {one.unit}",
            f"{one.low:.2f}",
            f"{one.high:.2f}",
            str(one.runs),
            "" if one.goal is None else f"{one.goal:g} {one.unit}",
        )
        table.add_row(one.name, *numbers)
    Console(width=110).print(table)
