# SPDX-License-Identifier: MIT
"""Finding cyclictest's wake-ups among the events of a trace, and when each timer was due.

cyclictest asks to be woken at equal intervals, reads the clock when it runs, and calls the difference latency. So the
moments at which it reads the clock, known to the instruction, and its interval give every latency; where the first
interval lies follows from the smallest latency, which it reports. That all the others then agree with the histogram of
the record is the proof that nothing is missing.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.errors import ParseError
from rtgate.explain.trace import Event, Kind

_DIFFERING = 0.01  # of the wake-ups; of more, something was not understood
_TOLERANCE_NS = 40  # two ticks of a counter of 62.5 MHz, and an instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What cyclictest reported of one CPU.

    Attributes:
        counts: samples by latency in virtual nanoseconds.
        overflow: samples beyond the histogram's range.
    """

    cpu: int
    cycles: int
    minimum: int
    maximum: int
    counts: dict[int, int]
    overflow: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """One wake-up on one CPU.

    Attributes:
        start: `n` of the first instruction at or after the timer's expiry.
        end: `n` after the instruction that read the clock in the program.
        latency_ns: from expiry to reading the clock.
        idle_ns: of that, time in which no instruction ran: the interrupt itself came late.
    """

    cpu: int
    start: int
    end: int
    latency_ns: int
    idle_ns: int

    @property
    def instructions(self) -> int:
        """How many instructions ran from expiry to reading the clock, on all CPUs."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The wake-ups of one CPU.

    Attributes:
        differing: how many samples of the reported histogram no wake-up has.
    """

    cpu: int
    wakeups: tuple[WakeUp, ...]
    differing: int


def find(events: Sequence[Event], reported: Reported, interval_ns: int, instruction_ns: int) -> Found:
    """Return the wake-ups of one CPU.

    Raises:
        ParseError: the trace does not have as many as were reported, or they are not those of the histogram.
    """
    axis = _Axis(events, instruction_ns)
    reads = _reads(events, reported)
    ends = [axis.at(event) + instruction_ns for event in reads]
    wakes = _interrupts(events, reads, axis)
    nominal = _latencies(ends, wakes, float(interval_ns), reported)
    best = min(
        (nominal, *([] if _missing(nominal, reported) == 0 else [_fitted(ends, wakes, interval_ns, reported)])),
        key=lambda latencies: _missing(latencies, reported),
    )
    wakeups = tuple(axis.wakeup(event, end, latency) for event, end, latency in zip(reads, ends, best, strict=True))
    differing = _missing(best, reported)
    if differing > _DIFFERING * len(wakeups):
        raise ParseError(
            f"CPU {reported.cpu}: {differing} of {len(wakeups)} wake-ups in the trace have no sample in the histogram"
        )
    return Found(cpu=reported.cpu, wakeups=wakeups, differing=differing)


def _reads(events: Sequence[Event], reported: Reported) -> list[Event]:
    """Return the events at which the measuring thread read the clock after waking up.

    Every program has the code that reads the clock at another address, and no other reads it as often.
    """
    mine = [event for event in events if event.kind == Kind.USER_CLOCK and event.cpu == reported.cpu]
    counts = Counter(event.address for event in mine)
    enough = [address for address, count in counts.items() if count >= reported.cycles]
    if not enough:
        most = max(counts.values(), default=0)
        raise ParseError(
            f"CPU {reported.cpu} read the clock {most} times in the trace, it woke up {reported.cycles} times"
        )
    chosen = min(enough, key=lambda address: counts[address])
    reads = _last_tries(events, reported.cpu, chosen, {reported.cpu})
    if len(reads) < reported.cycles:
        # With nohz_full another CPU takes the timers of this one.
        reads = _last_tries(events, reported.cpu, chosen, {event.cpu for event in events})
    if len(reads) < reported.cycles:
        raise ParseError(f"CPU {reported.cpu} read the clock after {len(reads)} wake-ups, of {reported.cycles}")
    # The first reads are those of a thread that gets ready.
    return reads[-reported.cycles :]


def _last_tries(events: Sequence[Event], cpu: int, address: int, wakers: set[int]) -> list[Event]:
    """Return the reads of which each was the last one after its wake-up.

    The vDSO reads the counter once more when the clock's data were updated meanwhile (lib/vdso/gettimeofday.c): then
    no timer has woken anybody between two reads, and the later one counts.
    """
    reads: list[Event] = []
    woken = True
    for event in events:
        if event.kind == Kind.TIMER_WAKEUP:
            woken = woken or event.cpu in wakers
        elif event.kind == Kind.USER_CLOCK and (event.cpu, event.address) == (cpu, address):
            if not woken:
                reads.pop()
            reads.append(event)
            woken = False
    return reads


