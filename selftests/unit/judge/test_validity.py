# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.judge.conftest import evidence, number, record

from rtgate.boards import CHECKS
from rtgate.judge.validity import Check, Held, Spoils, checks
from rtgate.measurement import Histogram
from rtgate.record import LoadSeen, Record, Thread
from rtgate.tools import Output, Setting
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
LOADED = "latency/cyclictest:hackbench"


def _check(name: str, measured: Record) -> Check:
    (found,) = (check for check in checks(measured, {}) if check.name == name)
    return found


def _failed(name: str, measured: Record) -> str:
    """Return the sentence of a check that must fail, alone."""
    failed = [check for check in checks(measured, {}) if check.held is not Held.OK]
    assert [check.name for check in failed] == [name]
    return failed[0].sentence


@pytest.mark.parametrize("case", ["latency/cyclictest:idle", LOADED])
def test_all_checks_of_a_good_record_hold(case: str) -> None:
    found = checks(record(case=case), {})
    assert tuple(check.name for check in found) == CHECKS
    assert {check.held for check in found} == {Held.OK}
    assert all(check.sentence for check in found)


@pytest.mark.parametrize("name", CHECKS)
def test_a_board_may_declare_a_check_not_applicable_and_says_why(name: str) -> None:
    broken = replace(
        evidence(
            record({30_000: 5}, case=LOADED),
            threads=(),
            load_seen=(),
            elapsed_s=None,
            changed=("printk was '1' and became '7'",),
        ),
        environment=replace(record().environment, flavour="generic"),
    )
    assert {check.held for check in checks(broken, {})} == {Held.FAILED}
    found = {check.name: check for check in checks(broken, {name: "the board cannot tell"})}
    assert found[name].held is Held.NOT_APPLICABLE
    assert found[name].sentence == "the board cannot tell"
    assert {check.held for check in found.values() if check.name != name} == {Held.FAILED}


def test_wrong_identity_spoils_everything_and_the_rest_only_good_news() -> None:
    spoils = {check.name: check.spoils for check in checks(record(), {})}
    assert [name for name in spoils if spoils[name] is Spoils.EVERYTHING] == ["flavour", "threads"]


@pytest.mark.parametrize(
    ("asked", "ran", "sentence"),
    [
        ("preempt_rt", "generic", "should be preempt_rt and is generic: uname -v says "),
        ("generic", "preempt_rt", "should be generic and is preempt_rt"),
        ("preempt_rt", "", "was not read, so its flavour is not proven"),
        ("", "preempt_rt", "nobody said which flavour the kernel should be"),
    ],
)
def test_flavour(asked: str, ran: str, sentence: str) -> None:
    good = record()
    changed = replace(
        good,
        kernel=replace(good.kernel, flavour=asked),
        environment=replace(good.environment, flavour=ran, kernel_version="#1 SMP PREEMPT"),
    )
    assert sentence in _failed("flavour", changed)


def _thread(moment: str, policy: int, priority: int) -> Thread:
    return Thread(moment=moment, name="cyclictest", policy=policy, priority=priority, processor=0)


@pytest.mark.parametrize(
    ("threads", "sentence"),
    [
        ((), "no thread of the tool was seen while it ran"),
        ((_thread("middle", 0, 0),), "0 of 1 measuring threads ran at SCHED_FIFO 99; seen: cyclictest SCHED_OTHER 0"),
        ((_thread("middle", 1, 98),), "seen: cyclictest SCHED_FIFO 98"),
        ((_thread("middle", 2, 99),), "seen: cyclictest SCHED_RR 99"),
        ((_thread("middle", 7, 99),), "seen: cyclictest 7 99"),
        ((_thread("middle", 1, 99), _thread("late", 0, 0)), "0 of 1 measuring threads"),
        ((_thread("middle", 0, 0), _thread("late", 1, 99)), "0 of 1 measuring threads"),
        ((_thread("middle", 1, 99), _thread("middle", 1, 99)), "2 of 1 measuring threads"),
        (tuple(_thread("late", 0, 0) for _ in range(11)), "and 3 more"),
    ],
)
def test_threads_with_another_policy_or_priority(threads: tuple[Thread, ...], sentence: str) -> None:
    assert sentence in _failed("threads", evidence(record(), threads=threads))


