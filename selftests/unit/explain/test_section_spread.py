# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from rtgate.explain.section_spread import Spreads
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot, merge

from .test_sections import SECTIONS, section

EXIT = Site(Kind.PREEMPTOFF, Context.THREAD, Spot("do_exit"), Spot("schedule"))
TICK = Site(Kind.IRQSOFF, Context.HARDIRQ, Spot("el1h_64_irq"), Spot("ret_to_kernel"))
# do_exit() of an idle board in Linux 6.12.113.
LENGTHS = (1828, 1878, 1783, 1882, 1882, 1858, 1878)


def boot(lengths: Mapping[Site, int], calls: Mapping[str, int] | None = None) -> BootSections:
    """Return a boot with one section of each site, all with the same calls."""
    called = tuple(Call(function, length, 1) for function, length in (calls or {}).items())
    return BootSections(tuple(replace(section(site, [length]), calls=called) for site, length in lengths.items()))


def of_section(boots: Sequence[BootSections], function: str = "do_exit") -> int | None:
    return Spreads.of(boots, {function}).of_section(function)


def of_call(boots: Sequence[BootSections], function: str = "sched_tick") -> int | None:
    return Spreads.of(boots, {function}).of_call(function)


def ticks(*lengths: int, site: Site = TICK, function: str = "sched_tick") -> list[BootSections]:
    return [boot({site: 9000}, {function: length}) for length in lengths]


def test_it_is_the_distance_of_the_longest_in_the_boots() -> None:
    boots = [boot({EXIT: length}) for length in LENGTHS]
    assert of_section(boots) == 54
    assert of_call(boots, "do_exit") == 0  # nobody calls it


def test_one_boot_that_takes_another_way_does_not_count() -> None:
    """rt_mutex_slowunlock() in a thread under hackbench on virt-x86_64."""
    assert of_call(ticks(231, 1942, 1942, 2009, 2009, 2025, 2099)) == 157


def test_what_a_function_is_called_for_counts_for_the_sections_that_it_begins() -> None:
    boots = [boot({EXIT: 5000}, {"do_exit": length}) for length in (900, 900, 950, 1300)]
    assert (of_call(boots, "do_exit"), of_section(boots)) == (400, 400)
    # But not the other way round: a call takes nothing of what else is in a section.
    boots = [boot({EXIT: length}, {"do_exit": 900}) for length in (5000, 5000, 5500, 6000)]
    assert (of_call(boots, "do_exit"), of_section(boots)) == (0, 1000)


def test_kinds_and_contexts_are_compared_for_themselves_and_the_largest_counts() -> None:
    elsewhere = replace(TICK, context=Context.SOFTIRQ)
    apart = [*ticks(900, 900, 900, 900), *ticks(2000, 2000, 2050, 2100, site=elsewhere)]
    assert of_call(apart) == 100


@pytest.mark.parametrize("number", [1, 3])
def test_few_boots_say_nothing(number: int) -> None:
    boots = [boot({EXIT: 1800}, {"sched_tick": 900})] * number
    assert of_section(boots) is None
    assert of_call(boots) is None
    assert of_call(boots, "not_run") is None


def test_a_site_that_few_boots_show_says_nothing() -> None:
    rare = replace(EXIT, end=Spot("schedule_tail"))
    boots = [boot({EXIT: 1800}) for _ in range(8)] + [boot({EXIT: 1800, rare: 100 * number}) for number in (1, 31, 61)]
    assert of_section(boots) == 0
    assert of_section([boot({TICK: 9000})] * 4 + [boot({TICK: 9000, rare: 100})] * 3) is None


@given(SECTIONS)
def test_boots_that_are_alike_have_no_spread(found: list[Section]) -> None:
    one = BootSections(merge(found))
    functions = {each.site.begin.function for each in found}
    spreads = Spreads.of([one] * 4, functions)
    assert {spreads.of_section(function) for function in functions} <= {0}
    assert {spreads.of_call(function) for function in functions} <= {0}
