# SPDX-License-Identifier: MIT
"""When the threads of cyclictest wake up, of both (rt-tests and Xenomai), and those of cyclicdeadline."""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.tools import Count, Setting

DISTANCE_US = 500  # the default of both
_SHARE = 0.95  # of the wake-ups that a thread without a histogram must have


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """The periods of a run's threads.

    Attributes:
        interval_us: of the first thread.
        distance_us: how much longer that of each further one is; 0 with cyclictest's histogram, which makes all equal.
        loops: wake-ups of the first thread that end the run, if the duration does not end it before; 0 for none.
        setting: which says how long it measures.
    """

    interval_us: int
    distance_us: int
    loops: int
    setting: Setting

    @property
    def ends_by_time(self) -> bool:
        """Whether the duration can end the run."""
        return self.setting.ends_by_time(self._loops_s)

    @property
    def run_s(self) -> float:
        """How long the run takes."""
        return self.setting.run_s(self._loops_s)

    @property
    def _loops_s(self) -> float:
        return self.loops * self.interval_us / 1e6

    def wakeups(self, number: int) -> int:
        """Return how often a thread, counted from 0, is to wake up."""
        return int(self._wakeups(number))

    def count(self, threads: int) -> Count:
        """Return what proves, without a histogram, that each of so many threads woke up."""
        return Count(measurement="wakeups", least=_SHARE * self._wakeups(threads - 1))

    def _wakeups(self, number: int) -> float:
        return self.run_s * 1e6 / (self.interval_us + number * self.distance_us)
