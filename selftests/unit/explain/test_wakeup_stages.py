# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgate.explain import wakeup_stages
from rtgate.explain.intervals import Interval
from rtgate.explain.sections import BootSections, merge_boots
from rtgate.explain.stages import STAGES, Stage, WakeUpStages
from rtgate.explain.trace import Event, EventKind
from rtgate.explain.wakeup_stages import stage_marks

from .test_bound import passages, wakeup

ORDER = (
    EventKind.TIMER_INTERRUPT,
    EventKind.TIMER_WAKEUP,
    EventKind.WAKEUP_RETURN,
    EventKind.SCHEDULER,
    EventKind.SWITCH,
    EventKind.USER_CLOCK,
)
LENGTHS = (40, 250, 263, 600, 400, 60, 400, 230, 390)
WITH_INTERRUPTS = (0, 5, 6, 7, 8)  # stages in which another interrupt may come: in its own it cannot


@dataclass
class Boot:
    """What a trace has of wake-ups, one after another."""

    n: int = 1000
    events: list[Event] = field(default_factory=list)
    interrupts: list[tuple[int, int, int, int]] = field(default_factory=list)
    switches: list[tuple[int, int, int, int]] = field(default_factory=list)
    wakeups: list[Interval] = field(default_factory=list)

    def event(self, kind: int) -> None:
        self.events.append(Event(self.n, 0, 0, kind, 0))

    def interrupt(self, length: int) -> None:
        """Another interrupt comes, such as the tick."""
        self.interrupts.append((self.n, self.n + length, 0, 0))
        self.n += length // 2
        self.event(EventKind.TIMER_INTERRUPT)
        self.n += length - length // 2

    def wake_up(self, lengths: tuple[int, ...] = LENGTHS, others: dict[int, int] | None = None) -> None:
        """Go through the stages; in the middle of some another interrupt comes."""
        begin, edges = self.n, []
        for stage, length in enumerate(lengths):
            self.n += length // 2
            if others and stage in others:
                self.interrupt(others[stage])
            self.n += length - length // 2
            edges.append(self.n)
            kind = (None, *ORDER[:3], None, *ORDER[3:5], None, None)[stage]
            if kind is not None:
                self.event(kind)
        self.interrupts.append((edges[0], edges[4], 0, 0))
        self.interrupts.sort()
        self.switches.append((edges[4], edges[7], 0, 0))
        self.events.append(Event(self.n - 1, 0, 0, EventKind.USER_CLOCK, 0))
        self.wakeups.append(wakeup(begin, self.n))
        self.n += 5000

    @property
    def passages(self) -> tuple[NDArray[np.void], NDArray[np.void]]:
        return passages(*self.interrupts), passages(*self.switches)

    def stages(self, *without: int) -> WakeUpStages | None:
        """Return the stages, of events without some by number."""
        events = [event for number, event in enumerate(self.events) if number not in without]
        return wakeup_stages.wakeup_stages(sorted(events, key=lambda event: event.n), self.passages, self.wakeups)


def lengths_of(stages: WakeUpStages) -> list[tuple[int, int]]:
    return [(stage.total, stage.longest) for stage in stages.stages]


WAKEUPS = st.lists(
    st.tuples(
        st.tuples(*(st.integers(2, 5000) for _ in STAGES)),
        st.dictionaries(st.sampled_from(WITH_INTERRUPTS), st.integers(2, 3000)),
    ),
    min_size=1,
    max_size=8,
)


@given(WAKEUPS)
def test_stages_are_what_a_wake_up_went_through_and_together_its_length(
    ways: list[tuple[tuple[int, ...], dict[int, int]]],
) -> None:
    boot = Boot()
    for lengths, others in ways:
        boot.wake_up(lengths, others)
    stages = boot.stages()
    assert stages is not None
    assert (stages.count, stages.others) == (len(ways), 0)
    rows = [(*lengths, sum(others.values())) for lengths, others in ways]
    assert lengths_of(stages) == [(sum(column), max(column)) for column in zip(*rows, strict=True)]
    whole = [wake.end - wake.start for wake in boot.wakeups]
    assert (stages.whole.total, stages.whole.longest) == (sum(whole), max(whole))
    assert sum(stage.total for stage in stages.stages) == stages.whole.total


@given(st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(ORDER)), max_size=20), WAKEUPS)
def test_whatever_the_events_are_stages_are_no_shorter_than_nothing_and_add_up(
    strays: list[tuple[int, EventKind]], ways: list[tuple[tuple[int, ...], dict[int, int]]]
) -> None:
    boot = Boot()
    for lengths, others in ways:
        boot.wake_up(lengths, others)
    boot.events += [Event(900 + n, 0, 0, kind, 0) for n, kind in strays]
    stages = boot.stages()
    if stages is not None:
        assert stages.count + stages.others == len(ways)
        assert min(stage.total for stage in stages.stages) >= 0
        assert sum(stage.total for stage in stages.stages) == stages.whole.total


