# SPDX-License-Identifier: MIT
"""What a tool measures, as intervals of a trace: where each begins and ends, and how that is proven.

Every tool that can be explained has an `IntervalFinder`: `wakeups` for cyclictest, `roundtrips` for signaltest,
`cobalt` for Xenomai's latency. All that follows (what is logged, which functions ran, which sentence comes of it) knows
intervals only.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rtgate.explain.trace import INSTRUCTION_NS, Event, EventKind
from rtgate.records.record import Record
from rtgate.tools import Tool

_GOLDEN = (5**0.5 - 1) / 2
TOLERANCE_NS = 40  # two ticks of a counter of 62.5 MHz, and an instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What a tool measured once, on one CPU.

    Attributes:
        start: `n` of the first instruction that it consists of.
        end: `n` after the instruction that read the clock at its end.
        latency_ns: from begin to end.
        idle_ns: of that, time in which no instruction ran.
    """

    cpu: int
    start: int
    end: int
    latency_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuIntervals:
    """What a tool measured on one CPU, in the order of time.

    Attributes:
        differing: how many of them the trace and the tool's report do not agree about.
    """

    cpu: int
    intervals: tuple[Interval, ...]
    differing: int


class IntervalFinder(Protocol):
    """What a tool measures, and how a trace shows it."""

    @property
    def what(self) -> str:
        """What one interval is, for people: `wake-up`."""

    @property
    def maximum(self) -> str:
        """The figure by which the slowest of several boots is chosen."""

    @property
    def mean(self) -> str:
        """The figure by which the middle one of several boots is chosen."""

    @property
    def proof(self) -> str:
        """What is proven of the intervals that agree with the tool's report: `have the latency of the histogram`."""

    @property
    def marks(self) -> Mapping[EventKind, Sequence[str]]:
        """Functions whose first instruction is an event: the names by architecture, of which a kernel has one."""

    def intervals(self, tool: Tool, record: Record, events: Sequence[Event]) -> list[CpuIntervals]:
        """Return everything that the tool measured.

        Raises:
            ParseError: the trace does not have what the record has, so that nothing can be explained.
        """


class Axis:
    """Virtual time by `n`: it runs evenly but for the jumps over idle time, each after an instruction that waits."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._froms: list[int] = []
        self._biases: list[int] = []
        before: Event | None = None
        for event in events:
            if before is None or event.bias != before.bias:
                self._froms.append(0 if before is None else before.n + 1)
                self._biases.append(event.bias)
            before = event
        self._times = [n * INSTRUCTION_NS + bias for n, bias in zip(self._froms, self._biases, strict=True)]

    def at(self, event: Event) -> int:
        """Return when an event was."""
        return event.bias + event.n * INSTRUCTION_NS

    def after_idle(self, event: Event) -> int:
        """Return the time after the instruction that waited."""
        place = bisect.bisect_right(self._froms, event.n + 1) - 1
        return self._biases[place] + (event.n + 1) * INSTRUCTION_NS

    def before(self, clock_read: Event, end: int, latency: int) -> Interval:
        """Return the interval of this latency that ended, at the time `end`, with reading the clock."""
        expiry = end - latency
        place = max(0, bisect.bisect_right(self._times, expiry) - 1)
        start = -(-(expiry - self._biases[place]) // INSTRUCTION_NS)
        if place + 1 < len(self._froms) and start > self._froms[place + 1]:
            # It began in a jump: nothing ran until its end.
            start = self._froms[place + 1]
        return self._interval(clock_read, start, latency)

    def between(self, first: Event, last: Event) -> Interval:
        """Return the interval from one reading of the clock to another."""
        return self._interval(last, first.n + 1, self.at(last) - self.at(first))

    def _interval(self, clock_read: Event, start: int, latency: int) -> Interval:
        end = clock_read.n + 1
        idle = max(0, latency - (end - start) * INSTRUCTION_NS)
        # Less than a tick of the guest's counter is rounding.
        return Interval(
            cpu=clock_read.cpu, start=start, end=end, latency_ns=latency, idle_ns=idle if idle > TOLERANCE_NS else 0
        )


def sample(intervals: Sequence[Interval], count: int) -> list[Interval]:
    """Return at most `count` intervals, spread evenly but not in step with anything periodic (the tick)."""
    if len(intervals) <= count:
        return list(intervals)
    places = sorted({int(number * _GOLDEN % 1 * len(intervals)) for number in range(count)})
    return [intervals[place] for place in places]
