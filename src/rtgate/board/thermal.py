# SPDX-License-Identifier: MIT
"""Temperatures of a board, as its thermal zones tell them before and after a measurement.

A kernel prints thousandths of a degree Celsius (Documentation/driver-api/thermal/sysfs-api.rst). A zone whose sensor
is switched off is refused by the kernel, and is as good as not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SENSORS = "/sys/class/thermal/thermal_zone*/temp"
# What a plan reads before and after: patterns of the shell.
WATCHED = (SENSORS, "/sys/class/thermal/thermal_zone*/type")
SURVIVABLE_C = (-100, 200)  # what no chip survives is a broken sensor's

_ZONE = re.compile(r"/sys/class/thermal/(thermal_zone[0-9]{1,4})/(temp|type)")
_THOUSANDTHS = re.compile(r"^(-?[0-9]{1,6})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One thermal zone; degrees Celsius, None for what it did not tell."""

    name: str
    before: float | None
    after: float | None

    @property
    def highest(self) -> float:
        """The higher of both temperatures."""
        return max(value for value in (self.before, self.after) if value is not None)


def hottest(text: str) -> float | None:
    """Return the highest temperature, in degrees Celsius, of what sensors print; None for no sensor."""
    lowest, highest = SURVIVABLE_C
    values = [int(line) / 1000 for line in _THOUSANDTHS.findall(text)]
    return max((value for value in values if lowest < value < highest), default=None)


def of(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return what was read of thermal zones, by path, before and after."""
    return {path: values for path, values in around.items() if _ZONE.fullmatch(path)}


def zones(readings: Mapping[str, tuple[str, str]]) -> tuple[Zone, ...]:
    """Return the zones that told a temperature before or after, in the order of their paths."""
    live_zones = []
    for path, (before, after) in sorted(of(readings).items()):
        directory, _, file = path.rpartition("/")
        if file == "temp" and (hottest(before), hottest(after)) != (None, None):
            name = readings.get(f"{directory}/type", ("", ""))[1] or directory.rpartition("/")[2]
            live_zones.append(Zone(name=name, before=hottest(before), after=hottest(after)))
    return tuple(live_zones)
