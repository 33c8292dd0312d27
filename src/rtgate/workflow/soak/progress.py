# SPDX-License-Identifier: MIT
"""What a soak has measured so far: a line per chunk with the largest value, shares, and the time left."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rtgate.judge.limits import format_quantity
from rtgate.records.record import Record
from rtgate.report.notices import show_line
from rtgate.report.progress import headline
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity
from rtgate.workflow.soak.spec import SoakSpec


class SoakProgress:
    """Adds up the chunks of a soak.

    Args:
        order: the soak.
        levels: measurement and level of each share that is limited.
    """

    def __init__(self, order: SoakSpec, levels: Sequence[tuple[str, Quantity]]) -> None:
        self._order = order
        self._levels = levels
        self._worst: tuple[Quantity, str] | None = None
        self._histograms: dict[str, Histogram] = {}

    def begin(self, records: Iterable[Record]) -> None:
        """Add what was measured before this worker, and say what is going to be done."""
        before = [record for record in records if record.chunk is not None]
        for record in before:
            self._add(record)
        order = self._order
        there = sum(record.chunk is not None and record.chunk.soak == order.nonce for record in before)
        text = f"soak {order.nonce}: {order.case} on {order.board}, {order.chunks} chunks of {order.chunk_s:g} s"
        show_line(f"{text}, {there} here already" if there else text)

    def show_chunk(self, record: Record, left_s: float) -> None:
        """Show a chunk that has just been written, and all of them so far."""
        self._add(record)
        assert record.chunk is not None
        number = record.chunk.number - self._order.first + 1
        clock = time.strftime("%H:%M:%S")
        head = f"{clock} [{number}/{self._order.chunks}, {_hours(left_s)} left]"
        show_line("; ".join([f"{head} {record.boot}: {headline(record)}", *self._progress_parts()]))

    def _add(self, record: Record) -> None:
        for value, _ in record.numbers("latency.max"):
            if self._worst is None or value.value > self._worst[0].to(value.unit).value:
                self._worst = (value, record.boot)
        for measurement in record.measurements:
            if measurement.histogram is not None:
                histogram = self._histograms.get(measurement.name)
                parts = [measurement.histogram] if histogram is None else [histogram, measurement.histogram]
                self._histograms[measurement.name] = Histogram.merge(parts)

    def _progress_parts(self) -> list[str]:
        parts = []
        if self._worst is not None:
            parts.append(f"so far max {format_quantity(self._worst[0], '')} in {self._worst[1]}")
        for name, level in self._levels:
            if name in self._histograms:
                parts.append(_share(name, self._histograms[name], level))
        if not self._levels and "latency" in self._histograms:
            parts.append(_quantiles(self._histograms["latency"]))
        return parts


def _share(name: str, histogram: Histogram, level: Quantity) -> str:
    try:
        return f"{name}: {histogram.over(level)} of {histogram.total} over {level}"
    except ValueError as error:
        return f"{name}: {error}"


def _quantiles(histogram: Histogram) -> str:
    quantiles = [(text, histogram.quantile(share)) for text, share in (("99.9 %", 0.999), ("99.999 %", 0.99999))]
    values = [f"{text} within {value}" for text, value in quantiles if value is not None]
    return ", ".join([f"{histogram.total} samples", *values])


def _hours(left_s: float) -> str:
    minutes, rest = divmod(int(left_s), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
