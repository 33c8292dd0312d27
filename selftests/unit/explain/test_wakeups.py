# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rtgate.errors import ParseError
from rtgate.explain.trace import Event, EventKind
from rtgate.explain.wakeups import CpuReport, find

from .conftest import reported, trace

INTERVAL = 1_000_000
CLOCK, OTHER = 0x7F0000001000, 0x7F0000002000


@pytest.mark.parametrize("name", ["demo-arm64-idle", "x86_64-idle"])
def test_every_latency_of_the_histogram_is_found_to_the_instruction(name: str) -> None:
    found = find(trace(name).events, reported(name), INTERVAL)
    assert len(found.intervals) == 1000
    assert found.differing == 0
    slowest = max(found.intervals, key=lambda wakeup: wakeup.latency_ns)
    assert abs(slowest.latency_ns - reported(name).maximum) <= 40
    for wakeup in found.intervals:
        assert abs((wakeup.end - wakeup.start) * 8 + wakeup.idle_ns - wakeup.latency_ns) <= 200  # some page faults


def test_a_histogram_of_another_boot_does_not_agree() -> None:
    mine = reported("demo-arm64-idle")
    other = replace(mine, counts={value + 1000: count for value, count in mine.counts.items()})
    with pytest.raises(ParseError, match=r"CPU 0: [0-9]{3,4} of 1000 wake-ups in the trace have no sample"):
        find(trace("demo-arm64-idle").events, other, INTERVAL)


def test_a_trace_with_too_few_wake_ups_is_refused() -> None:
    with pytest.raises(ParseError, match="it woke up 5000 times"):
        find(trace("demo-arm64-idle").events, replace(reported("demo-arm64-idle"), cycles=5000), INTERVAL)


def events(
    latencies: list[int],
    late: dict[int, int],
    left_out: int = -1,
    again: frozenset[int] = frozenset(),
    drift_ns: int = 0,
) -> list[Event]:
    """Return the events of wake-ups from idle with these latencies.

    `late` has interrupts that come later; after those of `again` the vDSO reads the counter twice. The guest's clock
    runs faster by `drift_ns` in each interval.
    """
    found: list[Event] = []
    n, bias = 1000, 0
    for number, latency in enumerate(latencies):
        if number == left_out:
            continue
        due = (number + 1) * INTERVAL - number * drift_ns
        found.append(Event(n, bias, 0xFFFF000000000010, EventKind.IDLE, 0))
        bias = due + late.get(number, 0) - 8 * (n + 1)
        found.append(Event(n + 101, bias, 0xFFFF000000000020, EventKind.TIMER_INTERRUPT, 0))
        found.append(Event(n + 150, bias, 0xFFFF000000000030, EventKind.TIMER_WAKEUP, 0))
        ran = (latency - late.get(number, 0)) // 8
        if number in again:
            found.append(Event(n + ran - 13, bias, CLOCK, EventKind.USER_CLOCK, 0))
        found.append(Event(n + ran, bias, CLOCK, EventKind.USER_CLOCK, 0))
        found.append(Event(n + ran + 10, bias, OTHER, EventKind.USER_CLOCK, 1))
        n += ran + 500
    return found


def answer(latencies: list[int]) -> CpuReport:
    counts = {value: latencies.count(value) for value in latencies}
    return CpuReport(
        cpu=0, cycles=len(latencies), minimum=min(latencies), maximum=max(latencies), counts=counts, overflow=0
    )


def test_an_interrupt_that_comes_late_is_idle_time_not_instructions() -> None:
    latencies = [8000, 8000, 12000, 8000, 8000]
    found = find(events(latencies, {2: 4000}), answer(latencies), INTERVAL)
    assert found.differing == 0
    assert [wakeup.idle_ns for wakeup in found.intervals] == [0, 0, 4000, 0, 0]
    assert [wakeup.end - wakeup.start for wakeup in found.intervals] == [1000] * 5


@pytest.mark.parametrize("again", [{0}, {2}, {4}, {1, 2}, {0, 1, 2, 3, 4}])
def test_a_clock_that_is_read_twice_is_one_wake_up(again: set[int]) -> None:
    """Without the difference each one moved all later wake-ups by an interval: a mean of 6.4 ms instead of 44 us."""
    latencies = [8000, 9600, 12000, 8800, 8000]
    found = find(events(latencies, {}, again=frozenset(again)), answer(latencies), INTERVAL)
    assert [wakeup.latency_ns for wakeup in found.intervals] == latencies
    assert found.differing == 0