def test_stages_have_names() -> None:
    boot = Boot()
    boot.wake_up()
    stages = boot.stages()
    assert stages is not None
    assert stages.stages == tuple(map(Stage, (*STAGES, "other interrupts"), (*LENGTHS, 0), (*LENGTHS, 0)))
    assert stages.whole == Stage("whole wake-up", sum(LENGTHS), sum(LENGTHS))


@pytest.mark.parametrize("lacking", range(5))
def test_a_wake_up_that_lacks_an_event_is_left_out(lacking: int) -> None:
    boot = Boot()
    boot.wake_up((9,) * 9)
    boot.wake_up()
    stages = boot.stages(lacking)
    assert stages is not None
    assert (stages.count, stages.others) == (1, 1)
    assert [total for total, _ in lengths_of(stages)] == [*LENGTHS, 0]


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        (EventKind.TIMER_WAKEUP, 40 + 250 + 10),  # another timer wakes somebody, and which is the measured one?
        (EventKind.SCHEDULER, sum(LENGTHS) - 20),  # another thread was picked first
        (EventKind.SWITCH, sum(LENGTHS[:6]) + 9),
    ],
)
def test_a_wake_up_with_another_thread_in_it_is_left_out(kind: EventKind, at: int) -> None:
    boot = Boot()
    boot.wake_up()
    boot.events.append(Event(1000 + at, 0, 0, kind, 0))
    assert boot.stages() is None


def test_a_scheduler_that_was_interrupted_by_the_timer_is_another_order() -> None:
    boot = Boot()
    boot.wake_up()
    (scheduler,) = (number for number, event in enumerate(boot.events) if event.kind == EventKind.SCHEDULER)
    boot.events[scheduler] = replace(boot.events[scheduler], n=1010)
    assert boot.stages() is None


@pytest.mark.parametrize(("later", "count"), [(0, 1), (5, 1), (6, 0), (100, 0)])
def test_a_timer_found_due_by_an_earlier_interrupt_is_another_order(later: int, count: int) -> None:
    """When it was due is known to five instructions."""
    boot = Boot()
    boot.wake_up((0, *LENGTHS[1:]))
    boot.wakeups = [replace(boot.wakeups[0], start=1000 + later)]
    stages = boot.stages()
    assert (stages is not None) == count
    if stages is not None:
        assert [total for total, _ in lengths_of(stages)] == [0, LENGTHS[1] - later, *LENGTHS[2:], 0]
        assert stages.whole.total == sum(LENGTHS[1:]) - later


def test_a_wake_up_in_no_interrupt_and_one_without_a_switch_are_left_out() -> None:
    boot = Boot()
    boot.wake_up()
    whole = boot.passages
    events, none = boot.events, passages()
    assert wakeup_stages.wakeup_stages(events, whole, boot.wakeups) is not None
    assert wakeup_stages.wakeup_stages(events, (none, whole[1]), boot.wakeups) is None
    assert wakeup_stages.wakeup_stages(events, (whole[0], none), boot.wakeups) is None
    assert wakeup_stages.wakeup_stages((), (none, none), boot.wakeups) is None


def test_stages_of_several_boots_are_added() -> None:
    boots = [Boot(), Boot()]
    boots[0].wake_up()
    boots[1].wake_up((9,) * 9)
    boots[1].wake_up(others={8: 700})
    both = [boot.stages() for boot in boots]
    (merged,) = [merge_boots(BootSections((), stages=stages) for stages in (*both, None)).stages]
    assert merged is not None
    assert merged.count == 3
    assert lengths_of(merged)[-2:] == [(2 * 390 + 9, 390), (700, 700)]
    assert merged.whole.longest == sum(LENGTHS) + 700
    assert merge_boots([BootSections(())]).stages is None


@pytest.mark.parametrize("lacking", ["", "__schedule", "__switch_to", "wake_up_process"])
def test_a_kernel_without_one_of_the_functions_has_no_stages(lacking: str) -> None:
    """It is measured all the same. bl stands in the second word of hrtimer_wakeup, which begins at 0x1000."""
    addresses = {"__schedule": 0x100, "__switch_to": 0x200, "wake_up_process": 0x1010, "hrtimer_wakeup": 0x1000}
    addresses.pop(lacking, None)
    symbol = SimpleNamespace(name="hrtimer_wakeup", function=True, address=0x1000, size=12)
    code = b"".join(word.to_bytes(4, "little") for word in (0xD503201F, 0x94000003, 0xD65F03C0))
    kernel: Any = SimpleNamespace(
        arch="arm64", symbols=(symbol,), address_of=addresses.get, bytes_at=lambda address, size: code[:size]
    )
    marks = {EventKind.WAKEUP_RETURN: 0x1008, EventKind.SCHEDULER: 0x100, EventKind.SWITCH: 0x200}
    assert stage_marks(kernel) == ({} if lacking else marks)
