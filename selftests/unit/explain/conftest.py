# SPDX-License-Identifier: MIT
"""Captured traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from rtgate.explain.trace import Trace, parse
from rtgate.explain.wakeups import CpuReport
from rtgate.tools.measurement import Measurement

DATA = Path(__file__).resolve().parents[2] / "data" / "trace"


def unpacked(name: str) -> bytes:
    path = DATA / f"{name}.gz"
    return gzip.decompress(path.read_bytes()) if path.is_file() else b""


def trace(name: str) -> Trace:
    return parse(*(unpacked(f"{name}.{part}") for part in ("events", "runs", "counts", "blocks")))


def measurements(name: str) -> tuple[Measurement, ...]:
    return tuple(Measurement.from_json(entry) for entry in json.loads((DATA / f"{name}.json").read_text()))


def names() -> dict[int, str]:
    stored = json.loads((DATA / "demo-arm64-idle.names.json").read_text())
    return {int(address, 16): name for address, name in stored.items()}


def reported(name: str) -> CpuReport:
    found = {each.name: each for each in measurements(name)}
    histogram = found["latency"].histogram
    assert histogram is not None

    def number(of: str) -> int:
        quantity = found[of].quantity
        assert quantity is not None
        return int(quantity.value)

    return CpuReport(
        cpu=0,
        cycles=number("wakeups"),
        minimum=number("latency.min"),
        maximum=number("latency.max"),
        counts=dict(histogram.counts),
        overflow=histogram.overflow,
    )
