# SPDX-License-Identifier: MIT
"""Sections under the names that the other kernel has for the same functions: then their sites are the same."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.handler_lengths import HandlerContext, InterruptHandler
from rtgate.explain.lock_holds import RawLock
from rtgate.explain.section_changes import changes
from rtgate.explain.section_names import rename_functions
from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot, merge

from .test_sections import NAMES, SECTIONS

SITE = Site(Kind.PREEMPTOFF, Context.SOFTIRQ, Spot("wake", "lock"), Spot("wake", "unlock"))
BOOT = BootSections(
    (Section(SITE, 2, 3000, 2000, 1, 7, 2007, (), (Call("g", 7, 1), Call("wake", 9, 1)), (1,)),),
    locks=(RawLock("", "wake", 4, 80, 40, 1), RawLock("runqueues", "wake", 4, 80, 50, 1)),
    handlers=(InterruptHandler("wake", HandlerContext.HARDIRQ, 2, 30, 20, 1),),
)
SPOTS = st.dictionaries(NAMES.map(lambda spot: spot.function), st.integers(), max_size=4)


def test_a_site_is_that_of_the_kernel_with_the_new_names() -> None:
    new = rename_functions(BOOT, {"wake": "activate", "lock": "take", "other": "unused"})
    (section,) = new.sections
    assert section.site == Site(Kind.PREEMPTOFF, Context.SOFTIRQ, Spot("activate", "take"), Spot("activate", "unlock"))
    assert section.calls == (Call("activate", 9, 1), Call("g", 7, 1))
    assert [str(lock) for lock in new.locks] == ["allocated, locked by activate", "runqueues"]
    assert new.locks[1].function == "activate"
    assert new.handlers == (InterruptHandler("activate", HandlerContext.HARDIRQ, 2, 30, 20, 1),)
    assert rename_functions(BOOT, {}) is BOOT


def test_a_site_of_a_renamed_function_is_not_new() -> None:
    candidate = rename_functions(BOOT, {"wake": "activate"}).sections
    assert changes(BOOT.sections, candidate)[0].new
    (change,) = changes(rename_functions(BOOT, {"wake": "activate"}).sections, candidate)
    assert (change.new, change.before, change.growth) == (False, 2000, 0)


def names(spots: Mapping[str, int]) -> dict[str, str]:
    return {name: f"new_{name}" for name in spots}


@given(SECTIONS, SPOTS)
def test_nothing_but_names_changes(sections: list[Section], spots: dict[str, int]) -> None:
    boot = BootSections(merge(sections))
    new = rename_functions(boot, names(spots))
    back = rename_functions(new, {after: before for before, after in names(spots).items()})
    assert back == boot
    assert sum(section.count for section in new.sections) == sum(section.count for section in boot.sections)
