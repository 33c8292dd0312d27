# SPDX-License-Identifier: MIT
"""Finding periodic wake-ups among the events of a trace, and when each timer was due: cyclictest's.

cyclictest asks to be woken at equal intervals, reads the clock when it runs, and calls the difference latency. So the
moments at which it reads the clock, known to the instruction, and its interval give every latency; where the first
interval lies follows from the smallest latency, which it reports. That all the others then agree with the histogram of
the record is the proof that nothing is missing. The same holds for whatever else wakes up periodically (`cobalt`).
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rtgate.errors import ParseError
from rtgate.explain.intervals import TOLERANCE_NS, Axis, CpuIntervals
from rtgate.explain.trace import INSTRUCTION_NS, Event, EventKind
from rtgate.records.record import Record
from rtgate.tools import Tool
from rtgate.tools.case_name import CaseName
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.measurement import Histogram
from rtgate.tools.preemptirq import Preemptirq
from rtgate.units import Quantity, Unit

_DIFFERING = 0.01  # of the wake-ups; of more, something was not understood
_RETRY = 500_000  # instructions for each CPU, between which the others may have had their turns
_END = 10  # intervals without a reading, after which those that are too many may be another program's
_NEAR_NS, _ROUNDS = 0.2, 25  # around an estimated interval; thirds of it that are left out one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuReport:
    """What a tool reported of its wake-ups on one CPU.

    Attributes:
        cycles: how many they are.
        minimum: the smallest latency in virtual nanoseconds.
        minimum_of: of how many wake-ups, from the first one; None: of all.
        counts: samples by latency in virtual nanoseconds; of a cell by the least that it holds.
        cell_ns: how many nanoseconds a cell is wide.
        overflow: samples beyond the histogram's range.
    """

    cpu: int
    cycles: int
    minimum: int
    maximum: int
    counts: dict[int, int]
    overflow: int
    minimum_of: int | None = None
    cell_ns: int = 1


@dataclass(frozen=True, slots=True)
class WakeUps:
    """cyclictest's wake-ups: an `IntervalFinder`."""

    what: str = "wake-up"
    maximum: str = "latency.max"
    mean: str = "latency.avg"
    proof: str = "have the latency of the histogram"

    @property
    def marks(self) -> Mapping[EventKind, Sequence[str]]:
        """What wakes up. `hrtimer_wakeup` is only called by its address, so it is never inlined."""
        return {EventKind.TIMER_INTERRUPT: ("hrtimer_interrupt",), EventKind.TIMER_WAKEUP: ("hrtimer_wakeup",)}

    def intervals(self, tool: Tool, record: Record, events: Sequence[Event]) -> list[CpuIntervals]:
        """Return the wake-ups of each CPU. Raises ParseError as `find`, and if the record is not cyclictest's."""
        cyclictest = tool.cyclictest if isinstance(tool, Preemptirq) else tool
        assert isinstance(cyclictest, Cyclictest)
        return [find(events, report, cyclictest.interval_us * 1000) for report in reports(record)]


def reports(record: Record) -> tuple[CpuReport, ...]:
    """Return what a tool reported of its wake-ups, by CPU. Raises ParseError: something is missing, such as the CPU."""
    by_cpu: dict[str, dict[str, Histogram | Quantity | None]] = {}
    for measurement in record.measurements:
        value = measurement.histogram or measurement.quantity
        by_cpu.setdefault(measurement.labels.get("cpu", ""), {})[measurement.name] = value
    tool = CaseName.parse(record.case).tool
    cpu_reports = tuple(_read_report(tool, cpu, by_cpu[cpu]) for cpu in sorted(by_cpu) if cpu)
    if not cpu_reports:
        raise ParseError(f"{tool} named no CPU: wake-ups of threads that are not bound cannot be found in a trace")
    return cpu_reports


def _read_report(tool: str, cpu: str, values: Mapping[str, Histogram | Quantity | None]) -> CpuReport:
    histogram = values.get("latency")
    if not isinstance(histogram, Histogram):
        raise ParseError(f"the record has no histogram 'latency' of {tool}")
    return CpuReport(
        cpu=int(cpu),
        cycles=_number(tool, values, "wakeups", Unit.COUNT),
        minimum=_number(tool, values, "latency.min", Unit.VIRTUAL_NS),
        maximum=_number(tool, values, "latency.max", Unit.VIRTUAL_NS),
        counts=dict(histogram.counts),
        overflow=histogram.overflow,
    )


