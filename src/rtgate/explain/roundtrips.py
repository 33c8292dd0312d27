# SPDX-License-Identifier: MIT
"""Finding signaltest's round trips among the events of a trace.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/signaltest/signaltest.c):

* One signal goes round a ring of threads, by pthread_kill(3), so by tgkill(2): only one thread at a time holds it.
* A thread that has it reads the clock (`after`), sleeps 10 ms if it is the first thread and it has made 16 rounds,
  reads the clock again (`now`), and sends the signal on. What it measures is the time from `now` to the next `after`.
* The first round of each thread is left out. The difference is cut to whole microseconds.

So the signal's stations are the calls of tgkill in the order of time, whichever CPU they are on; those of the first
thread are every N-th of a ring of N. signaltest writes no histogram: the proof is that the round trips are as many as
it counted, and that minimum, mean and maximum are those that it reported.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.errors import ParseError
from rtgate.explain.intervals import TOLERANCE_NS, Axis, CpuIntervals
from rtgate.explain.trace import Event, EventKind
from rtgate.records.record import Record
from rtgate.tools import Tool
from rtgate.units import Unit

_UNCLEAR = 0.01  # of the round trips; of more, something was not understood
_SLEEP_NS = 10_000_000  # of the first thread, in its first two rounds and after every 16
_ROUNDING_US = 0.005  # the mean is printed with two decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReport:
    """What signaltest reported of its first thread, in whole virtual microseconds but for the mean.

    Attributes:
        threads: how many are in the ring.
        rounds: how many round trips it measured.
    """

    threads: int
    rounds: int
    minimum: int
    mean: float
    maximum: int


@dataclass(frozen=True, slots=True)
class _Station:
    """The signal at one thread: the clock as it came (`after`), and as it was sent on (`now`).

    Attributes:
        unclear: the clock was read more than twice, because the kernel updated it meanwhile: the first reading is
            `after`, or one that was repeated.
        latest: the last reading that `after` can be.
    """

    after: Event
    now: Event
    latest: Event

    @property
    def unclear(self) -> bool:
        return self.after is not self.latest


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """signaltest's round trips: an `IntervalFinder`."""

    what: str = "round trip"
    maximum: str = "roundtrip.max"
    mean: str = "roundtrip.avg"
    proof: str = "are certain to the instruction; their number, minimum, mean and maximum are those that were reported"

    @property
    def marks(self) -> Mapping[EventKind, Sequence[str]]:
        """What sends a signal to a thread."""
        return {EventKind.SIGNAL: ("__arm64_sys_tgkill", "__x64_sys_tgkill")}

    def intervals(
        self,
        tool: Tool,  # noqa: ARG002 - all that it needs is in the record
        record: Record,
        events: Sequence[Event],
    ) -> list[CpuIntervals]:
        """Return the round trips. Raises ParseError as `find`, and if the record is not signaltest's."""
        return [find(events, report(record))]


def report(record: Record) -> ThreadReport:
    """Return what signaltest reported. Raises ParseError: something is missing."""
    first = {
        measurement.name: measurement.quantity
        for measurement in record.measurements
        if measurement.labels.get("thread") == "0" and measurement.quantity
    }
    try:
        low, mean, high = (first[f"roundtrip.{name}"].to(Unit.VIRTUAL_US).value for name in ("min", "avg", "max"))
        rounds = int(first["samples"].value)
    except KeyError as error:
        raise ParseError(f"the record has no {error} of signaltest's first thread") from error
    threads = sum(measurement.name == "samples" for measurement in record.measurements)
    return ThreadReport(threads=threads, rounds=rounds, minimum=round(low), mean=mean, maximum=round(high))


