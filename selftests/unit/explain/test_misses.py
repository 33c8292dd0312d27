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
    with pytest.raises(ParseError, match="does not have the misses of each wake-up"):
        wakeup_misses(MOMENTS, wakes, [span])


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
