# SPDX-License-Identifier: MIT
"""Units and quantities. A number never travels without its unit.

Virtual-time boards have units of their own: `virtual us` is time of a counted-instruction machine and is never
comparable with `us` of a real board, so a limit in the one cannot be applied to the other by mistake. The same holds
for what is counted per second. MB is 10^6 bytes, MiB 2^20.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What a number counts. The value is what people write and read."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    VIRTUAL_NS = "virtual ns"
    VIRTUAL_US = "virtual us"
    VIRTUAL_MS = "virtual ms"
    VIRTUAL_S = "virtual s"
    B_S = "B/s"
    MB_S = "MB/s"
    MIB_S = "MiB/s"
    VIRTUAL_MB_S = "virtual MB/s"
    PER_S = "/s"
    VIRTUAL_PER_S = "virtual /s"
    COUNT = "count"
    RATIO = "ratio"
    CELSIUS = "celsius"

    def __str__(self) -> str:
        return self.value

    @property
    def dimension(self) -> str:
        """Return what the unit measures: only units of one dimension convert into each other."""
        return _SCALES[self][0]

    @property
    def scale(self) -> float:
        """Return the size of one of this unit in the dimension's base (nanoseconds, bytes per second, or one)."""
        return _SCALES[self][1]

    @property
    def virtual(self) -> bool:
        """Whether this is time of a virtual-time board."""
        return self.dimension == "virtual time"


_SCALES: dict[Unit, tuple[str, float]] = {
    Unit.NS: ("time", 1.0),
    Unit.US: ("time", 1e3),
    Unit.MS: ("time", 1e6),
    Unit.S: ("time", 1e9),
    Unit.VIRTUAL_NS: ("virtual time", 1.0),
    Unit.VIRTUAL_US: ("virtual time", 1e3),
    Unit.VIRTUAL_MS: ("virtual time", 1e6),
    Unit.VIRTUAL_S: ("virtual time", 1e9),
    Unit.B_S: ("rate", 1.0),
    Unit.MB_S: ("rate", 1e6),
    Unit.MIB_S: ("rate", 2.0**20),
    Unit.VIRTUAL_MB_S: ("virtual rate", 1e6),
    Unit.PER_S: ("frequency", 1.0),
    Unit.VIRTUAL_PER_S: ("virtual frequency", 1.0),
    Unit.COUNT: ("count", 1.0),
    Unit.RATIO: ("ratio", 1.0),
    Unit.CELSIUS: ("temperature", 1.0),
}

_QUANTITY = re.compile(r"(?P<number>[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?P<unit>[A-Za-z/][A-Za-z/ ]*[A-Za-z]|s)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit."""

    value: float
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read `150 us`, `69.5 virtual us`, `3 count`, `1510 MB/s`.

        Raises:
            ValueError: no number, no unit, or an unknown unit; the message lists the units.
        """
        units = ", ".join(unit.value for unit in Unit)
        match = _QUANTITY.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a number with a unit (units: {units})")
        try:
            quantity = cls(float(match["number"]), Unit(match["unit"]))
        except ValueError:
            raise ValueError(f"{text!r} has an unknown number or unit (units: {units})") from None
        if not math.isfinite(quantity.value):
            raise ValueError(f"{text!r} is too large")
        return quantity

    def to(self, unit: Unit) -> Quantity:
        """Return the same quantity in another unit of its dimension.

        Raises:
            ValueError: the units measure different things.
        """
        if unit.dimension != self.unit.dimension:
            raise ValueError(f"{self.unit} cannot be converted to {unit}")
        if unit is self.unit:  # x * 1000 / 1000 is not always x, and a value that is its limit keeps it
            return self
        return Quantity(self.value * self.unit.scale / unit.scale, unit)

    def __str__(self) -> str:
        number = f"{self.value:.3f}".rstrip("0").rstrip(".") if abs(self.value) < 1e6 else f"{self.value:.0f}"
        return f"{number} {self.unit}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as people write them: `1-4, 7` for 1, 2, 3, 4 and 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def plural(count: int, noun: str) -> str:
    """Return how many of something, in words: `1 boot`, `2 boots`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def mib(text: str) -> int:
    """Return how many MiB `512 MiB` or `2 GiB` are. Raises ValueError: it is not a size."""
    match = re.fullmatch(r"([1-9][0-9]{0,8}) (MiB|GiB)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a size (allowed: a number and MiB or GiB, for example 512 MiB)")
    return int(match[1]) * (1024 if match[2] == "GiB" else 1)
