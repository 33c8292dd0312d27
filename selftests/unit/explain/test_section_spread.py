# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given

from rtgate.explain.section_spread import spreads
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot, merge

from .test_sections import SECTIONS, section

EXIT = Site(Kind.PREEMPTOFF, Context.THREAD, Spot("do_exit"), Spot("schedule"))
TICK = Site(Kind.IRQSOFF, Context.HARDIRQ, Spot("el1h_64_irq"), Spot("ret_to_kernel"))


def boot(lengths: Mapping[Site, int], calls: Mapping[str, int] | None = None) -> BootSections:
    """Return a boot with one section of each site, all with the same calls."""
    called = tuple(Call(function, length, 1) for function, length in (calls or {}).items())
    return BootSections(tuple(replace(section(site, [length]), calls=called) for site, length in lengths.items()))


def test_it_is_the_distance_of_the_longest_in_the_boots() -> None:
    """do_exit() of an idle board in Linux 6.12.113: at the longest 1,783 to 1,882 instructions in seven boots."""
    lengths = (1828, 1878, 1783, 1882, 1882, 1858, 1878)
    assert spreads([boot({EXIT: length}) for length in lengths], {"do_exit"}) == {"do_exit": 54}


def test_one_boot_that_takes_another_way_does_not_count() -> None:
    """rt_mutex_slowunlock() in a thread under hackbench on virt-x86_64."""
    lengths = (231, 1942, 1942, 2009, 2009, 2025, 2099)
    calls = [boot({TICK: 9000}, {"rt_mutex_slowunlock": length}) for length in lengths]
    assert spreads(calls, {"rt_mutex_slowunlock"}) == {"rt_mutex_slowunlock": 157}


def test_what_a_function_is_called_for_counts_by_kind_and_context() -> None:
    elsewhere = replace(TICK, context=Context.SOFTIRQ)
    boots = [boot({TICK: 6000}, {"sched_tick": 900}), boot({TICK: 9000}, {"sched_tick": 1300})]
    assert spreads(boots, {"sched_tick"}) == {"sched_tick": 400}
    boots = [boot({TICK: 6000}, {"sched_tick": 900}), boot({elsewhere: 9000}, {"sched_tick": 1300})]
    assert spreads(boots, {"sched_tick"}) == {}


def test_the_site_of_a_function_that_differs_most_counts() -> None:
    other = replace(EXIT, end=Spot("ret_to_kernel"))
    boots = [boot({EXIT: 1800, other: 1900}), boot({EXIT: 1850, other: 2400}), boot({EXIT: 1810})]
    assert spreads(boots, {"do_exit", "not_run"}) == {"do_exit": 500}


def test_one_boot_says_nothing() -> None:
    assert spreads([boot({EXIT: 1800})], {"do_exit"}) == {}


@given(SECTIONS)
def test_boots_that_are_alike_have_no_spread(found: list[Section]) -> None:
    one = BootSections(merge(found))
    assert set(spreads([one, one, one], {each.site.begin.function for each in found}).values()) <= {0}