def test_the_tool_s_own_main_thread_does_not_disturb() -> None:
    threads = (_thread("middle", 0, 0), _thread("middle", 1, 99), _thread("late", 1, 99), _thread("late", 0, 0))
    held = _check("threads", evidence(record(), threads=threads))
    assert held.held is Held.OK
    assert held.sentence == "1 measuring threads at SCHED_FIFO 99, at 2 moments"


@pytest.mark.parametrize("lost", [0, 3, 5])
def test_a_few_wake_ups_may_be_lost_at_the_edges(lost: int) -> None:
    # 2000 are expected: 3 for start and end, and one in a thousand
    assert _check("cycles", record({30_000: 2000 - lost})).held is Held.OK


def test_unexplained_lost_wake_ups_are_invalid() -> None:
    sentence = _failed("cycles", record({30_000: 1994}))
    assert sentence == (
        "CPU 0: 1994 of 2000 wake-ups were measured, and the latencies explain only 0 of the 6 lost ones"
    )


@pytest.mark.parametrize(
    ("counts", "overflow", "maximum", "valid"),
    [
        ({30_000: 999}, 1, 1_000_000_000.0, True),  # one of a second skips 1000 periods of a millisecond
        ({30_000: 999}, 1, 990_000_000.0, False),
        ({30_000: 1000}, 500, 2_000_000.0, True),
        ({30_000: 1000}, 500, 1_999_999.0, True),  # each may have skipped one, which leaves none
        ({30_000: 1000}, 500, 999_999.0, False),  # none is longer than a period
        ({30_000: 900}, 500, 1_000_000.0, False),  # 600 are lost, 500 explained
        ({}, 2, 1_500_000_000.0, True),
    ],
)
def test_lost_wake_ups_that_the_maximum_explains_are_valid(
    counts: dict[int, int], overflow: int, maximum: float, *, valid: bool
) -> None:
    found = _check("cycles", record(counts, overflow=overflow, maximum=maximum))
    assert found.held is (Held.OK if valid else Held.FAILED)


def test_lost_wake_ups_that_the_histogram_itself_explains_are_valid() -> None:
    good = record()
    wide = Histogram(unit=Unit.VIRTUAL_NS, counts={30_000: 1000, 2_000_000: 500}, overflow=0, limit=5_000_000)
    measurements = tuple(replace(one, histogram=wide) if one.histogram else one for one in good.measurements)
    assert _check("cycles", replace(good, measurements=measurements)).held is Held.OK


def test_an_overflow_is_explained_by_the_maximum_of_its_own_cpu() -> None:
    one = record({30_000: 999}, overflow=1, maximum=1_000_000_000.0)
    other = tuple(replace(part, labels={"cpu": "1"}) for part in record({30_000: 999}, overflow=1).measurements)
    both = replace(one, measurements=one.measurements + other)
    found = _check("cycles", both)
    assert found.held is Held.FAILED
    assert found.sentence.startswith("CPU 1: ")


def test_an_overflow_without_any_maximum_explains_nothing() -> None:
    broken = record({30_000: 999}, overflow=1, maximum=1_000_000_000.0)
    measurements = tuple(one for one in broken.measurements if one.name != "latency.max")
    assert _check("cycles", replace(broken, measurements=measurements)).held is Held.FAILED


def test_a_real_run_on_a_busy_host_explains_the_half_that_it_lost() -> None:
    # 1001 of 2000 cycles, 250 over the range, a maximum of 77 ms
    setting = Setting(cpus=1, duration_s=2.0, virtual_time=False)
    data = (DATA / "2.10" / "cyclictest-host-idle.json").read_bytes()
    measured = Cyclictest().parse(Output(files={JSON: data}, exit_code=0, setting=setting))
    assert _check("cycles", replace(record(), measurements=measured)).held is Held.OK


