# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from rtgate.explain.section_changes import changes, sentence
from rtgate.explain.sections import Context, Kind, Section, Site, Spot, merge

from .test_sections import SECTIONS, section

TIMER = Site(Kind.IRQSOFF, Context.SOFTIRQ, Spot("run_timer_softirq"), Spot("run_timer_softirq"))
LOCKED = Site(Kind.PREEMPTOFF, Context.THREAD, Spot("wake", "_raw_spin_lock"), Spot("wake", "_raw_spin_unlock"))
SCHEDULE = Site(Kind.PREEMPTOFF, Context.THREAD, Spot("schedule"), Spot("schedule"), switches=True)


def test_the_site_that_grew_most_is_first_and_named() -> None:
    old = [section(LOCKED, [100, 300]), section(SCHEDULE, [900])]
    new = [section(LOCKED, [100, 5300]), section(SCHEDULE, [950])]
    found = changes(old, new)
    assert [(change.site, change.growth) for change in found] == [(LOCKED, 5000), (SCHEDULE, 50)]
    assert sentence(found) == (
        "preemption off for 5,000 instructions (40.0 virtual us) more in wake: 5,300 at the longest of 2 (thread), "
        "300 before"
    )


def test_a_new_site_grew_by_all_that_it_has() -> None:
    found = changes([section(SCHEDULE, [900])], [section(SCHEDULE, [900]), section(TIMER, [7500])])
    assert (found[0].site, found[0].growth, found[0].new) == (TIMER, 7500, True)
    assert "interrupts off for 7,500 instructions (60.0 virtual us) more in run_timer_softirq" in sentence(found)
    assert sentence(found).endswith("(softirq), a new site")


def test_a_known_beginning_with_a_new_end_is_compared_with_what_began_there() -> None:
    other = replace(SCHEDULE, end=Spot("schedule_tail"))
    assert changes([section(SCHEDULE, [900])], [section(other, [950])])[0].growth == 50
    assert changes([section(other, [900])], [section(replace(other, begin=Spot("new")), [950])])[0].growth == 50
    elsewhere = replace(other, context=Context.HARDIRQ)
    assert changes([section(SCHEDULE, [900])], [section(elsewhere, [950])])[0].growth == 950


def test_what_repeats_another_kind_is_listed_once() -> None:
    either = replace(TIMER, kind=Kind.PREEMPTIRQSOFF)
    assert [change.site for change in changes([], [section(either, [9]), section(TIMER, [9])])] == [TIMER]
    longer = changes([], [section(either, [10]), section(TIMER, [9])])
    assert [change.site for change in longer] == [either, TIMER]


def test_a_site_that_is_gone_did_not_grow() -> None:
    assert [change.growth for change in changes([section(TIMER, [9])], [])] == [-9]
    assert sentence(changes([section(TIMER, [9])], [])) == "no critical section is longer than in the baseline"
    assert sentence(()) == "no critical section is longer than in the baseline"


@given(SECTIONS)
def test_a_kernel_is_not_worse_than_itself(found: list[Section]) -> None:
    sections = merge(found)
    assert all(change.growth == 0 for change in changes(sections, sections))
    assert sentence(changes(sections, sections)) == "no critical section is longer than in the baseline"


@given(SECTIONS, SECTIONS)
def test_every_growth_is_listed(one: list[Section], other: list[Section]) -> None:
    old, new = merge(one), merge(other)
    found = changes(old, new)
    assert [change.growth for change in found] == sorted((change.growth for change in found), reverse=True)
    longest = {each.site: each.longest for each in old}
    most = max((each.longest - longest[each.site] for each in new if each.site in longest), default=None)
    assert most is None or found[0].growth >= most
