# SPDX-License-Identifier: MIT
"""Measurements: named numbers and histograms with unit, direction and labels, before any judgement."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from typing import Any

from rtgate.units import Quantity, Unit


class Better(Enum):
    """Which way a measurement improves."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Samples by bucket.

    Attributes:
        unit: unit of bucket values.
        counts: samples by bucket; bucket v holds samples in [v, v+1) units (cyclictest truncates).
        overflow: samples beyond the last bucket, whose values are not known.
        limit: the first value that overflows.
    """

    unit: Unit
    counts: Mapping[int, int]
    overflow: int
    limit: int

    def __post_init__(self) -> None:
        if min(self.counts.values(), default=0) < 0 or self.overflow < 0:
            raise ValueError("a histogram cannot hold fewer than no samples")

    @property
    def total(self) -> int:
        """All samples, the overflowed ones included."""
        return sum(self.counts.values()) + self.overflow

    def over(self, level: Quantity) -> int:
        """Return how many samples are larger than `level`.

        Raises:
            ValueError: the level lies beyond the range while samples overflowed, so nobody can tell; or it has the
                wrong dimension.
        """
        threshold = level.to(self.unit).value
        if self.overflow and threshold >= self.limit:
            raise ValueError(
                f"{self.overflow} samples lie beyond the histogram's range of {Quantity(self.limit, self.unit)}: "
                f"how many are over {level} is not known"
            )
        return sum(count for value, count in self.counts.items() if value > threshold) + self.overflow

    def quantile(self, share: float) -> Quantity | None:
        """Return the smallest value that at least `share` of all samples do not exceed; None beyond the range."""
        return self.quantiles((share,))[0]

    def quantiles(self, shares: Iterable[float]) -> list[Quantity | None]:
        """Return the quantile of each share, as `quantile` does; the samples are put in order once."""
        total, values = self.total, sorted(self.counts)
        sums = list(accumulate(map(self.counts.__getitem__, values)))
        quantities: list[Quantity | None] = []
        for share in shares:
            place = bisect_left(sums, share * total)
            while place and sums[place - 1] / total >= share:  # 0.07 * 100 is more than 7
                place -= 1
            quantities.append(Quantity(values[place], self.unit) if place < len(values) else None)
        return quantities

    @classmethod
    def merge(cls, parts: Iterable[Histogram]) -> Histogram:
        """Return the sum of histograms of one unit and range.

        Raises:
            ValueError: there are none, or they differ in unit or range.
        """
        histograms = list(parts)
        if len({(part.unit, part.limit) for part in histograms}) != 1:
            raise ValueError("histograms of different units or ranges cannot be added")
        if len(histograms) == 1:
            (only,) = histograms
            in_order = sorted(only.counts)
            return (
                only if in_order == list(only.counts) else replace(only, counts={x: only.counts[x] for x in in_order})
            )
        counts: dict[int, int] = defaultdict(int)
        for part in histograms:
            for value, count in part.counts.items():
                counts[value] += count
        return cls(
            unit=histograms[0].unit,
            counts=dict(sorted(counts.items())),
            overflow=sum(part.overflow for part in histograms),
            limit=histograms[0].limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One named number or distribution that a tool reported.

    Attributes:
        name: dotted, coined by the tool's module only, for example `latency.max`.
        quantity: the number; None when the measurement is a histogram.
        labels: what tells measurements of one name apart, for example the CPU.
    """

    name: str
    better: Better
    quantity: Quantity | None = None
    histogram: Histogram | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.quantity is None) == (self.histogram is None):
            raise ValueError(f"measurement {self.name} needs either a number or a histogram")
        if self.quantity is not None and not math.isfinite(self.quantity.value):
            raise ValueError(f"measurement {self.name} is {self.quantity.value}, which is not a number")

    @property
    def unit(self) -> Unit:
        """The unit of the number or of the histogram's buckets."""
        if self.quantity is not None:
            return self.quantity.unit
        assert self.histogram is not None
        return self.histogram.unit

    @property
    def label(self) -> str:
        """The labels as people read them: `CPU 0`; empty without labels."""
        return " ".join(f"{key.upper() if key == 'cpu' else key} {value}" for key, value in sorted(self.labels.items()))

    def as_json(self) -> dict[str, Any]:
        """Return the measurement as it stands in a record."""
        data: dict[str, Any] = {
            "name": self.name,
            "better": self.better.value,
            "labels": dict(self.labels),
            "unit": self.unit.value,
        }
        if self.quantity is not None:
            data["value"] = self.quantity.value
        if self.histogram is not None:
            data["histogram"] = {
                "counts": {str(value): count for value, count in self.histogram.counts.items()},
                "overflow": self.histogram.overflow,
                "limit": self.histogram.limit,
            }
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Measurement:
        """Return the measurement of an entry in a record. Raises KeyError, TypeError, ValueError or AttributeError."""
        if not isinstance(data["name"], str) or not isinstance(data["labels"], dict):
            raise TypeError(f"{data['name']!r:.40} or its labels are of the wrong type")
        if not all(isinstance(text, str) for text in data["labels"].values()):
            raise TypeError(f"a label of {data['name']!r:.40} is not text")
        unit = Unit(data["unit"])
        histogram = data.get("histogram")
        return cls(
            name=data["name"],
            better=Better(data["better"]),
            labels=data["labels"],
            quantity=Quantity(float(data["value"]), unit) if "value" in data else None,
            histogram=None
            if histogram is None
            else Histogram(
                unit=unit,
                # A night has millions of buckets: this is twice as fast as a loop.
                counts=dict(zip(map(int, histogram["counts"]), map(int, histogram["counts"].values()), strict=True)),
                overflow=int(histogram["overflow"]),
                limit=int(histogram["limit"]),
            ),
        )
