# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from rtgate.errors import ParseError
from rtgate.explain.roundtrips import ThreadReport, find, report
from rtgate.explain.trace import Event, EventKind

from .conftest import measurements, trace

CLOCK, OTHER = 0x7F0000001000, 0x7F0000002000
SLEEP_NS = 10_000_000


@dataclass
class Ring:
    """Writes the events of two threads that send a signal round, each way taking half of a round trip.

    `cpus` are those of the two threads. In rounds of `again` the vDSO reads the counter once more before `after`.
    """

    cpus: tuple[int, int] = (0, 1)
    again: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.events: list[Event] = []
        self.n, self.bias, self.sent = 1000, 0, 0

    def read(self, cpu: int, address: int = CLOCK) -> None:
        self.events.append(Event(self.n, self.bias, address, EventKind.USER_CLOCK, cpu))

    def send(self, cpu: int) -> None:
        self.events.append(Event(self.n, self.bias, 0xFFFF000000000010, EventKind.SIGNAL, cpu))

    def station(self, cpu: int, *, sleeps: bool = False, again: bool = False) -> None:
        if again:
            self.read(cpu)
            self.n += 20
        self.read(cpu)  # after
        self.n += 50
        if sleeps:
            self.bias += SLEEP_NS
        self.read(cpu)  # now
        self.n += 100
        self.send(cpu)

    def run(self, trips_ns: Sequence[int]) -> list[Event]:
        """Return all events: the threads get ready, the main thread sends the first signal."""
        first, second = self.cpus
        for cpu in self.cpus:
            self.read(cpu)
            self.n += 30
        self.send(first)
        for number, trip in enumerate([0, *trips_ns]):
            if number:
                self.n += trip // 8 - self.n + self.sent - (20 if number in self.again else 0)
            self.station(first, sleeps=number == 0 or (number - 1) % 16 == 0, again=number in self.again)
            self.sent = self.n - 100
            self.n += 400
            self.station(second)
        return self.events


TRIPS = [40_000, 40_800, 56_000, 40_080, 41_600] * 8


def reported(trips: Sequence[int], threads: int = 2) -> ThreadReport:
    cut = [value // 1000 for value in trips]
    return ThreadReport(
        threads=threads,
        rounds=len(cut),
        minimum=min(cut),
        mean=round(sum(cut) / len(cut), 2),
        maximum=max(cut),
    )


@pytest.mark.parametrize("cpus", [(0, 1), (0, 0), (1, 0)])
def test_every_round_trip_is_found_to_the_instruction(cpus: tuple[int, int]) -> None:
    found = find(Ring(cpus).run(TRIPS), reported(TRIPS))
    assert [trip.latency_ns for trip in found.intervals] == TRIPS
    assert [
        (trip.end - trip.start) * 8 for trip in found.intervals
    ] == TRIPS  # no idle time: the sleep lies between them
    assert (found.cpu, found.differing) == (cpus[0], 0)


def test_the_round_trips_of_a_captured_boot_are_those_that_signaltest_reported() -> None:
    """The main thread's signal was taken for the first thread's first one: each round trip was that of another."""
    name = "x86_64-smp2-signaltest"
    boot: Any = SimpleNamespace(measurements=measurements(name))
    found = find(trace(name).events, report(boot))
    figures = [trip.latency_ns for trip in found.intervals]
    assert (len(figures), min(figures), max(figures)) == (145, 901_152, 27_991_280)
    assert abs(sum(trip // 1000 for trip in figures) / len(figures) - 8945.68) < 0.1
    assert (found.cpu, found.differing) == (0, 0)


@pytest.mark.parametrize("cpus", [(0, 1), (0, 0)])
@pytest.mark.parametrize("reads", [1, 2])
def test_the_last_round_trip_may_have_come_to_a_thread_that_sends_it_no_more(cpus: tuple[int, int], reads: int) -> None:
    """The ring is ended where it is: seen with a kernel of remote wake-ups that are late."""
    ring = Ring(cpus)
    ring.run(TRIPS)
    last_ns = 48_000
    ring.n += last_ns // 8 - ring.n + ring.sent
    for _ in range(reads):
        ring.read(cpus[0])
        ring.n += 50
    found = find(ring.events, reported([*TRIPS, last_ns]))
    assert [trip.latency_ns for trip in found.intervals] == [*TRIPS, last_ns]
    with pytest.raises(ParseError, match="not those of its report"):
        find(ring.events, reported([*TRIPS, 2 * last_ns]))


def test_a_ring_that_never_turned_is_refused() -> None:
    ring = Ring()
    ring.station(0)
    ring.read(0)
    nothing = ThreadReport(threads=2, rounds=0, minimum=0, mean=0.0, maximum=0)
    with pytest.raises(ParseError, match="nothing can be explained"):
        find(ring.events, nothing)


def test_programs_that_read_the_clock_or_send_signals_beside_it_do_not_count() -> None:
    ring = Ring()
    ring.read(0, OTHER)
    ring.read(0, OTHER)
    ring.send(0)
    events = ring.run(TRIPS)
    events.insert(-6, replace(events[-6], address=OTHER))
    assert len(find(events, reported(TRIPS)).intervals) == len(TRIPS)


def test_a_clock_that_is_read_twice_leaves_one_round_trip_uncertain() -> None:
    trips = TRIPS * 4
    found = find(Ring(again=frozenset({7})).run(trips), reported(trips))
    assert found.differing == 1
    assert [trip.latency_ns for number, trip in enumerate(found.intervals) if number != 6] == [*trips[:6], *trips[7:]]


def test_too_many_uncertain_ends_explain_nothing() -> None:
    with pytest.raises(ParseError, match="2 of 40 round trips ended is not certain"):
        find(Ring(again=frozenset({7, 9})).run(TRIPS), reported(TRIPS))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"minimum": 41}, "minimum 41 virtual us, not 39.00 to 40.00"),
        ({"maximum": 90}, "maximum 90 virtual us"),
        ({"mean": 44.0}, "mean 44 virtual us, not 4"),
    ],
)
def test_figures_of_another_boot_do_not_agree(change: dict[str, float], told: str) -> None:
    with pytest.raises(ParseError, match=told):
        find(Ring().run(TRIPS), replace(reported(TRIPS), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", [1, -1])
def test_another_number_of_round_trips_explains_nothing(missing: int) -> None:
    counted = replace(reported(TRIPS), rounds=len(TRIPS) + missing)
    with pytest.raises(
        ParseError, match=f"shows 40 round trips of signaltest's first thread, it counted {40 + missing}"
    ):
        find(Ring().run(TRIPS), counted)


def test_a_trace_without_signals_explains_nothing() -> None:
    with pytest.raises(ParseError, match="shows 0 round trips"):
        find([], reported(TRIPS))