def test_a_terminated_run_fails_by_its_cycles_and_by_its_duration() -> None:
    # Exit code, return_code and text of this capture say that all is well.
    data = (DATA / "2.4" / "cyclictest-sigterm.json").read_bytes()
    setting = Setting(cpus=1, duration_s=60.0, virtual_time=False)
    measured = Cyclictest(range_us=10_000).parse(Output(files={JSON: data}, exit_code=0, setting=setting))
    asked = {**record().evidence.asked, "duration_s": 60}
    stopped = evidence(replace(record(), measurements=measured), asked=asked, elapsed_s=3.05)
    failed = {check.name: check.sentence for check in checks(stopped, {}) if check.held is Held.FAILED}
    assert set(failed) == {"cycles", "duration"}
    assert "2994 of 60000 wake-ups were measured" in failed["cycles"]
    assert failed["duration"] == "the run took 3.05 s of the 60 s asked for"


def test_a_tool_without_a_period_is_not_asked_for_cycles() -> None:
    asked = {**record().evidence.asked, "interval_us": 0}
    assert _check("cycles", evidence(record({30_000: 2}), asked=asked)).held is Held.OK


def test_a_record_without_a_histogram() -> None:
    bare = replace(record(), measurements=(number("latency.max", 30_000, Unit.VIRTUAL_NS),))
    assert _failed("cycles", bare) == "no histogram was measured"


@pytest.mark.parametrize(
    ("elapsed", "sentence"),
    [
        (None, "the length of the run was not read"),
        (0.0, "the run took 0 s of the 2 s asked for"),
        (1.97, "the run took 1.97 s of the 2 s asked for"),
    ],
)
def test_a_short_run(elapsed: float | None, sentence: str) -> None:
    assert _failed("duration", evidence(record(), elapsed_s=elapsed)) == sentence


@pytest.mark.parametrize("elapsed", [1.98, 2.0, 9.0])
def test_a_run_that_took_as_long_as_it_should_or_longer(elapsed: float) -> None:
    assert _check("duration", evidence(record(), elapsed_s=elapsed)).held is Held.OK


def _load(**moments: tuple[int, int]) -> tuple[LoadSeen, ...]:
    return tuple(
        LoadSeen(moment=moment, processes=processes, ticks=ticks) for moment, (processes, ticks) in moments.items()
    )


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (_load(), "was not looked at (start, middle, end)"),
        (_load(start=(1, 0), end=(1, 9)), "was not looked at (middle)"),
        (_load(start=(1, 0), middle=(5, 50), late=(5, 90), end=(0, 90)), "had no process left (end of"),
        (_load(start=(1, 0), middle=(0, 50), late=(0, 50), end=(0, 50)), "had no process left (middle, late, end of"),
        (_load(start=(0, 0), middle=(1, 5), end=(1, 50)), "had no process left (start of"),
        (_load(start=(1, 5), middle=(1, 5), late=(1, 5), end=(1, 5)), "used no CPU time while the tool measured"),
        (_load(start=(1, 0), middle=(1, 50), late=(1, 50), end=(1, 50)), "used no CPU time while the tool measured"),
        (_load(start=(1, 40), middle=(1, 2), late=(1, 30), end=(1, 50)), "its CPU time went backwards"),
        (_load(start=(1, 0), middle=(1, 20), late=(1, 10), end=(1, 50)), "its CPU time went backwards"),
    ],
)
def test_a_load_that_was_not_there(seen: tuple[LoadSeen, ...], sentence: str) -> None:
    found = _failed("load", evidence(record(case=LOADED), load_seen=seen))
    assert found.startswith("the load hackbench ")
    assert sentence in found


def test_a_load_that_worked_is_told_with_its_time() -> None:
    seen = _load(start=(1, 11), middle=(7, 106), late=(3, 201), end=(1, 659))  # of a real boot
    found = _check("load", evidence(record(case=LOADED), load_seen=seen))
    assert (found.held, found.sentence) == (Held.OK, "hackbench ran all the time and used 648 clock ticks of CPU")


def test_an_idle_case_needs_no_load() -> None:
    assert _check("load", evidence(record(), load_seen=())).sentence == "no load was asked for"


def test_settings_that_changed() -> None:
    changed = ("clocksource was 'tsc' and became 'hpet'", "printk was '1' and became '7'")
    sentence = _failed("settings", evidence(record(), changed=changed))
    assert sentence == f"settings changed while measuring: {changed[0]}; {changed[1]}"
