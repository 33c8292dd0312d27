# SPDX-License-Identifier: MIT
from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgate.errors import ParseError
from rtgate.explain.misses import MOMENT, Misses, WakeUpMisses, wakeup_misses


def moments(*records: tuple[int, tuple[int, int, int]]) -> NDArray[np.void]:
    return np.array(list(records), MOMENT)


# An interrupt comes at 100 and at 300; the first wakes somebody at 150, who reads the clock at 200.
MOMENTS = moments((100, (10, 5, 1)), (200, (30, 6, 1)), (300, (40, 9, 2)), (420, (45, 9, 4)))


def test_a_wake_up_misses_from_its_interrupt_to_its_clock() -> None:
    found = wakeup_misses(MOMENTS, [150, 350], [(100, 200), (310, 420)])
    assert found == WakeUpMisses(count=2, instructions=100 + 120, total=Misses(20 + 5, 1, 2), most=Misses(20, 1, 2))


def test_without_wake_ups_nothing_is_missed() -> None:
    assert wakeup_misses(MOMENTS, [150], []) is None


@pytest.mark.parametrize(
    ("wakes", "span"),
    [
        ([], (100, 200)),  # nobody was woken
        ([350], (100, 200)),  # only later
        ([50], (20, 200)),  # by no interrupt
        ([150], (100, 201)),  # nothing was noted there
        ([150], (100, 500)),  # behind the end
    ],
)
def test_a_wake_up_that_was_not_noted_is_refused(wakes: list[int], span: tuple[int, int]) -> None:
    with pytest.raises(ParseError, match="the trace lacks the misses of 1 of 1 wake-ups"):
        wakeup_misses(MOMENTS, wakes, [span])


def test_one_in_a_hundred_wake_ups_may_be_lacking() -> None:
    """The trace numbers a few otherwise than the tool: who was woken behind where the clock was read."""
    usual = [(100, 200)] * 99
    found = wakeup_misses(MOMENTS, [150, 350], [*usual, (250, 300)])
    assert found == WakeUpMisses(count=99, instructions=9900, total=Misses(99 * 20, 99, 0), most=Misses(20, 1, 0))
    with pytest.raises(ParseError, match="lacks the misses of 1 of 99 wake-ups"):
        wakeup_misses(MOMENTS, [150, 350], [*usual[:98], (250, 300)])


def test_other_interrupts_of_a_wake_up_are_part_of_it() -> None:
    """Another interrupt before it, one between wake-up and clock, and a second thread woken by the same interrupt."""
    noted = moments((90, (1, 0, 0)), (100, (10, 5, 1)), (170, (15, 5, 1)), (200, (30, 6, 1)), (260, (33, 7, 1)))
    one = wakeup_misses(noted, [150, 155], [(95, 200)])
    assert one == WakeUpMisses(count=1, instructions=100, total=Misses(20, 1, 0), most=Misses(20, 1, 0))
    both = wakeup_misses(noted, [150, 155], [(95, 200), (95, 260)])
    assert both == WakeUpMisses(count=2, instructions=100 + 160, total=Misses(20 + 23, 1 + 2, 0), most=Misses(23, 2, 0))


STEPS = st.lists(st.tuples(*[st.integers(1, 50)] * 3, *[st.integers(0, 9)] * 6), min_size=1, max_size=20)


@given(STEPS)
def test_any_wake_ups_are_added_up(steps: list[tuple[int, ...]]) -> None:
    """Each has an interrupt, a wake-up and a clock, some instructions apart, and misses before it and in it."""
    times = list(accumulate(gap for step in steps for gap in step[:3]))
    vectors, wakes, reads = times[::3], times[1::3], times[2::3]
    gains = [gain for step in steps for gain in (step[3:6], step[6:9])]
    missed = list(accumulate(gains, lambda sums, gain: tuple(a + b for a, b in zip(sums, gain, strict=True))))
    noted = sorted([*vectors, *reads])
    found = wakeup_misses(moments(*zip(noted, missed, strict=True)), wakes, list(zip(vectors, reads, strict=True)))
    assert found is not None
    assert tuple(found.total) == tuple(map(sum, zip(*(step[6:9] for step in steps), strict=True)))
    assert tuple(found.most) == tuple(map(max, zip(*(step[6:9] for step in steps), strict=True)))
    assert found.instructions == sum(read - vector for vector, read in zip(vectors, reads, strict=True))
    assert (found + found).count == 2 * len(steps)
    assert (found + found).most == found.most
