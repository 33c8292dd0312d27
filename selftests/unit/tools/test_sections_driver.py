# SPDX-License-Identifier: MIT
"""The driver rtgate_sections follows events as they come; here as a program of the host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.explain.bound import _most
from rtgate.explain.sections import PASSAGE

ROOT = Path(__file__).resolve().parents[3]
DRIVER = ROOT / "target" / "modules" / "rtgate_sections.c"
HOST = ROOT / "selftests" / "data" / "preemptirq" / "host.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

AWAKE = 2**32 - 1
KINDS = ("irqsoff", "preemptoff", "preemptirqsoff", "poid", "switch")
Event = tuple[int, str, int]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the driver with what it needs of the kernel, as a program."""
    directory = tmp_path_factory.mktemp("driver")
    for header in re.findall(r"#include <(linux/.*)>", DRIVER.read_text()):
        (directory / header).parent.mkdir(parents=True, exist_ok=True)
        (directory / header).write_text("")
    words = ["-std=gnu11", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover", f"-I{directory}"]
    made = directory / "driver"
    done = subprocess.run(
        [str(COMPILER), *words, f'-DDRIVER="{DRIVER}"', "-o", str(made), str(HOST)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return made


def follow(program: Path, events: Sequence[Event]) -> dict[str, Any]:
    """Return what the driver says of CPU 0 after these events."""
    text = "".join(f"{time} {event} {place}\n" for time, event, place in events)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    cpu: dict[str, Any] = json.loads(done.stdout)["cpu"]["0"]
    times = (cpu["entry"]["longest"], cpu["way"], *(length for kind in KINDS for length, *_ in listed(cpu, kind)))
    assert max(times) <= max(time for time, *_ in events)  # no difference below zero
    return cpu


def listed(cpu: dict[str, Any], kind: str) -> list[tuple[int, ...]]:
    """Return the longest sections of a kind: length, and the places of both ends."""
    sites = cpu[kind]["sites"].values()
    return [(site["longest"], *(int(site[end].removesuffix("s"), 16) for end in ("begin", "end"))) for site in sites]


def interrupt(start: int, length: int, *, preemption_off: bool = False, handler: str = "handler") -> list[Event]:
    """Return the events of an interrupt, from its vector to where the interrupted code goes on."""
    inner = [(start + 1, "preempt_disable", 0xE)], [(start + length - 1, "preempt_enable", 0xF)]
    enter, leave = ([], []) if preemption_off else inner
    return [
        (start, "irq_disable", 0xA),
        (start + 1, "hardirq", 1),
        *enter,
        *([(start + 2, handler, 0)] if handler else []),
        *leave,
        (start + length - 1, "hardirq", 0),
        (start + length, "irq_enable", 0xB),
    ]


def switch(start: int, thread: str) -> list[Event]:
    """Return the events of a switch to a thread."""
    return [(start, "preempt_disable", 5), (start + 100, thread, 0), (start + 200, "preempt_enable", 8)]


def test_what_overlaps_is_one_section_with_either_of_the_two_off(program: Path) -> None:
    events: list[Event] = [
        (100, "irq_disable", 1),
        (130, "preempt_disable", 2),
        (150, "irq_enable", 3),
        (190, "preempt_enable", 4),
    ]
    cpu = follow(program, events)
    assert listed(cpu, "irqsoff") == [(50, 1, 3)]
    assert listed(cpu, "preemptoff") == [(60, 2, 4)]
    assert listed(cpu, "preemptirqsoff") == [(90, 1, 4)]
    assert listed(cpu, "poid") == [(90, 1, 4)]
    assert cpu["switch"]["count"] == cpu["interrupts"] == cpu["entry"]["longest"] == cpu["way"] == 0


def test_an_interrupt_with_preemption_off_is_no_part_of_the_section(program: Path) -> None:
    nested = interrupt(1300, 200, preemption_off=True)
    cpu = follow(program, [(1000, "preempt_disable", 1), *nested, (2000, "preempt_enable", 2)])
    for kind in ("preemptoff", "preemptirqsoff", "poid"):
        assert listed(cpu, kind) == [(1000 - 200, 1, 2)]
    assert listed(cpu, "irqsoff") == [(200, 0xA, 0xB)]
    assert cpu["interrupts"] == 1


def test_interrupts_off_without_an_interrupt_are_part_of_the_section(program: Path) -> None:
    events: list[Event] = [
        (1000, "preempt_disable", 1),
        (1300, "irq_disable", 2),
        (1500, "irq_enable", 3),
        (2000, "preempt_enable", 4),
    ]
    assert listed(follow(program, events), "poid") == [(1000, 1, 4)]


def test_an_interrupt_of_code_that_can_be_preempted_postpones_by_what_follows_it(program: Path) -> None:
    """The handler is interference. From irq_exit() on the scheduler is postponed."""
    cpu = follow(program, interrupt(1000, 400))
    assert listed(cpu, "poid") == [(1, 0xF, 0xB)]
    assert listed(cpu, "preemptirqsoff") == [(400, 0xA, 0xB)]
    assert cpu["windows"]["16000"] == {"taken": 399, "count": 1}


def test_a_wake_up_is_followed_into_the_scheduler_and_to_the_program(program: Path) -> None:
    events: list[Event] = [
        (1000, "irq_disable", 0xA),
        (1010, "hardirq", 1),
        (1010, "preempt_disable", 0xE),
        (1020, "handler", 0),
        (1030, "asked", 1),
        (1500, "preempt_enable", 0xF),  # irq_exit()
        (1500, "hardirq", 0),
        (1510, "irq_enable", 0xB),
        (1540, "preempt_disable", 5),  # the scheduler
        (1550, "irq_disable", 6),
        (1600, "asked", 0),
        (1610, "measured", 0),
        (1700, "irq_enable", 7),
        (1750, "preempt_enable", 8),
        *interrupt(1800, 100),
        (2000, "preempt_disable", 5),  # it sleeps
        *interrupt(2010, 900, preemption_off=True),
        (3100, "other", 0),
        (3200, "preempt_enable", 8),
    ]
    cpu = follow(program, events)
    assert listed(cpu, "switch") == [(3200 - 2000 - 900, 5, 8)]
    assert cpu["switch"]["count"] == 2
    # From irq_exit() on, where the switch was due.
    assert (cpu["entry"]["longest"], cpu["entry"]["begin"], cpu["entry"]["end"]) == (1540 - 1500, "0xfs", "0x5s")
    assert cpu["way"] == 2000 - 1750 - (100 - 1)


def test_what_following_an_event_takes_is_known(program: Path) -> None:
    events: list[Event] = [
        (1000, "preempt_disable", 1),
        (1100, "slow", 30),
        (1200, "preempt_enable", 2),
        (1300, "slow", 20),
        (1400, "preempt_disable", 1),
    ]
    cpu = follow(program, events)
    assert cpu["tail"] == 30
    assert listed(cpu, "poid") == [(200, 1, 2)]


def test_a_voluntary_switch_is_no_way_into_the_scheduler(program: Path) -> None:
    events: list[Event] = [
        (1000, "preempt_disable", 1),
        (1010, "preempt_enable", 2),
        *switch(9000, "other"),
    ]
    assert follow(program, events)["entry"]["longest"] == 0


def test_a_switch_that_is_due_is_so_until_it_comes(program: Path) -> None:
    events: list[Event] = [
        (1000, "asked", 1),
        (1000, "preempt_disable", 1),
        (1010, "preempt_enable", 2),
        *interrupt(1500, 100),
        (2000, "preempt_disable", 3),
        (2010, "preempt_enable", 4),
        (3000, "preempt_disable", 5),
        (3100, "other", 0),
        (3100, "asked", 0),
        (3200, "preempt_enable", 8),
        *switch(9000, "measured"),
    ]
    assert follow(program, events)["entry"]["longest"] == 3000 - 1010


@pytest.mark.parametrize("thread", ["other", "kernel_thread"])
def test_others_have_no_way(program: Path, thread: str) -> None:
    assert follow(program, [*switch(1000, thread), *switch(2000, "other")])["way"] == 0


def test_a_thread_of_the_kernel_above_them_delays_as_an_interrupt_does(program: Path) -> None:
    cpu = follow(
        program,
        [*switch(1000, "kernel_thread"), *switch(3000, "other"), *switch(5000, "measured"), *switch(6000, "other")],
    )
    assert cpu["windows"]["16000"] == {"taken": 2000, "count": 1}
    assert cpu["interrupts"] == 0
    assert cpu["way"] == 6000 - 5200


def test_a_vector_without_a_handler_is_an_interrupt(program: Path) -> None:
    for handler in ("vector", ""):  # what comes to code that can be preempted shows by the preemption count
        assert follow(program, interrupt(1000, 400, handler=handler))["interrupts"] == 1
    outer: list[Event] = [(900, "preempt_disable", 1)]
    assert follow(program, [*outer, *interrupt(1000, 400, preemption_off=True, handler="vector")])["interrupts"] == 1


def test_a_handler_that_a_thread_calls_is_no_interrupt(program: Path) -> None:
    events: list[Event] = [(1000, "irq_disable", 1), (1100, "handler", 0), (1200, "irq_enable", 2)]
    cpu = follow(program, events)
    assert cpu["interrupts"] == 0
    assert listed(cpu, "poid") == [(200, 1, 2)]


def test_nmis_are_counted_and_change_nothing(program: Path) -> None:
    nmi: list[Event] = [(1100, "nmi", 1), (1110, "irq_enable", 7), (1120, "handler", 0), (1130, "nmi", 0)]
    events: list[Event] = [(1000, "irq_disable", 1), *nmi, (1150, "nmi_handler", 0), (1200, "irq_enable", 2)]
    cpu = follow(program, events)
    assert listed(cpu, "irqsoff") == [(200, 1, 2)]
    assert cpu["nmis"] == 3


def test_idle_time_is_in_no_section(program: Path) -> None:
    events: list[Event] = [
        (1000, "preempt_disable", 1),
        (1100, "irq_disable", 2),
        (1200, "idle", 1),
        (1210, "irq_enable", 3),  # as the kernel says before it waits
        (9000, "irq_disable", 4),
        (9010, "idle", AWAKE),
        (9050, "irq_enable", 5),
        (9100, "preempt_enable", 6),
    ]
    cpu = follow(program, events)
    assert [length for length, *_ in listed(cpu, "preemptoff")] == [200, 100]
    assert [length for length, *_ in listed(cpu, "irqsoff")] == [100, 50]


def test_waiting_that_lets_interrupts_in_goes_on_behind_them(program: Path) -> None:
    """As polling does, and what waits in 6.1: cpu_idle ends when a thread is to run."""
    begin: list[Event] = [(1000, "preempt_disable", 1), (1100, "idle_thread", 0), (1200, "idle", 1)]
    end: list[Event] = [(50_000, "idle", AWAKE), (50_100, "other", 0), (50_200, "preempt_enable", 2)]
    waking = interrupt(40_000, 500, preemption_off=True)
    waking.insert(3, (40_100, "asked", 1))
    cpu = follow(program, [*begin, *interrupt(5000, 300, preemption_off=True), *waking, *end])
    assert listed(cpu, "irqsoff") == [(500, 0xA, 0xB)]
    assert cpu["irqsoff"]["count"] == 2
    assert cpu["windows"]["16000"] == {"taken": 500, "count": 1}
    # The first interrupt began no section: it is all that ran. Behind the second one the thread is due.
    assert [length for length, *_ in listed(cpu, "preemptoff")] == [50_200 - 40_500, 200, 0]


def test_a_switch_that_is_due_again_is_so_from_the_last_one_on(program: Path) -> None:
    events: list[Event] = [
        (1000, "asked", 1),
        (1000, "preempt_disable", 1),
        (1010, "preempt_enable", 2),
        *switch(3000, "other"),
        *switch(3300, "measured"),
        *switch(8000, "other"),
    ]
    entry = follow(program, events)["entry"]
    assert (entry["longest"], entry["begin"]) == (8000 - 3500, "0x8s")


def test_idle_time_may_end_without_a_word_of_interrupts(program: Path) -> None:
    """As on arm64 with 6.12: interrupts are off behind `wfi`, as they were before it."""
    events: list[Event] = [
        (1000, "preempt_disable", 1),
        (1200, "idle", 1),
        (9000, "idle", AWAKE),
        (9300, "preempt_enable", 6),
    ]
    assert [length for length, *_ in listed(follow(program, events), "preemptoff")] == [300, 200]


def test_an_interrupt_of_idle_time_does_not_begin_before_it(program: Path) -> None:
    """As with 6.1, where a driver lets it in without an event: interrupts are off for the tracepoints all the time."""
    events: list[Event] = [
        (1000, "irq_disable", 1),
        (1200, "idle", 1),
        (9000, "hardirq", 1),
        (9010, "handler", 0),
        (9020, "hardirq", 0),
        (9030, "idle", AWAKE),
        (9100, "irq_enable", 2),
    ]
    assert follow(program, events)["windows"]["16000"]["taken"] == 9100 - 9030


def test_the_state_at_the_start_is_not_guessed(program: Path) -> None:
    """The idle thread has preemption off, which no event has said."""
    events: list[Event] = [
        *interrupt(1000, 300, preemption_off=True),
        (2000, "idle", 1),
        *interrupt(9000, 300, preemption_off=True),
        (9400, "idle", AWAKE),
        (9500, "preempt_enable", 2),
    ]
    cpu = follow(program, events)
    assert [length for length, *_ in listed(cpu, "irqsoff")] == [300]
    assert cpu["preemptoff"]["count"] == 0


def test_interrupts_before_idle_time_do_not_delay_what_comes_after_it(program: Path) -> None:
    idle: list[Event] = [(2000, "idle", 1), (2500, "idle", AWAKE)]
    windows = follow(program, [*interrupt(1000, 400), *idle, *interrupt(3000, 300)])["windows"]
    assert windows["16000"] == {"taken": 399, "count": 1}
    windows = follow(program, [*interrupt(1000, 400), *interrupt(3000, 300)])["windows"]
    assert windows["16000"] == {"taken": 399 + 299, "count": 2}


def test_more_sites_than_there_is_room_for_are_said(program: Path) -> None:
    events: list[Event] = []
    for number in range(3000):
        events += [(10 * number, "preempt_disable", number), (10 * number + 5, "preempt_enable", number)]
    cpu = follow(program, events)
    assert cpu["lost"] == 3 * 3000 - 8192
    assert len(cpu["poid"]["sites"]) == 16


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(5, 3000), st.integers(0, 5)), min_size=1, max_size=60))
def test_windows_have_the_most_that_interrupts_took(program: Path, gaps: list[tuple[int, int, int]]) -> None:
    """As the bound of `rtgate sections` takes it: of interrupts that began within a time without idle."""
    events: list[Event] = []
    passages, time, stretch = [], 100, 0
    for gap, length, way in gaps:
        start = time + gap + 10
        preemption_off = way % 2 == 1
        own = interrupt(start, length, preemption_off=preemption_off)
        off: list[Event] = [(start - 5, "preempt_disable", 1)]
        on: list[Event] = [(start + length + 5, "preempt_enable", 2)]
        events += [*off, *own, *on] if preemption_off else own
        passages.append((start, start + (length if preemption_off else length - 1), 0, 0, stretch))
        time = start + length + 10
        if way == 5:
            events += [(time, "idle", 1), (time + 5, "idle", AWAKE)]
            time, stretch = time + 5, stretch + 1
    cpu = follow(program, events)
    assert cpu["interrupts"] == len(passages)
    found = {int(length): window["taken"] for length, window in cpu["windows"].items()}
    assert found == {length: _most(np.array(passages, PASSAGE), length)[0] for length in found}


def test_a_window_ends_before_its_length(program: Path) -> None:
    for distance, count in ((15_999, 2), (16_000, 1)):
        windows = follow(program, [*interrupt(1000, 400), *interrupt(1000 + distance, 400)])["windows"]
        assert windows["16000"]["count"] == count


def test_more_interrupts_than_there_is_room_for_are_said(program: Path) -> None:
    many = [event for number in range(1100) for event in interrupt(1000 + 10 * number, 8)]
    assert follow(program, many)["lost"] > 0
    assert follow(program, many[: 1000 * 7])["lost"] == 0