def _number(tool: str, values: Mapping[str, Histogram | Quantity | None], name: str, unit: Unit) -> int:
    quantity = values.get(name)
    if not isinstance(quantity, Quantity):
        raise ParseError(f"the record has no '{name}' of {tool}")
    return round(quantity.to(unit).value)


def find(events: Sequence[Event], report: CpuReport, interval_ns: int) -> CpuIntervals:
    """Return cyclictest's wake-ups on one CPU. Raises ParseError as `ending_at`, and if there are too few."""
    reads = _reads(events, report)
    axis = Axis(events)
    ends = [
        number
        for number in range(report.cycles, len(reads))
        if axis.at(reads[number]) - axis.at(reads[number - 1]) > _END * interval_ns
    ]
    # The first reads are those of a thread that gets ready, and what follows a pause may be another program's.
    results: list[CpuIntervals] = []
    for end in ends:
        with suppress(ParseError):
            results.append(ending_at(reads[end - report.cycles : end], events, report, interval_ns))
            if not results[-1].differing:
                return results[-1]
    try:
        results.append(ending_at(reads[-report.cycles :], events, report, interval_ns))
    except ParseError:
        if not results:
            raise
    return min(results, key=lambda intervals: intervals.differing)


def ending_at(reads: Sequence[Event], events: Sequence[Event], report: CpuReport, interval_ns: int) -> CpuIntervals:
    """Return the wake-ups that ended with these readings of the clock, one for each.

    Raises:
        ParseError: they are not those of the histogram.
    """
    axis = Axis(events)
    ends = [axis.at(event) + INSTRUCTION_NS for event in reads]
    wakes = _interrupts(events, reads, axis)
    best = _best_latencies(ends, wakes, float(interval_ns), report)
    wakeups = tuple(axis.before(event, end, latency) for event, end, latency in zip(reads, ends, best, strict=True))
    mismatches = _missing(best, report)
    if mismatches > _DIFFERING * len(wakeups):
        raise ParseError(
            f"CPU {report.cpu}: {mismatches} of {len(wakeups)} wake-ups in the trace have no sample in the histogram"
        )
    return CpuIntervals(cpu=report.cpu, intervals=wakeups, differing=mismatches)


def _best_latencies(ends: Sequence[int], wakes: Sequence[int], interval: float, report: CpuReport) -> list[int]:
    """Return the latencies with the interval, in ns, with which they agree best with what was reported."""
    latencies = partial(_latencies, ends, wakes, reported=report)
    misses = partial(_missing, reported=report)
    best = latencies(interval)
    if not misses(best):
        return best
    steps = [step for step in _steps(wakes, _numbers(ends, wakes[0], interval)) if step > 0]
    best = min((best, *map(latencies, steps)), key=misses)
    if misses(best) <= _DIFFERING * len(ends):
        return best
    # An estimate that is wrong by 0.03 ns is wrong by 150 ns after 5000 intervals.
    return min((best, *(_refine(step, latencies, report) for step in steps)), key=misses)


def _reads(events: Sequence[Event], report: CpuReport) -> list[Event]:
    """Return the events at which the measuring thread read the clock after waking up, with some before and behind.

    Every program has the code that reads the clock at an address of its own, which two may share. No other
    reads it as often.
    """
    mine = [event for event in events if event.kind == EventKind.USER_CLOCK and event.cpu == report.cpu]
    counts = Counter(event.address for event in mine)
    enough = [address for address, count in counts.items() if count >= report.cycles]
    if not enough:
        most = max(counts.values(), default=0)
        raise ParseError(f"CPU {report.cpu} read the clock {most} times in the trace, it woke up {report.cycles} times")
    clock_address = min(enough, key=lambda address: counts[address])
    reads = _last_tries(events, report.cpu, clock_address, {report.cpu})
    if len(reads) < report.cycles:
        # With nohz_full another CPU takes the timers of this one.
        reads = _last_tries(events, report.cpu, clock_address, {event.cpu for event in events})
    if len(reads) < report.cycles:
        raise ParseError(f"CPU {report.cpu} read the clock after {len(reads)} wake-ups, of {report.cycles}")
    return reads