@pytest.mark.parametrize("woken", [False, True])
def test_what_another_program_reads_at_the_same_address_is_no_wake_up(woken: bool) -> None:
    """Seen with QEMU 10.0 and 11.1: stress-ng ended 300 ms after cyclictest, and both had the vDSO at one address."""
    latencies = [8000, 9600, 12000, 8800, 8000]
    seen = events(latencies, {})
    last = seen[-1]
    for number in range(3):
        n, bias = last.n + 1_000_000 * (number + 1), last.bias + 300_000_000
        if woken:
            seen.append(Event(n - 50, bias, 0xFFFF000000000030, EventKind.TIMER_WAKEUP, 0))
        seen += [Event(n, bias, CLOCK, EventKind.USER_CLOCK, 0), Event(n + 20, bias, CLOCK, EventKind.USER_CLOCK, 0)]
    found = find(seen, answer(latencies), INTERVAL)
    assert [wakeup.latency_ns for wakeup in found.intervals] == latencies
    assert found.differing == 0


def test_a_stall_in_the_last_wake_up_is_not_taken_for_the_end() -> None:
    """A thread that gets ready reads the clock, too, so that there are more readings than wake-ups."""
    latencies = [8000] * 300 + [12_000_000]
    seen = events(latencies, {300: 11_992_000})
    ready = Event(seen[0].n - 900, seen[0].bias, CLOCK, EventKind.USER_CLOCK, 0)
    found = find([ready, *seen], answer(latencies), INTERVAL)
    assert [wakeup.latency_ns for wakeup in found.intervals] == latencies


def test_timers_may_expire_on_another_cpu() -> None:
    latencies = [8000, 9600, 12000, 8800, 8000]
    there = [
        replace(event, cpu=1) if event.kind == EventKind.TIMER_WAKEUP else event
        for event in events(latencies, {}, again=frozenset({2}))
    ]
    found = find(there, answer(latencies), INTERVAL)
    assert [wakeup.latency_ns for wakeup in found.intervals] == latencies


@pytest.mark.parametrize("drift_ns", [-3, 2])
@pytest.mark.parametrize(
    "late",
    [{}, {number: 16 * number for number in range(1, 190, 3)}, {40: -600, 170: -2000}, {3: -8, 90: 4000, 180: -1096}],
    ids=["on time", "many late", "two early", "both"],
)
def test_a_clock_of_another_speed_is_found_whoever_is_late_or_early(drift_ns: int, late: dict[int, int]) -> None:
    """Early: another timer's interrupt found this one due before it ended. Seen with a kernel for x86."""
    latencies = [8000 + 64 * (number % 7) + max(0, late.get(number, 0)) for number in range(200)]
    found = find(events(latencies, late, drift_ns=drift_ns), answer(latencies), INTERVAL)
    assert found.differing == 0
    assert [abs(one.latency_ns - known) <= 8 for one, known in zip(found.intervals, latencies, strict=True)] == [
        True
    ] * 200


def test_a_speed_that_interrupts_show_badly_is_found_by_what_was_reported() -> None:
    """Under load most interrupts are late, and some early: their line is wrong by 0.03 ns, and that times 5000."""
    chance = random.Random(3)
    late = {number: 8 * chance.randrange(2500) for number in range(4000)} | {700: -4000, 3000: -16000}
    latencies = [30_000 + 8 * chance.randrange(1000) + max(0, late[number]) for number in range(4000)]
    found = find(events(latencies, late, drift_ns=1), answer(latencies), INTERVAL)
    assert found.differing == 0


def test_an_interval_that_was_slept_through_is_left_out() -> None:
    latencies = [8000, 1_048_000, 0, 8000, 8000]
    found = find(events(latencies, {}, left_out=2), answer([8000, 1_048_000, 8000, 8000]), INTERVAL)
    assert [wakeup.latency_ns for wakeup in found.intervals] == [8000, 1_048_000, 8000, 8000]
    assert found.differing == 0
