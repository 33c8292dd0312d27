# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.tools import Count, Setting
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.periods import Periods
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest

SETTING = Setting(cpus=2, duration_s=9.5, virtual_time=False)


@pytest.mark.parametrize(
    ("loops", "distance_us", "run_s", "by_time", "wakeups"),
    [
        (0, 0, 10, True, (10_000, 10_000)),
        (0, 500, 10, True, (10_000, 6666)),
        (500, 500, 0.5, False, (500, 333)),
        # The program gets 10 s, so these end it.
        (9_700, 0, 9.7, False, (9_700, 9_700)),
        (10_000, 0, 10, False, (10_000, 10_000)),
        (10_001, 0, 10, True, (10_000, 10_000)),
        (50_000, 0, 10, True, (10_000, 10_000)),
    ],
)
def test_each_thread_wakes_up_in_its_own_period_until_the_run_ends(
    loops: int, distance_us: int, run_s: float, wakeups: tuple[int, int], *, by_time: bool
) -> None:
    made = Periods(interval_us=1000, distance_us=distance_us, loops=loops, setting=SETTING)
    assert (made.run_s, made.ends_by_time) == (run_s, by_time)
    assert (made.wakeups(0), made.wakeups(1)) == wakeups
    assert made.count(1).least == pytest.approx(0.95 * wakeups[0])


@pytest.mark.parametrize("tool", [Cyclictest(range_us=0), XenomaiCyclictest(range_us=0)])
def test_both_cyclictests_expect_the_same(tool: Cyclictest | XenomaiCyclictest) -> None:
    least = 0.95 * 10 * 1e6 / 1500
    assert tool.expected(SETTING).counts == (Count(measurement="wakeups", least=least),)
    assert tool.expected(SETTING).duration_s == 10
