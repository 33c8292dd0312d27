# SPDX-License-Identifier: MIT
"""What an NVMe disk says of its own health, before and after: log page 2 as JSON with the keys of `nvme smart-log`.

Written by our own `nvme-health` (target/nvme/nvme-health.c), or by nvme-cli where the target has that. Keys and units
are those of nvme-cli 1.16 to 2.13 (nvme-print-json.c): temperature in kelvin, `percent_used` in percent. A disk that
was worn or too hot is no measure of a kernel: any critical warning and any new media error makes the figures invalid.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.errors import ParseError
from rtgate.tools import Output, Reports, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_tests import Document, document
from rtgate.units import Quantity, Unit

PREFIX = "disk"
REPORTS: Mapping[str, Reports] = {
    "disk.critical_warning": Reports.COUNT,
    "disk.media_errors": Reports.COUNT,
    "disk.used": Reports.RATIO,
    "disk.temperature": Reports.TEMPERATURE,
}
_ZERO_CELSIUS_K = 273
_HOTTEST_K = 1000
_MOST_PERCENT = 255


def measurements(output: Output) -> tuple[Measurement, ...]:
    """Return the disk's health; nothing where it was not read before and after, which the validity check tells.

    Raises:
        ParseError: it was read, and is damaged.
    """
    texts = [output.text(f"health.{moment}") for moment in ("start", "end")]
    if not all(text.strip() for text in texts):
        return ()
    before, after = (document("the disk's health", text) for text in texts)
    errors = _errors(after) - _errors(before)
    if errors < 0:
        raise ParseError("the disk counted fewer media errors after the measurement than before: it is not the same")
    warnings = _warning(before) | _warning(after)
    percentage = _within(after, "percent_used", 0, _MOST_PERCENT)
    kelvin = max(_within(health, "temperature", 0, _HOTTEST_K) for health in (before, after))
    return (
        count("disk.critical_warning", warnings, Better.LOWER),
        count("disk.media_errors", errors, Better.LOWER),
        Measurement(name="disk.used", better=Better.LOWER, quantity=Quantity(percentage / 100, Unit.RATIO)),
        Measurement(
            name="disk.temperature",
            better=Better.LOWER,
            quantity=Quantity(kelvin - _ZERO_CELSIUS_K, Unit.CELSIUS),
        ),
    )


def _warning(health: Document) -> int:
    """Return the bits of the critical warning (NVMe base specification, SMART / Health Information)."""
    return _within(health, "critical_warning", 0, 255)


def _errors(health: Document) -> int:
    """Return the media errors, which is a counter of 128 bits."""
    value = health.data.get("media_errors")
    # nvme-cli writes counters that a double cannot hold as text.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 40:
        return int(value)
    if type(value) is not int or not 0 <= value < 1 << 128:
        raise ParseError(f"the disk's media errors are {value!r:.60}, which is not a number")
    return value


def _within(health: Document, name: str, low: int, high: int) -> int:
    value = health.integer(name)
    if not low <= value <= high:
        raise ParseError(f"the disk's {name} is {value}, which cannot be")
    return value
