# SPDX-License-Identifier: MIT
"""A point in time by which something must have happened. Every wait takes one."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline on this machine's monotonic clock.

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