def find(events: Sequence[Event], thread_report: ThreadReport) -> CpuIntervals:
    """Return the round trips of the first thread.

    Raises:
        ParseError: there are not as many as were reported, or they are not those of the report.
    """
    axis = Axis(events)
    everywhere, unsent_stations = _stations(events)
    stations = _of_first_thread(everywhere, thread_report.threads, axis)
    if stations and len(stations) == thread_report.rounds:
        stations = [*stations, *(station for station in unsent_stations if station.now.cpu == stations[0].now.cpu)]
    if len(stations) != thread_report.rounds + 1:
        raise ParseError(
            f"the trace shows {max(0, len(stations) - 1)} round trips of signaltest's first thread, it counted "
            f"{thread_report.rounds}: nothing can be explained"
        )
    trips = list(itertools.pairwise(stations))
    shortest = [axis.at(back.after) - axis.at(start.now) for start, back in trips]
    longest = [axis.at(back.latest) - axis.at(start.now) for start, back in trips]
    wrong = _disagreement(thread_report, shortest, longest)
    if wrong:
        raise ParseError(f"signaltest's round trips in the trace are not those of its report: {wrong}")
    doubts = sum(back.unclear for _, back in trips)
    if doubts > _UNCLEAR * len(trips):
        raise ParseError(f"where {doubts} of {len(trips)} round trips ended is not certain: nothing can be explained")
    intervals = tuple(axis.between(start.now, back.after) for start, back in trips)
    return CpuIntervals(cpu=stations[0].now.cpu, intervals=intervals, differing=doubts)


def _stations(events: Sequence[Event]) -> tuple[list[_Station], list[_Station]]:
    """Return where the signal was, in order, and where it came to last, on each CPU with readings after its last way.

    Every program has the code that reads the clock at another address, and no other sends as many signals right after
    it. A signal without two readings of the clock before it, on the same CPU, is somebody else's: the main thread's.
    A ring that is ended may be so with the signal at a thread that has counted it and sends it to nobody.
    """
    readings: dict[tuple[int, int], list[Event]] = defaultdict(list)
    by_address: dict[int, list[_Station]] = defaultdict(list)
    for event in events:
        if event.kind == EventKind.USER_CLOCK:
            readings[event.cpu, event.address].append(event)
        elif event.kind == EventKind.SIGNAL:
            for (cpu, address), reads in readings.items():
                if cpu == event.cpu and len(reads) > 1:
                    by_address[address].append(_Station(after=reads[0], latest=reads[-2], now=reads[-1]))
            # One signal is on its way: what was read before it, on any CPU, does not belong to the next station.
            readings.clear()
    ring = max(by_address, key=lambda address: len(by_address[address]), default=0)
    unsent_stations = [
        _Station(after=reads[0], latest=reads[-2 if len(reads) > 1 else 0], now=reads[-1])
        for (_, address), reads in readings.items()
        if address == ring
    ]
    return by_address[ring], unsent_stations


def _of_first_thread(stations: Sequence[_Station], threads: int, axis: Axis) -> Sequence[_Station]:
    """Return the stations at the first thread, which sleeps before it sends its first signal, and its second.

    What comes before are no stations: threads read the clock when they start, and then the main thread sends a signal.
    """
    asleep = [axis.at(station.now) - axis.at(station.after) >= _SLEEP_NS for station in stations]
    pairs = zip(asleep, asleep[threads:], strict=False)
    return stations[next((number for number, both in enumerate(pairs) if all(both)), len(stations)) :: threads]


def _disagreement(thread_report: ThreadReport, shortest: Sequence[int], longest: Sequence[int]) -> str:
    """Return what of the report the round trips, in nanoseconds, do not have; empty if all agrees.

    signaltest cuts each to microseconds after the kernel rounded the counter to nanoseconds: near a whole microsecond
    one more or one less is right.
    """
    least = [(value - TOLERANCE_NS) // 1000 for value in shortest]
    most = [(value + TOLERANCE_NS) // 1000 for value in longest]
    figures = (
        ("minimum", thread_report.minimum, min(least), min(most)),
        ("mean", thread_report.mean, sum(least) / len(least) - _ROUNDING_US, sum(most) / len(most) + _ROUNDING_US),
        ("maximum", thread_report.maximum, max(least), max(most)),
    )
    return ", ".join(
        f"{name} {value:g} virtual us, not {low:.2f} to {high:.2f}"
        for name, value, low, high in figures
        if not low <= value <= high
    )
