# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest

from rtgate.errors import ConfigError, ParseError
from rtgate.explain.cobalt import find
from rtgate.explain.finders import finder
from rtgate.explain.trace import Event, EventKind
from rtgate.explain.wakeups import CpuReport

from .conftest import reported, trace

PERIOD = 100_000_000  # ten wake-ups in a second
CLOCK = 0x7F0000001000


@pytest.mark.parametrize("name", ["arm64-xenomai-idle", "x86_64-xenomai-idle"])
def test_every_wake_up_lies_in_its_cell(name: str) -> None:
    mine = reported(name)
    found = find(trace(name).events, mine, 1_000_000)
    assert len(found.intervals) == mine.cycles
    assert found.differing == 0
    slowest = max(wakeup.latency_ns for wakeup in found.intervals)
    assert 0 <= slowest - max(mine.counts) < 100 + 40
    for wakeup in found.intervals:
        assert abs((wakeup.end - wakeup.start) * 8 + wakeup.idle_ns - wakeup.latency_ns) <= 200  # some page faults


def test_a_histogram_of_another_boot_does_not_agree() -> None:
    mine = reported("arm64-xenomai-idle")
    other = replace(mine, counts={value + 1000: count for value, count in mine.counts.items()})
    with pytest.raises(ParseError, match=r"CPU 0: [0-9]+ of [0-9]+ wake-ups in the trace have no sample"):
        find(trace("arm64-xenomai-idle").events, other, 1_000_000)


def test_a_trace_with_too_few_wake_ups_is_refused() -> None:
    mine = replace(reported("arm64-xenomai-idle"), cycles=50_000)
    with pytest.raises(ParseError, match="latency counted 50000 after the first 1000"):
        find(trace("arm64-xenomai-idle").events, mine, 1_000_000)


def events(latencies: list[int]) -> list[Event]:
    """Return the events of wake-ups from idle, and of a thread of Linux that reads the clock after some of them."""
    found = [Event(10, 0, CLOCK, EventKind.USER_CLOCK, 0), Event(400, 0, CLOCK, EventKind.USER_CLOCK, 0)]
    n, bias = 1000, 0
    for number, latency in enumerate(latencies):
        found.append(Event(n, bias, 0xFFFF000000000010, EventKind.IDLE, 0))
        bias = (number + 1) * PERIOD - 8 * (n + 1)
        found.append(Event(n + 101, bias, 0xFFFF000000000020, EventKind.TIMER_INTERRUPT, 0))
        found.append(Event(n + 150, bias, 0xFFFF000000000030, EventKind.TIMER_WAKEUP, 0))
        ran = latency // 8
        found.append(Event(n + ran, bias, CLOCK, EventKind.USER_CLOCK, 0))
        if number % 3 == 0:
            found.append(Event(n + ran + 200, bias, CLOCK, EventKind.USER_CLOCK, 0))
        found.append(Event(n + ran + 210, bias, CLOCK, EventKind.USER_CLOCK, 1))
        n += ran + 500
    return found


def report(latencies: list[int], minimum: int) -> CpuReport:
    cells = [latency // 100 * 100 for latency in latencies]
    return CpuReport(
        cpu=0,
        cycles=len(latencies),
        minimum=minimum,
        maximum=max(latencies),
        counts={cell: cells.count(cell) for cell in cells},
        overflow=0,
    )


WARM_UP = [80_000] * 10
SECOND = [16_000, 16_040, 24_096, 16_000, 16_000, 16_096, 16_000, 16_000, 16_000, 20_000]


def test_the_first_second_and_what_comes_after_the_end_are_left_out() -> None:
    found = find(events([*WARM_UP, *SECOND, 90_000]), report(SECOND, minimum=16_000), PERIOD)
    assert [wakeup.latency_ns for wakeup in found.intervals] == SECOND
    assert found.differing == 0


def test_the_minimum_is_of_whole_seconds() -> None:
    """Without the difference a shorter latency in the last, broken second would move all others."""
    samples = [*SECOND, 16_000, 12_000, 16_000]
    found = find(events([*WARM_UP, *samples]), report(samples, minimum=16_000), PERIOD)
    assert [wakeup.latency_ns for wakeup in found.intervals] == samples


def test_a_run_of_less_than_a_second_has_the_minimum_of_all() -> None:
    samples = SECOND[:5]
    found = find(events([*WARM_UP, *samples]), report(samples, minimum=16_000), PERIOD)
    assert [wakeup.latency_ns for wakeup in found.intervals] == samples


@pytest.mark.parametrize("context", ["kernel", "irq"])
def test_contexts_in_the_kernel_are_refused_by_name(context: str) -> None:
    with pytest.raises(
        ConfigError, match="a trace shows what cyclictest, preemptirq, signaltest, xenomai-latency measure"
    ):
        finder(f"latency/xenomai-latency-{context}:idle")
