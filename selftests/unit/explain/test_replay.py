# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.explain import replay
from rtgate.explain.trace import Block, Trace
from rtgate.explain.wakeups import WakeUp

from .conftest import measurements, reported


class _Record:
    """As much of a record as is read."""

    def __init__(self, found: Any) -> None:
        self.measurements = found


def wakeup(start: int, end: int) -> WakeUp:
    return WakeUp(cpu=0, start=start, end=end, latency_ns=8 * (end - start), idle_ns=0)


def test_what_cyclictest_reported_is_read_by_cpu() -> None:
    found: Any = _Record(measurements("demo-arm64-idle"))
    assert replay.reports(found) == (reported("demo-arm64-idle"),)


def test_a_record_without_a_histogram_is_refused() -> None:
    found: Any = _Record(tuple(each for each in measurements("demo-arm64-idle") if each.name != "latency"))
    with pytest.raises(ParseError, match="'latency'"):
        replay.reports(found)


def test_every_wake_up_lies_in_an_interval_and_none_overlap() -> None:
    intervals = replay._joined([wakeup(90_000, 93_000), wakeup(10_000, 12_000), wakeup(14_000, 15_000), wakeup(5, 9)])
    assert intervals == [(0, 9), (6_000, 15_000), (86_000, 93_000)]


@given(st.integers(0, 3000), st.integers(1, 500))
def test_wake_ups_are_sampled_without_repetition(many: int, count: int) -> None:
    wakeups = [wakeup(10 * number, 10 * number + 5) for number in range(many)]
    chosen = replay._spread(wakeups, count)
    assert len(chosen) <= max(count, min(many, count))
    assert [each.start for each in chosen] == sorted({each.start for each in chosen})
    assert len(chosen) >= min(many, count) // 2


def test_the_sample_is_not_in_step_with_the_tick() -> None:
    wakeups = [wakeup(number, number + 1) for number in range(10_000)]
    by_phase = [sum(each.start % 4 == phase for each in replay._spread(wakeups, 400)) for phase in range(4)]
    assert min(by_phase) > 80


def test_what_ran_in_the_window_is_added_up_by_function() -> None:
    class Kernel:
        @staticmethod
        def function_at(address: int) -> str:
            return "f" if address < 0xFFFF000000001000 else "g"

    base = Block(address=0xFFFF000000000000, counted=7, instructions=1, last=b"")
    blocks = {
        0: base,
        1: replace(base, counted=5),
        2: replace(base, address=base.address + 0x1000),
        3: replace(base, counted=0, address=base.address + 0x2000),
        4: replace(base, address=0x400000, counted=2),
    }
    kernel: Any = Kernel()
    made = replay.executed(kernel, Trace(events=(), runs=(), blocks=blocks))
    assert made == {"f": 12, "g": 7, "(programs)": 2}
