# SPDX-License-Identifier: MIT
"""Records to remember: cyclictest on a lab board, with latencies of a known law."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make

from rtgate.board.boot import ArmName
from rtgate.history.baselines import Promotion, promote
from rtgate.history.database import History
from rtgate.history.store import Origin, add
from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.units import Quantity, Unit

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
CASE = "latency/cyclictest:idle"


def record(
    number: int = 1, *, scale: float = 1.0, arm: str = "baseline", image: str = "a" * 64, **changes: str
) -> Record:
    """Return one boot of a lab board: 2000 latencies around 20 us, times `scale`.

    Args:
        number: which boot of its run; it is the seed of the latencies, too.
        scale: what the latencies are multiplied with.
        arm: the arm.
        image: SHA-256 of the kernel's image.
        changes: fields of the environment; `case` for the case.
    """
    case = changes.pop("case", CASE)
    made = make(Boot(case=case, board="bench", seed=None, cpus=1, changes={"device": "bench-01", **changes}))
    chance = random.Random(f"{number} {arm} {image}")
    counts: dict[int, int] = {}
    for _ in range(2000):
        value = int(scale * (20 + 4 * chance.lognormvariate(0, 0.5)))
        counts[value] = counts.get(value, 0) + 1
    histogram = Histogram(unit=Unit.US, counts=dict(sorted(counts.items())), overflow=0, limit=1000)
    measurements = tuple(_with(one, histogram) for one in made.measurements)
    return replace(
        made,
        arm=ArmName(arm),
        boot_id=f"{arm}-{image[:4]}-{number}",
        kernel=replace(made.kernel, image_sha256=image),
        measurements=measurements,
        machine={**made.machine, "boot": str(number)},
    )


def _with(one: Measurement, histogram: Histogram) -> Measurement:
    if one.name == "latency":
        return replace(one, histogram=histogram)
    if one.name == "latency.max":
        return replace(one, quantity=Quantity(float(max(histogram.counts)), Unit.US))
    return one


def origin(run: str = "night-1") -> Origin:
    return Origin(run=run, now=NOW, not_applicable={})


def make_good(history: History, made: Iterable[Record], run: str = "night-1") -> None:
    """Promote the kernels of records, as a run that ended with PASS does."""
    promote(history, {promotion(one, run) for one in made})


def promotion(one: Record, run: str = "night-1", *, verdict: str = "PASS", unjudged: str = "") -> Promotion:
    return Promotion(
        board=one.board,
        kernel=one.kernel_id,
        run=run,
        promoted_at="2026-11-22T03:00:00Z",
        promoted_by="jane",
        verdict=verdict,
        unjudged=unjudged,
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/history.db"


@pytest.fixture
def history(url: str) -> History:
    return History.open(url, create=True)


Fill = Callable[..., None]


@pytest.fixture
def fill(history: History) -> Fill:
    """Add runs of boots of good kernels: `fill("night-1", scales=[1.0, 1.02])`."""

    def add_run(run: str, scales: list[float], first: int = 1, *, good: bool = True, **changes: str) -> None:
        made = [record(number, scale=scale, **changes) for number, scale in enumerate(scales, first)]
        add(history, made, origin(run))
        if good:
            make_good(history, made, run)

    return add_run