def _last_tries(events: Sequence[Event], cpu: int, address: int, wakers: set[int]) -> list[Event]:
    """Return the reads of which each was the last one after its wake-up.

    The vDSO reads the counter once more when the clock's data were updated meanwhile (lib/vdso/gettimeofday.c): then
    no timer has woken anybody between two reads, and the later one counts. One that comes much later is another
    program's, such as stress-ng's, which reads the clock when it ends.
    """
    reads: list[Event] = []
    retry = _RETRY * len({event.cpu for event in events})
    woken = True
    for event in events:
        if event.kind == EventKind.TIMER_WAKEUP:
            woken = woken or event.cpu in wakers
        elif event.kind == EventKind.USER_CLOCK and (event.cpu, event.address) == (cpu, address):
            if woken:
                reads.append(event)
            elif event.n - reads[-1].n <= retry:
                reads[-1] = event
            woken = False
    return reads


def _interrupts(events: Sequence[Event], reads: Sequence[Event], axis: Axis) -> list[int]:
    """Return for each read the time at which the interrupt that led to it came, or nearly so."""
    times: list[int] = []
    latest = 0
    place = 0
    for clock_read in reads:
        while place < len(events) and events[place].n <= clock_read.n:
            event = events[place]
            if event.kind == EventKind.TIMER_INTERRUPT:
                before = events[place - 1] if place else event
                latest = axis.after_idle(before) if before.kind == EventKind.IDLE else axis.at(event)
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


def _latencies(ends: Sequence[int], wakes: Sequence[int], step: float, reported: CpuReport) -> list[int]:
    numbers = _numbers(ends, wakes[0], step)
    raw = [end - step * number for end, number in zip(ends, numbers, strict=True)]
    offset = min(raw[: reported.minimum_of]) - reported.minimum
    return [round(value - offset) for value in raw]


def _steps(wakes: Sequence[int], numbers: Sequence[int]) -> Iterator[float]:
    """Yield how long an interval may be if the guest's clock runs faster or slower (x86 measures its own counter).

    There are two ways to the line that most interrupts are on, as each fails at times: the lower edge of their times,
    if many are late; the median slope between those that are half a run apart (Theil, 1950), if some are early. One is
    early that came for another timer and found this one due before it ended.
    """
    points = list(zip(numbers, wakes, strict=True))
    hull: list[tuple[int, int]] = []
    for point in points:
        while len(hull) > 1 and _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    middle = len(points) // 2
    edges = list(itertools.pairwise(hull))
    if edges:
        yield _slope(*next((edge for edge in edges if edge[1][0] >= points[middle][0]), edges[-1]))
        yield statistics.median(map(_slope, points, points[middle:]))


def _refine(step: float, latencies: Callable[[float], list[int]], report: CpuReport) -> list[int]:
    """Return the latencies with the interval near an estimate with which they differ least from what was reported."""
    low, high = step - _NEAR_NS, step + _NEAR_NS
    for _ in range(_ROUNDS):
        third = (high - low) / 3
        if _distance(latencies(low + third), report) < _distance(latencies(high - third), report):
            high -= third
        else:
            low += third
    return latencies((low + high) / 2)


def _distance(latencies: Sequence[int], report: CpuReport) -> int:
    """Return how far the reported samples are from as many latencies, in order, in all."""
    return sum(abs(own - value) for value, own in zip(_samples(report), sorted(latencies), strict=False))


def _samples(report: CpuReport) -> list[int]:
    return [value for value, count in sorted(report.counts.items()) for _ in range(count)]


def _slope(first: tuple[int, int], second: tuple[int, int]) -> float:
    return (second[1] - first[1]) / max(1, second[0] - first[0])


def _below(first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]) -> bool:
    """Return whether the third point makes the second one superfluous in a lower hull."""
    return (second[1] - first[1]) * (third[0] - first[0]) >= (third[1] - first[1]) * (second[0] - first[0])


def _missing(latencies: Sequence[int], reported: CpuReport) -> int:
    """Return how many reported samples have no wake-up of nearly that latency, each wake-up serving for one."""
    sorted_latencies = sorted(latencies)
    above = reported.cell_ns - 1 + TOLERANCE_NS
    top = max(reported.counts, default=0)
    samples = _samples(reported)
    beyond = sum(value > top + above for value in sorted_latencies)
    wrong = sum(
        not -TOLERANCE_NS <= own - value <= above for value, own in zip(samples, sorted_latencies, strict=False)
    )
    return wrong + abs(len(sorted_latencies) - beyond - len(samples)) + abs(beyond - reported.overflow)