def _interrupts(events: Sequence[Event], reads: Sequence[Event], axis: _Axis) -> list[int]:
    """Return for each read the time at which the interrupt that led to it came, or nearly so."""
    times: list[int] = []
    latest = 0
    place = 0
    for read in reads:
        while place < len(events) and events[place].n <= read.n:
            event = events[place]
            if event.kind == Kind.TIMER_INTERRUPT:
                before = events[place - 1] if place else event
                latest = axis.after_idle(before) if before.kind == Kind.IDLE else axis.at(event)
            place += 1
        times.append(latest)
    return times


def _numbers(ends: Sequence[int], first: float, step: float) -> list[int]:
    """Return which interval each wake-up belongs to: cyclictest leaves out those that are over when it runs."""
    numbers: list[int] = []
    number = 0
    for end in ends:
        numbers.append(number)
        number = max(number + 1, int((end - first) // step) + 1)
    return numbers


def _latencies(ends: Sequence[int], wakes: Sequence[int], step: float, reported: Reported) -> list[int]:
    numbers = _numbers(ends, wakes[0], step)
    raw = [end - step * number for end, number in zip(ends, numbers, strict=True)]
    offset = min(raw) - reported.minimum
    return [round(value - offset) for value in raw]


def _fitted(ends: Sequence[int], wakes: Sequence[int], interval_ns: int, reported: Reported) -> list[int]:
    """Return the latencies if the guest's clock runs a little faster or slower (x86 measures its own counter).

    No interrupt is early, and most are on time: the lower edge of their times, as a line, is the guest's clock.
    """
    points = list(zip(_numbers(ends, wakes[0], float(interval_ns)), wakes, strict=True))
    hull: list[tuple[int, int]] = []
    for point in points:
        while len(hull) > 1 and _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    middle = points[len(points) // 2][0]
    edges = list(itertools.pairwise(hull))
    if not edges:
        return _latencies(ends, wakes, float(interval_ns), reported)
    edge = next((edge for edge in edges if edge[1][0] >= middle), edges[-1])
    step = (edge[1][1] - edge[0][1]) / max(1, edge[1][0] - edge[0][0])
    return _latencies(ends, wakes, step, reported)


def _below(first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]) -> bool:
    """Return whether the third point makes the second one superfluous in a lower hull."""
    return (second[1] - first[1]) * (third[0] - first[0]) >= (third[1] - first[1]) * (second[0] - first[0])


def _missing(latencies: Sequence[int], reported: Reported) -> int:
    """Return how many reported samples have no wake-up of nearly that latency, each wake-up serving for one."""
    left = sorted(latencies)
    top = max(reported.counts, default=0)
    samples = [value for value, count in sorted(reported.counts.items()) for _ in range(count)]
    beyond = sum(value > top + _TOLERANCE_NS for value in left)
    wrong = sum(abs(a - b) > _TOLERANCE_NS for a, b in zip(samples, left, strict=False))
    return wrong + abs(len(left) - beyond - len(samples)) + abs(beyond - reported.overflow)


class _Axis:
    """Virtual time by `n`: it runs evenly but for the jumps over idle time, each after an instruction that waits."""

    def __init__(self, events: Sequence[Event], instruction_ns: int) -> None:
        self._ns = instruction_ns
        self._froms: list[int] = []
        self._biases: list[int] = []
        before: Event | None = None
        for event in events:
            if before is None or event.bias != before.bias:
                self._froms.append(0 if before is None else before.n + 1)
                self._biases.append(event.bias)
            before = event
        self._times = [n * self._ns + bias for n, bias in zip(self._froms, self._biases, strict=True)]

    def at(self, event: Event) -> int:
        return event.bias + event.n * self._ns

    def after_idle(self, event: Event) -> int:
        """Return the time after the instruction that waited."""
        place = bisect.bisect_right(self._froms, event.n + 1) - 1
        return self._biases[place] + (event.n + 1) * self._ns

    def wakeup(self, read: Event, end: int, latency: int) -> WakeUp:
        expiry = end - latency
        place = max(0, bisect.bisect_right(self._times, expiry) - 1)
        start = -(-(expiry - self._biases[place]) // self._ns)
        if place + 1 < len(self._froms) and start > self._froms[place + 1]:
            # The timer was due in a jump: nothing ran until its end.
            start = self._froms[place + 1]
        done = read.n + 1
        idle = max(0, latency - (done - start) * self._ns)
        # Less than a tick of the guest's counter is rounding.
        return WakeUp(
            cpu=read.cpu, start=start, end=done, latency_ns=latency, idle_ns=idle if idle > _TOLERANCE_NS else 0
        )
