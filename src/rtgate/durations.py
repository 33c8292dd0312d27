# SPDX-License-Identifier: MIT
"""Durations as people write them: `90 s`, `10 min`, `2 h`, `3 d`; and the deadline that every wait takes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from rtgate.errors import ConfigError

DAY_S = 86400.0
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": DAY_S}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(s|min|h|d)")


def parse(text: str, *, least_s: float = 1.0, most_s: float = 30 * DAY_S) -> float:
    """Return the seconds of a duration.

    Args:
        text: a number and `s`, `min`, `h` or `d`, with or without a space.
        least_s: the shortest that is allowed, in seconds.
        most_s: the longest.

    Raises:
        ValueError: it is not a duration, or too short or too long; the message gives examples.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration (examples: 90 s, 10 min, 2 h, 3 d)")
    seconds = float(match[1]) * _UNITS[match[2]]
    if not least_s <= seconds <= most_s:
        raise ValueError(f"{text!r} is too short or too long (allowed: {format_s(least_s)} to {format_s(most_s)})")
    return seconds


def option(name: str, text: str) -> float:
    """Return the seconds that an option of a command names. Raises ConfigError, naming the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def format_s(seconds: float) -> str:
    """Return seconds as a duration that `parse` reads, in the largest unit that needs no fraction."""
    for unit, size in reversed(_UNITS.items()):
        if seconds % size == 0 and seconds:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on this machine's monotonic clock, by which something must have happened.

    Attributes:
        at: monotonic seconds at which it expires.
        allowed: the seconds it allowed when it was made, for messages.
    """

    at: float
    allowed: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(at=time.monotonic() + seconds, allowed=seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining == 0.0

    def sooner(self, seconds: float) -> float:
        """Return `seconds` or what is left, whichever is less."""
        return min(seconds, self.remaining)
