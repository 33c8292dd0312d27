# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgate.explain.bound import _most, bound
from rtgate.explain.intervals import Interval
from rtgate.explain.sections import PASSAGE, BootSections, Context, Kind, Section, Site, Spot, merge_boots
from rtgate.records.bound import Bound, Delay


def passages(*records: tuple[int, int, int, int]) -> NDArray[np.void]:
    """Return passages of one CPU: start, end, what was before, stretch."""
    return np.array([(start, end, before, 0, stretch) for start, end, before, stretch in records], PASSAGE)


def section(name: str, longest: int, *, switches: bool = False, kind: Kind = Kind.POID) -> Section:
    site = Site(kind, Context.THREAD, Spot(name), Spot(name), switches)
    return Section(site, 1, longest, longest, 1, 0, longest, ())


def wakeup(start: int, end: int) -> Interval:
    return Interval(cpu=0, start=start, end=end, latency_ns=8 * (end - start), idle_ns=0)


SECTIONS = (
    section("lock", 900),
    section("short", 30),
    section("schedule", 700, switches=True),
    section("tick", 5000, kind=Kind.IRQSOFF),
)


def test_a_bound_is_made_of_the_longest_parts() -> None:
    """The timer expires at 1000, its interrupt ends at 1400, the scheduler begins at 1405, the thread runs at 2000."""
    interrupts = passages((1000, 1400, 0, 3), (2010, 2110, 0, 3))
    switches = passages((1405, 2000, 5, 3))
    made = bound(SECTIONS, (interrupts, switches), [wakeup(1000, 2310)], 7)
    assert made == Bound(
        seed=7,
        postponed=Delay(900, "lock"),
        switching=Delay(700, "schedule"),
        entry=5,
        way=2310 - 2000 - 100,  # without the interrupt on it
        interrupts=500,
        interrupt_count=2,
        measured=1310,
    )
    assert made.instructions == 900 + 5 + 700 + 210 + 500
    assert made.holds
    assert not replace(made, measured=made.instructions + 1).holds


def test_scheduling_can_postpone_the_next_switch() -> None:
    long_switch = section("schedule", 1200, switches=True)
    none = passages()
    assert bound((*SECTIONS, long_switch), (none, none), [wakeup(0, 10)], 1).instructions == 2 * 1200


def test_a_thread_that_runs_before_its_timer_expires_is_not_switched_to() -> None:
    """What was switched to before the wake-up began is not its way, and not its entry."""
    made = bound(SECTIONS, (passages(), passages((100, 200, 50, 0))), [wakeup(300, 340)], 1)
    assert (made.entry, made.way, made.measured) == (0, 0, 40)


def test_the_way_into_the_scheduler_begins_with_the_wake_up() -> None:
    """The thread before ran undisturbed for 5000 instructions, of which 10 came after the timer had expired."""
    made = bound(SECTIONS, (passages(), passages((6000, 6500, 5000, 0))), [wakeup(5990, 6700)], 1)
    assert (made.entry, made.way) == (10, 200)


def test_a_thread_above_is_no_part_of_a_wake_up() -> None:
    """Between the switch that was under way and that to the measured thread one goes to a stopper."""
    under_way, stopper, own = (900, 1100, 0, 0), (1110, 1200, 10, 0), (1900, 2100, 5, 0)
    interrupts = passages((1300, 1350, 0, 0), (2110, 2120, 0, 0))
    made = bound(SECTIONS, (interrupts, passages(under_way, stopper, own)), [wakeup(1000, 2200)], 1)
    assert made.measured == 1200 - (1900 - 1100 - 50)
    for two in ((under_way, own), (own,), ()):
        assert bound(SECTIONS, (interrupts, passages(*two)), [wakeup(1000, 2200)], 1).measured == 1200


def test_interrupts_that_postpone_let_others_come() -> None:
    """1600 instructions have room for one interrupt, with it for two, and with those for a third, which is short."""
    interrupts = passages((0, 500, 0, 0), (1900, 2400, 0, 0), (2500, 2501, 0, 0), (9000, 9500, 0, 0))
    made = bound(SECTIONS, (interrupts, passages()), [wakeup(0, 10)], 1)
    assert (made.interrupts, made.interrupt_count) == (1001, 3)


def test_no_wake_up_waits_while_the_cpu_is_idle() -> None:
    interrupts = passages((0, 500, 0, 0), (600, 1100, 0, 1), (1200, 1700, 0, 2))
    assert bound(SECTIONS, (interrupts, passages()), [wakeup(0, 10)], 1).interrupts == 500


def test_without_room_between_interrupts_all_of_them_postpone() -> None:
    storm = passages(*((n * 100, n * 100 + 100, 0, 0) for n in range(500)))
    made = bound(SECTIONS, (storm, passages()), [wakeup(0, 10)], 1)
    assert (made.interrupts, made.interrupt_count) == (50_000, 500)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(0, 1)), max_size=12),
    st.integers(1, 200),
)
def test_the_worst_stretch_is_that_of_a_search(gaps: list[tuple[int, int, int]], length: int) -> None:
    records, at, stretch = [], 0, 0
    for gap, took, idle in gaps:
        at, stretch = at + gap, stretch + idle
        records.append((at, at + took, 0, stretch))
        at += took
    worst = max(
        (
            sum(end - start for start, end, _, other in records if other == own and first <= start < first + length)
            for first, _, _, own in records
        ),
        default=0,
    )
    assert _most(passages(*records), length)[0] == worst


def test_of_several_boots_the_longest_bound_counts_and_first_a_broken_one() -> None:
    made = bound(SECTIONS, (passages(), passages()), [wakeup(0, 10)], 1)
    longer = replace(made, way=50, seed=2)
    broken = replace(made, measured=100_000, seed=3)
    assert merge_boots(BootSections((), one) for one in (made, longer)).bound == longer
    assert merge_boots(BootSections((), one) for one in (made, broken, longer)).bound == broken
    assert merge_boots([BootSections(SECTIONS)]).bound is None
