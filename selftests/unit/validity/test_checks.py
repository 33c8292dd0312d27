# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.judge.conftest import asking, evidence, number, record
from selftests.unit.report.conftest import SETTINGS

from rtgate.board.boot import TimeBase
from rtgate.records.evidence import LoadSample, Thread
from rtgate.records.expectation import CountedFunction
from rtgate.records.record import Record
from rtgate.tools import Count, Output, Setting
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.tools.measurement import Histogram
from rtgate.tools.rt_migrate_test import RtMigrateTest
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Quantity, Unit
from rtgate.validity.check import Check, CheckResult, Invalidates
from rtgate.validity.cpus import lost_cpus
from rtgate.validity.registry import CHECKS, checks

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
LOADED = "latency/cyclictest:hackbench"
PRINTK = "/proc/sys/kernel/printk"
RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
QUIET = "1\t4\t1\t7"
NAMES = tuple(check.name for check in CHECKS)
# What a board's file has to ask for.
UNASKED = ["temperature", "firmware"]
ZONE = "/sys/class/thermal/thermal_zone0"


def _check(name: str, measured: Record) -> Check:
    (found,) = (check for check in checks(measured, {}) if check.name == name)
    return found


def _thread(moment: str, policy: int, priority: int, minor: int = 33, major: int = 0) -> Thread:
    return Thread(
        moment=moment,
        name="cyclictest",
        policy=policy,
        priority=priority,
        processor=0,
        minor_faults=minor,
        major_faults=major,
    )


def _failed(name: str, measured: Record) -> str:
    """Return the sentence of a check that must fail, alone."""
    found = checks(measured, {})
    failed = [check for check in found if check.result is CheckResult.FAILED]
    assert [check.name for check in failed] == [name]
    # Of threads that were not there nobody asks for page faults.
    spared = {"page-faults"} if name == "threads" else set()
    assert {check.name for check in found if check.result is CheckResult.NOT_APPLICABLE} <= {*UNASKED, *spared}
    return failed[0].sentence


@pytest.mark.parametrize("case", ["latency/cyclictest:idle", LOADED])
def test_all_checks_of_a_good_record_hold(case: str) -> None:
    found = checks(record(case=case), {})
    assert tuple(check.name for check in found) == NAMES
    assert [check.name for check in found if check.result is CheckResult.NOT_APPLICABLE] == UNASKED
    assert {check.result for check in found if check.name not in UNASKED} == {CheckResult.OK}
    assert all(check.sentence for check in found)


@pytest.mark.parametrize("name", NAMES)
def test_a_board_may_declare_a_check_not_applicable_and_says_why(name: str) -> None:
    asked = asking(
        record({30_000: 5}, case=LOADED),
        clock=True,
        counts=[Count(measurement="wakeups", least=2000)],
        threads=[Threads(count=2, policy=1, priority=99)],
        cpus=[1],
        steady="bandwidth",
        health="disk",
        counters=[CountedFunction(name="nvme", where="0000:01:00.0")],
        temperature_limit=85,
        firmware={"BL31": "v1"},
        command_line="isolcpus=1",
    )
    broken = replace(
        evidence(
            asked,
            threads=(_thread("middle", 1, 99), _thread("late", 1, 99, minor=34)),
            load_seen=(),
            elapsed_s=None,
            settings={PRINTK: (QUIET, "7\t4\t1\t7")},
            processes=(),
            log="",
            readings={f"{ZONE}/temp": ("45000", "86000")},
            suspends=None,
        ),
        environment=replace(record().environment, flavour="generic", kernel_release="5.10.0", online="0-7"),
    )
    assert {check.result for check in checks(broken, {})} == {CheckResult.FAILED}
    found = {check.name: check for check in checks(broken, {name: "the board cannot tell"})}
    assert found[name].result is CheckResult.NOT_APPLICABLE
    assert found[name].sentence == "the board cannot tell"
    assert {check.result for check in found.values() if check.name != name} == {CheckResult.FAILED}


def test_wrong_identity_spoils_everything_and_the_rest_only_good_news() -> None:
    spoils = {check.name: check.invalidates for check in checks(record(), {})}
    assert [name for name in spoils if spoils[name] is Invalidates.EVERYTHING] == [
        *("flavour", "kernel", "cpus", "threads", "affinity", "firmware", "health")
    ]


def test_a_kernel_of_another_release_is_not_the_one_that_is_judged() -> None:
    good = record()
    other = replace(good, environment=replace(good.environment, kernel_release="6.1.0-old"))
    assert f"the kernel to measure is {good.kernel.release}, and 6.1.0-old was running" in _failed("kernel", other)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("version", "the kernel to measure is version #2 SMP, and version #1 SMP was running"),
        ("build_id", "the kernel to measure is build id eeeeeeeeeeee, and build id 999999999999 was running"),
        (
            "config_sha256",
            "the kernel to measure is configuration aaaaaaaaaaaa, and configuration bbbbbbbbbbbb was running",
        ),
    ],
)
def test_a_kernel_of_equal_release_that_is_another_one_is_not_judged(what: str, told: str) -> None:
    """Two builds of one tree have one release: what the image and its configuration say tells them apart."""
    good = record()
    ran = replace(good.environment, kernel_version="#1 SMP", config_sha256="b" * 64, build_id="9" * 40)
    others = {"version": "#2 SMP", "config_sha256": "a" * 64, "build_id": "e" * 40}
    named = replace(good.kernel, **{what: others[what]})
    assert told in _failed("kernel", replace(good, environment=ran, kernel=named))
    same = replace(good.kernel, version="#1 SMP", config_sha256="b" * 64, build_id="9" * 40)
    held = {check.name: check.result for check in checks(replace(good, environment=ran, kernel=same), {})}
    assert held["kernel"] is CheckResult.OK


@pytest.mark.parametrize("online", ["", "0-3", "0,2", "junk"])
def test_cpus_that_are_not_the_board_s(online: str) -> None:
    good = record()
    changed = replace(good, environment=replace(good.environment, online=online))
    assert _failed("cpus", changed)
    assert not lost_cpus(changed)


def test_a_lost_cpu_is_told_from_one_too_many() -> None:
    good = record()
    two = replace(good, environment=replace(good.environment, cpus="2", online="0"))
    assert lost_cpus(two)
    assert _failed("cpus", two) == "CPUs 0 were online, and the board has 2"


@pytest.mark.parametrize(("log", "sentence"), [("", "was not read"), ("late", "has lost its beginning")])
def test_a_kernel_log_without_its_lines(log: str, sentence: str) -> None:
    assert sentence in _failed("log", evidence(record(), log=log))


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


@pytest.mark.parametrize(
    ("threads", "sentence"),
    [
        ((), "no thread of the tool was seen in the middle of its run"),
        ((_thread("late", 1, 99),), "no thread of the tool was seen in the middle of its run"),
        ((_thread("start", 1, 99), _thread("late", 1, 99)), "no thread of the tool was seen in the middle of its run"),
        ((_thread("middle", 0, 0),), "0 of 1 measuring threads ran at SCHED_FIFO 99; seen: cyclictest SCHED_OTHER 0"),
        ((_thread("middle", 1, 98),), "seen: cyclictest SCHED_FIFO 98"),
        ((_thread("middle", 2, 99),), "seen: cyclictest SCHED_RR 99"),
        ((_thread("middle", 7, 99),), "seen: cyclictest 7 99"),
        (
            (_thread("middle", 1, 99), _thread("late", 0, 0), _thread("late", 0, 0)),
            "0 of 1 measuring threads ran at SCHED_FIFO 99; seen: cyclictest SCHED_OTHER 0, cyclictest SCHED_OTHER 0",
        ),
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
    assert held.result is CheckResult.OK
    assert held.sentence == "1 measuring threads at SCHED_FIFO 99, at 2 moments"


_ALL_LATE = (_thread("late", 1, 99), _thread("late", 0, 0))


@pytest.mark.parametrize(
    ("time", "threads", "held"),
    [
        ("host", (_thread("middle", 0, 0), *_ALL_LATE), CheckResult.OK),
        ("real", (_thread("middle", 0, 0), *_ALL_LATE), CheckResult.FAILED),
        ("virtual", (_thread("middle", 0, 0), *_ALL_LATE), CheckResult.FAILED),
        # Not all are there late, or they are not as asked: then nobody has seen them right.
        ("host", (_thread("middle", 0, 0), _ALL_LATE[0]), CheckResult.FAILED),
        ("host", (_thread("middle", 0, 0), _thread("late", 0, 0), _thread("late", 0, 0)), CheckResult.FAILED),
        ("host", (_thread("middle", 1, 98), _thread("late", 1, 98), _thread("late", 0, 0)), CheckResult.FAILED),
        # There never are too many.
        ("host", (_thread("middle", 1, 99), _thread("middle", 1, 99), *_ALL_LATE), CheckResult.FAILED),
    ],
)
def test_a_busy_host_may_let_threads_start_late(time: str, threads: tuple[Thread, ...], held: CheckResult) -> None:
    good = record()
    changed = replace(good, environment=replace(good.environment, time=TimeBase(time)))
    assert _check("threads", evidence(changed, threads=threads)).result is held


# --- where the threads ran


def _on(*processors: int) -> tuple[Thread, ...]:
    return tuple(replace(_thread("middle", 1, 99), processor=processor) for processor in processors)


def _bound(threads: tuple[Thread, ...], cpus: list[int]) -> Record:
    there = [thread for thread in threads if thread.priority == 99 and thread.moment == "middle"]
    group = Threads(count=len(there), policy=1, priority=99)
    return evidence(asking(record(), threads=[group], cpus=cpus), threads=threads)


def test_measuring_threads_on_the_cpus_that_they_were_given() -> None:
    found = _check("affinity", _bound(_on(2, 3), [2, 3]))
    assert (found.result, found.sentence) == (CheckResult.OK, "on CPU 2, 3")
    main = replace(_thread("middle", 0, 0), processor=0)
    assert _check("affinity", _bound((*_on(2, 3), main), [2, 3])).result is CheckResult.OK


def test_measuring_threads_on_other_cpus() -> None:
    assert _failed("affinity", _bound((*_on(0, 2, 1), *_later(0, 2, 1)), [2, 3])) == (
        "measuring threads ran on CPU 0, 1, not only on 2, 3"
    )


def _apart(processors: int, *threads: Thread, time: str = "virtual") -> Record:
    group = Threads(count=3, policy=1, priority=99)
    made = asking(record(), threads=[group], cpus=[], processors=processors)
    return evidence(replace(made, environment=replace(made.environment, time=TimeBase(time))), threads=threads)


def _later(*processors: int) -> tuple[Thread, ...]:
    return tuple(replace(thread, moment="late") for thread in _on(*processors))


def test_threads_that_are_bound_to_a_cpu_each_and_are_on_one() -> None:
    assert _failed("affinity", _apart(3, *_on(0, 0, 0), *_later(0, 0, 0))) == (
        "3 threads, bound to 3 CPUs, were all on CPU 0 (middle in the run)"
    )
    assert _failed("affinity", _apart(3, *_on(0, 1, 2), *_later(0, 1, 1))) == (
        "3 threads, bound to 3 CPUs, were all on CPU 0, 1 (late in the run)"
    )


@pytest.mark.parametrize(
    ("processors", "threads", "time"),
    [
        (3, _on(0, 1, 2), "virtual"),
        (
            3,
            (*_on(5, 6, 7), replace(_thread("middle", 0, 0), processor=5)),
            "real",
        ),  # the main thread is no other's
        (2, _on(0, 1, 0), "real"),  # more threads than CPUs
        (0, _on(0, 0, 0), "virtual"),  # free to move
        (3, (*_on(0, 0), *_later(1)), "real"),  # not all were seen
        (3, (*_on(0, 0, 0), *_later(0, 1, 2)), "host"),  # its busy host was late
    ],
)
def test_threads_that_are_where_they_should_be(processors: int, threads: tuple[Thread, ...], time: str) -> None:
    assert _check("affinity", _apart(processors, *threads, time=TimeBase(time))).result is CheckResult.OK


def test_a_busy_host_excuses_no_crowd_at_the_end() -> None:
    assert _failed("affinity", _apart(3, *_on(0, 1, 2), *_later(0, 0, 0), time="host"))


def test_records_that_are_older_than_the_count_of_processors_are_judged_as_before() -> None:
    made = _bound(_on(0, 0), [])
    assert made.evidence.expectation.processors < 2
    assert _check("affinity", made).result is CheckResult.OK


def test_without_a_tuning_threads_may_run_anywhere() -> None:
    found = _check("affinity", _bound(_on(0, 7), []))
    assert (found.result, found.sentence) == (CheckResult.OK, "on all CPUs")


MIXED = [
    Threads(count=2, policy=1, priority=80),
    Threads(count=1, policy=6, priority=0),
]
RIGHT = (_thread("middle", 1, 80), _thread("middle", 1, 80), _thread("middle", 6, 0))


@pytest.mark.parametrize("seen", ThreadScope)
def test_every_group_of_threads_must_be_there(seen: ThreadScope) -> None:
    made = evidence(asking(record(), threads=MIXED, seen=seen), threads=RIGHT)
    found = _check("threads", made)
    assert found.result is CheckResult.OK
    assert found.sentence == (
        "2 measuring threads at SCHED_FIFO 80, 1 measuring threads at SCHED_DEADLINE, at 1 moments"
    )


@pytest.mark.parametrize("seen", ThreadScope)
@pytest.mark.parametrize(
    ("threads", "sentence"),
    [
        (RIGHT[:2], "0 of 1 measuring threads ran at SCHED_DEADLINE; seen: cyclictest SCHED_FIFO 80, "),
        (RIGHT[1:], "1 of 2 measuring threads ran at SCHED_FIFO 80; seen: cyclictest SCHED_FIFO 80, "),
        ((*RIGHT[1:], _thread("middle", 1, 79)), "1 of 2 measuring threads ran at SCHED_FIFO 80"),
        ((*RIGHT[1:], _thread("late", 1, 80)), "measuring threads ran at SCHED_FIFO 80"),  # not at one moment
        (
            (*RIGHT, *(replace(one, moment="late") for one in (*RIGHT[:2], *RIGHT[:2]))),
            "0 of 1 measuring threads ran at SCHED_DEADLINE",
        ),
        ((*RIGHT, *(replace(one, moment="end") for one in RIGHT[1:])), "1 of 2 measuring threads ran at SCHED_FIFO"),
    ],
)
def test_a_group_that_is_incomplete_at_any_moment(
    seen: ThreadScope, threads: tuple[Thread, ...], sentence: str
) -> None:
    assert sentence in _failed("threads", evidence(asking(record(), threads=MIXED, seen=seen), threads=threads))


@pytest.mark.parametrize("late", [RIGHT[:2], RIGHT[2:], (_thread("late", 0, 0),)])
@pytest.mark.parametrize("seen", ThreadScope)
def test_threads_may_have_ended_when_a_busy_target_looks_late(seen: ThreadScope, late: tuple[Thread, ...]) -> None:
    threads = (*RIGHT, *(replace(one, moment="late") for one in late))
    assert (
        _check("threads", evidence(asking(record(), threads=MIXED, seen=seen), threads=threads)).result
        is CheckResult.OK
    )


def test_what_remains_of_the_own_process_late_may_be_its_main_thread() -> None:
    # Three threads are as many as are needed, but one of them is the main thread.
    late = (*RIGHT[:2], _thread("late", 0, 0))
    threads = (*RIGHT, *(replace(one, moment="late") for one in late))
    own = evidence(asking(record(), threads=MIXED, seen=ThreadScope.OWN), threads=threads)
    assert _check("threads", own).result is CheckResult.OK
    session = evidence(asking(record(), threads=MIXED, seen=ThreadScope.SESSION), threads=threads)
    assert "0 of 1 measuring threads ran at SCHED_DEADLINE" in _failed("threads", session)


def test_only_a_tool_s_own_process_must_have_no_more_threads_of_the_group() -> None:
    more = (*RIGHT, _thread("middle", 1, 80))
    own = evidence(asking(record(), threads=MIXED, seen=ThreadScope.OWN), threads=more)
    assert "3 of 2 measuring threads ran at SCHED_FIFO 80" in _failed("threads", own)
    for seen in (ThreadScope.SESSION, ThreadScope.SYSTEM):
        helped = evidence(asking(record(), threads=MIXED, seen=seen), threads=more)
        assert _check("threads", helped).result is CheckResult.OK


@pytest.mark.parametrize("threads", [(), (_thread("middle", 1, 99), _thread("late", 0, 0))])
def test_a_tool_without_real_time_threads_is_not_asked_for_any(threads: tuple[Thread, ...]) -> None:
    found = _check("threads", evidence(asking(record(), threads=[]), threads=threads))
    assert (found.result, found.sentence) == (CheckResult.OK, "the tool has no real-time thread of its own")


@pytest.mark.parametrize("lost", [0, 3, 5])
def test_a_few_wake_ups_may_be_lost_at_the_edges(lost: int) -> None:
    # 2000 are expected: 3 for start and end, and one in a thousand
    assert _check("cycles", record({30_000: 2000 - lost})).result is CheckResult.OK


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
    assert found.result is (CheckResult.OK if valid else CheckResult.FAILED)


def test_lost_wake_ups_that_the_histogram_itself_explains_are_valid() -> None:
    good = record()
    wide = Histogram(unit=Unit.VIRTUAL_NS, counts={30_000: 1000, 2_000_000: 500}, overflow=0, limit=5_000_000)
    measurements = tuple(replace(one, histogram=wide) if one.histogram else one for one in good.measurements)
    assert _check("cycles", replace(good, measurements=measurements)).result is CheckResult.OK


def test_an_overflow_is_explained_by_the_maximum_of_its_own_cpu() -> None:
    one = record({30_000: 999}, overflow=1, maximum=1_000_000_000.0)
    other = tuple(replace(part, labels={"cpu": "1"}) for part in record({30_000: 999}, overflow=1).measurements)
    both = replace(one, measurements=one.measurements + other)
    found = _check("cycles", both)
    assert found.result is CheckResult.FAILED
    assert found.sentence.startswith("CPU 1: ")


def test_an_overflow_without_any_maximum_explains_nothing() -> None:
    broken = record({30_000: 999}, overflow=1, maximum=1_000_000_000.0)
    measurements = tuple(one for one in broken.measurements if one.name != "latency.max")
    assert _check("cycles", replace(broken, measurements=measurements)).result is CheckResult.FAILED


def test_a_maximum_that_is_not_a_time_explains_nothing_and_is_an_error() -> None:
    broken = record({30_000: 999}, overflow=1, maximum=1_000_000_000.0)
    measurements = tuple(
        replace(one, quantity=Quantity(1e9, Unit.COUNT)) if one.name == "latency.max" else one
        for one in broken.measurements
    )
    failed = {
        check.name: check.sentence
        for check in checks(replace(broken, measurements=measurements), {})
        if check.result is CheckResult.FAILED
    }
    assert set(failed) == {"cycles", "figures"}
    assert failed["figures"] == ("record.json says latency.max CPU 0 1000000000 count, its histogram is in virtual ns")


def test_a_real_run_on_a_busy_host_explains_the_half_that_it_lost() -> None:
    # 1001 of 2000 cycles, 250 over the range, a maximum of 77 ms
    setting = Setting(cpus=1, duration_s=2.0, virtual_time=False)
    data = (DATA / "2.10" / "cyclictest-host-idle.json").read_bytes()
    measured = Cyclictest().parse(Output(files={JSON: data}, exit_code=0, setting=setting))
    assert _check("cycles", replace(record(), measurements=measured)).result is CheckResult.OK


def test_a_terminated_run_fails_by_its_cycles_and_by_its_duration() -> None:
    # Exit code, return_code and text of this capture say that all is well.
    data = (DATA / "2.4" / "cyclictest-sigterm.json").read_bytes()
    setting = Setting(cpus=1, duration_s=60.0, virtual_time=False)
    measured = Cyclictest(range_us=10_000).parse(Output(files={JSON: data}, exit_code=0, setting=setting))
    stopped = evidence(asking(replace(record(), measurements=measured), duration_s=60), elapsed_s=3.05)
    failed = {check.name: check.sentence for check in checks(stopped, {}) if check.result is CheckResult.FAILED}
    # Its cycles are more than its buckets hold, and its maximum is within their range.
    assert set(failed) == {"cycles", "duration", "figures"}
    assert "2994 of 60000 wake-ups were measured" in failed["cycles"]
    assert failed["duration"] == "the run took 3.05 s of the 60 s asked for"


def test_a_tool_without_a_period_is_not_asked_for_cycles() -> None:
    found = _check("cycles", asking(record({30_000: 2}), interval_us=0))
    assert (found.result, found.sentence) == (CheckResult.OK, "the tool has no period to account for")
    bare = replace(record(), measurements=(number("latency.max", 30_000, Unit.VIRTUAL_NS),))
    assert _check("cycles", asking(bare, interval_us=0)).result is CheckResult.OK


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
    assert _check("duration", evidence(record(), elapsed_s=elapsed)).result is CheckResult.OK


def _load(**moments: tuple[int, int]) -> tuple[LoadSample, ...]:
    return tuple(
        LoadSample(moment=moment, processes=processes, ticks=ticks) for moment, (processes, ticks) in moments.items()
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
        (_load(start=(1, 0), middle=(1, 50), late=(1, 40), end=(1, 30)), "used no CPU time while the tool measured"),
    ],
)
def test_a_load_that_was_not_there(seen: tuple[LoadSample, ...], sentence: str) -> None:
    found = _failed("load", evidence(record(case=LOADED), load_seen=seen))
    assert found.startswith("the load hackbench ")
    assert sentence in found


@pytest.mark.parametrize(
    "seen",
    [
        _load(start=(5, 0), middle=(5, 400), late=(5, 900), end=(5, 700)),
        _load(start=(5, 0), middle=(5, 400), late=(5, 300), end=(5, 900)),
        _load(start=(5, 40), middle=(5, 2), late=(5, 300), end=(5, 900)),
    ],
)
def test_time_of_processes_that_end_while_they_are_looked_at_may_be_missing(seen: tuple[LoadSample, ...]) -> None:
    assert _check("load", evidence(record(case=LOADED), load_seen=seen)).result is CheckResult.OK


def test_a_load_that_worked_is_told_with_its_time() -> None:
    seen = _load(start=(1, 11), middle=(7, 106), late=(3, 201), end=(1, 659))  # of a real boot
    found = _check("load", evidence(record(case=LOADED), load_seen=seen))
    assert (found.result, found.sentence) == (
        CheckResult.OK,
        "hackbench ran all the time and used 648 clock ticks of CPU",
    )


def test_an_idle_case_needs_no_load() -> None:
    assert _check("load", evidence(record(), load_seen=())).sentence == "no load was asked for"


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (_load(start=(1, 0), middle=(4, 20), late=(4, 30), end=(4, 50)), ""),
        (_load(start=(1, 0), middle=(9, 20), late=(5, 30), end=(4, 50)), ""),
        (_load(start=(1, 0), middle=(3, 20), late=(4, 30), end=(4, 50)), "had 3 processes of the 4 that it has"),
        (_load(start=(1, 0), middle=(4, 20), late=(2, 30), end=(4, 50)), "had 2 processes of the 4 that it has"),
        (_load(start=(1, 0), middle=(4, 20), late=(4, 30), end=(1, 50)), "had 1 processes of the 4 that it has"),
    ],
)
def test_a_load_of_which_a_part_died(seen: tuple[LoadSample, ...], sentence: str) -> None:
    made = evidence(record(case=LOADED), load_seen=seen, load_processes=4)
    if sentence:
        assert _failed("load", made) == f"the load hackbench {sentence} when all of it runs"
    else:
        assert _check("load", made).result is CheckResult.OK


# --- what the tool counted


@pytest.mark.parametrize(
    ("least", "held"),
    [
        (0, CheckResult.OK),
        (1999.5, CheckResult.OK),
        (2000, CheckResult.OK),
        (2000.5, CheckResult.FAILED),
        (9000, CheckResult.FAILED),
    ],
)
def test_counts_must_be_reached(least: float, held: CheckResult) -> None:
    made = asking(record(), counts=[Count(measurement="wakeups", least=least)])
    found = _check("counts", made)
    assert found.result is held
    if held is CheckResult.FAILED:
        assert _failed("counts", made) == f"wakeups was 2000, at least {least:g} are needed"
    else:
        assert found.sentence == f"wakeups at least {least:g}"


@pytest.mark.parametrize("found", [1.0, 0.0, None])
@pytest.mark.parametrize("check", ["counts", "duration", "cycles"])
def test_a_short_run_is_no_whole_one_whatever_ended_it(check: str, found: float | None) -> None:
    """Nobody learns from its figures. That a failure explains it is for judging: `judge.short_runs`."""
    short = asking(record(), counts=[Count(measurement="wakeups", least=9000)], duration_s=9000.0, ends_with="late")
    told = () if found is None else (number("late", found, Unit.COUNT),)
    assert _check(check, replace(short, measurements=(*short.measurements, *told))).result is CheckResult.FAILED


def test_the_lowest_of_several_counts_decides() -> None:
    made = record()
    both = replace(made, measurements=(*made.measurements, number("wakeups", 30, Unit.COUNT, cpu=1)))
    counts = [Count(measurement="wakeups", least=31)]
    assert _failed("counts", asking(both, counts=counts)) == "wakeups was 30, at least 31 are needed"


@pytest.mark.parametrize("first", [True, False])
def test_every_count_is_asked_for(*, first: bool) -> None:
    counts = [Count(measurement="wakeups", least=2000), Count(measurement="samples", least=1)]
    made = asking(record(), counts=counts if first else counts[::-1])
    assert _failed("counts", made) == "samples was not measured, at least 1 are needed"


def test_a_histogram_is_no_count() -> None:
    made = asking(record(), counts=[Count(measurement="latency", least=1)])
    assert _failed("counts", made) == "latency was not measured, at least 1 are needed"


def test_a_tool_that_counts_nothing() -> None:
    assert _check("counts", asking(record(), counts=[])).sentence == "the tool has nothing to count"


# --- the wall clock

KEEPERS = (
    "chronyd",
    "connmand",
    "htpdate",
    "ntpd",
    "ntpsec",
    "openntpd",
    "phc2sys",
    "ptp4l",
    "systemd-timesyn",
    "timemaster",
)


@pytest.mark.parametrize("name", KEEPERS)
def test_a_tool_that_measures_with_the_wall_clock_is_alone_with_it(name: str) -> None:
    made = evidence(asking(record(), clock=True), processes=("init", name, "sh"))
    assert _failed("clock", made) == (
        f"the tool measures with the wall clock, and {name} may have set it: stop it on the target"
    )


def test_all_that_may_have_set_the_clock_are_named() -> None:
    made = evidence(asking(record(), clock=True), processes=("ptp4l", "init", "chronyd", "phc2sys"))
    assert "chronyd, phc2sys, ptp4l may have set it" in _failed("clock", made)


def test_processes_that_were_not_read_prove_no_clock() -> None:
    made = evidence(asking(record(), clock=True), processes=())
    assert _failed("clock", made) == ("the target's processes were not read, so nobody knows whether its clock was set")


@pytest.mark.parametrize("processes", [("init", "sh"), ("systemd-timedat", "ntpdate-like", "xchronyd", "cyclictest")])
def test_a_clock_that_nobody_set(processes: tuple[str, ...]) -> None:
    found = _check("clock", evidence(asking(record(), clock=True), processes=processes))
    assert (found.result, found.sentence) == (CheckResult.OK, "no time synchronisation was running")


@pytest.mark.parametrize("processes", [(), ("chronyd",)])
def test_a_tool_that_does_not_use_the_wall_clock_does_not_care(processes: tuple[str, ...]) -> None:
    found = _check("clock", evidence(asking(record(), clock=False), processes=processes))
    assert (found.result, found.sentence) == (CheckResult.OK, "the tool does not measure with the wall clock")


# --- settings


def _with(**pairs: tuple[str, str]) -> Record:
    paths = {"printk": PRINTK, "runtime": RUNTIME, "clock": CLOCK}
    return evidence(record(), settings={**SETTINGS, **{paths[name]: pair for name, pair in pairs.items()}})


def test_a_log_level_without_a_word_is_not_a_quiet_one() -> None:
    sentence = _failed("settings", _with(printk=(" ", " ")))
    assert sentence == "the console's log level was not told, so kernel messages could disturb"


def test_settings_that_changed() -> None:
    sentence = _failed("settings", _with(clock=("tsc", "hpet"), printk=("1", "7")))
    assert sentence == f"{PRINTK} was '1' and became '7'; {CLOCK} was 'tsc' and became 'hpet'"


@pytest.mark.parametrize("path", SETTINGS)
@pytest.mark.parametrize("pair", [("", ""), ("", "1"), ("1", "")], ids=["never", "only after", "only before"])
def test_settings_that_were_not_read(path: str, pair: tuple[str, str]) -> None:
    made = evidence(record(), settings={**SETTINGS, path: pair})
    assert _failed("settings", made) == f"{path} was not read"


@pytest.mark.parametrize("level", ["0", "2", "4", "7", "10"])
def test_kernel_messages_that_could_disturb(level: str) -> None:
    loud = f"{level}\t4\t1\t7"
    sentence = _failed("settings", _with(printk=(loud, loud)))
    assert sentence == f"the console's log level was {level}, so kernel messages could disturb"


TIMER = "/proc/sys/kernel/timer_migration"
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
GOVERNORS = GOVERNOR.format("*")
CHOICE = "/sys/kernel/mm/transparent_hugepage/enabled"


def _written(writes: dict[str, str], settings: dict[str, str]) -> Record:
    same = {path: (value, value) for path, value in settings.items()}
    return evidence(record(), settings={**SETTINGS, **same}, writes=writes)


@pytest.mark.parametrize(
    ("writes", "settings"),
    [
        ({TIMER: "0"}, {TIMER: "0"}),
        ({CHOICE: r"\[never\]"}, {CHOICE: "always madvise [never]"}),
        ({GOVERNORS: "performance"}, {GOVERNOR.format(cpu): "performance" for cpu in (0, 1, 10)}),
        ({GOVERNORS: "performance", TIMER: "0"}, {GOVERNOR.format(0): "performance", TIMER: "0"}),
        ({"/sys/kernel/[mn]m/*/enabled": r"\[never\]"}, {CHOICE: "always madvise [never]"}),
    ],
    ids=["a value", "a choice", "a pattern", "two", "brackets"],
)
def test_writes_that_read_back(writes: dict[str, str], settings: dict[str, str]) -> None:
    found = _check("settings", _written(writes, settings))
    assert (found.result, found.sentence) == (CheckResult.OK, "as asked, and unchanged")


@pytest.mark.parametrize(
    ("writes", "settings", "sentence"),
    [
        ({TIMER: "0"}, {TIMER: "1"}, f"{TIMER} should be 0 and is '1'"),
        ({TIMER: "0"}, {}, f"{TIMER} should be 0 and is 'not there'"),
        (
            {CHOICE: r"\[never\]"},
            {CHOICE: "always [madvise] never"},
            rf"{CHOICE} should be \[never\] and is 'always [madvise] never'",
        ),
        (
            {GOVERNORS: "performance"},
            {GOVERNOR.format(0): "performance", GOVERNOR.format(1): "powersave"},
            f"{GOVERNORS} should be performance and is 'powersave'",
        ),
        ({GOVERNORS: "performance"}, {TIMER: "performance"}, f"{GOVERNORS} should be performance and is 'not there'"),
    ],
    ids=["another value", "no such file", "another choice", "one of a pattern", "none of a pattern"],
)
def test_writes_that_do_not_read_back(writes: dict[str, str], settings: dict[str, str], sentence: str) -> None:
    assert _failed("settings", _written(writes, settings)) == sentence


def test_kernel_arguments_that_the_boot_did_not_have() -> None:
    asked = asking(record(), command_line="isolcpus=2-3 nokaslr nohz_full=2-3")
    # The board's own arguments may isolate them as well.
    asked = replace(asked, environment=replace(asked.environment, isolated="2-3", nohz_full="1-3"))
    assert _failed("settings", asked) == (
        "the kernel was not started with isolcpus=2-3; the kernel was not started with nohz_full=2-3"
    )
    started = replace(record().environment, command_line="nohz_full=2-3 x isolcpus=2-3 nokaslr")
    assert _check("settings", replace(asked, environment=started)).result is CheckResult.OK


KERNEL_THREADS = (
    Thread(moment="end", name="irq/9-eth0", policy=1, priority=90, processor=0),
    Thread(moment="end", name="irq/11-mmc", policy=1, priority=90, processor=1),
    Thread(moment="end", name="ksoftirqd/0", policy=0, priority=0, processor=0),
)


@pytest.mark.parametrize(
    ("priorities", "sentence"),
    [
        ({"irq/": 90}, ""),
        ({"irq/9-": 90, "irq/11-": 90}, ""),
        ({"irq/": 80}, "irq/9-eth0, irq/11-mmc should run at SCHED_FIFO 80"),
        ({"irq/": 90, "ksoftirqd": 1}, "ksoftirqd/0 should run at SCHED_FIFO 1"),
        ({"rcuc/": 3}, "no thread rcuc/ should run at SCHED_FIFO 3"),
        ({"rq/": 90}, "no thread rq/ should run at SCHED_FIFO 90"),
    ],
)
def test_priorities_of_the_kernel_s_threads(priorities: dict[str, int], sentence: str) -> None:
    made = evidence(asking(record(), priorities=priorities), kernel_threads=KERNEL_THREADS)
    if sentence:
        assert _failed("settings", made) == sentence
    else:
        assert _check("settings", made).result is CheckResult.OK


def test_a_kernel_thread_of_another_policy_has_not_the_priority() -> None:
    round_robin = tuple(replace(thread, policy=2) for thread in KERNEL_THREADS)
    made = evidence(asking(record(), priorities={"irq/9": 90}), kernel_threads=round_robin)
    assert _failed("settings", made) == "irq/9-eth0 should run at SCHED_FIFO 90"


def test_a_write_that_did_not_last() -> None:
    made = evidence(record(), settings={**SETTINGS, TIMER: ("0", "1")}, writes={TIMER: "0"})
    assert _failed("settings", made) == (f"{TIMER} was '0' and became '1'; {TIMER} should be 0 and is '1'")


# --- disks


def _rounds(*values: float, measured: float | None = 100.0) -> Record:
    """Return the record of a tool that measured `bandwidth` after rounds."""
    made = asking(record(), steady="bandwidth")
    unit = Unit.VIRTUAL_MB_S
    rounds = [
        replace(number("round.bandwidth", value, unit), labels={"round": f"{place:02d}"})
        for place, value in enumerate(values)
    ]
    whole = [] if measured is None else [number("bandwidth", measured, unit)]
    # A record does not keep an order of measurements.
    return replace(made, measurements=(*made.measurements, *reversed(rounds), *whole))


@pytest.mark.parametrize(("numbered", "sentence"), [(0, "6 of 6"), (5, "6 of 11")])
def test_steady_rounds_without_their_number_are_not_proven(numbered: int, sentence: str) -> None:
    """Which of them were the last five is not known."""
    rounds = [number("round.bandwidth", 100, Unit.VIRTUAL_MB_S) for _ in range(6)]
    made = _rounds(*[100.0] * numbered)
    assert _failed("steady", replace(made, measurements=(*made.measurements, *rounds))) == (
        f"{sentence} rounds have no label `round`: their order is not known"
    )


def test_rounds_that_became_steady_are_valid() -> None:
    assert _check("steady", _rounds(300, 200, 100, 102, 98, 100, 101)).result is CheckResult.OK


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (_rounds(100, 100, 100, 100, 150), "apart, more than 20%"),
        (_rounds(100, 100, 100, 100, 100, measured=50), "lies 50% away"),
        (_rounds(), "0 rounds were measured"),
        (_rounds(100, 100, 100, 100, 100, measured=None), "bandwidth was not measured"),
    ],
)
def test_rounds_that_did_not_are_not_the_kernel_s_fault(made: Record, reason: str) -> None:
    assert reason in _failed("steady", made)
    assert _check("steady", made).invalidates is Invalidates.FIGURES


def _healthy(warning: float | None = 0, errors: float | None = 0) -> Record:
    made = asking(record(), health="fio-write.disk")
    values = (("critical_warning", warning), ("media_errors", errors))
    found = [number(f"fio-write.disk.{name}", value, Unit.COUNT) for name, value in values if value is not None]
    return replace(made, measurements=(*made.measurements, *found))


def test_a_disk_without_warnings_and_new_errors_is_healthy() -> None:
    assert _check("health", _healthy()).result is CheckResult.OK


@pytest.mark.parametrize(
    ("made", "reason", "spoils"),
    [
        (_healthy(warning=2), "the disk warns: its temperature is beyond its limit", Invalidates.EVERYTHING),
        (_healthy(warning=9), "its spare blocks are used up, it is read-only", Invalidates.EVERYTHING),
        (_healthy(warning=64), "the disk warns: code 64", Invalidates.EVERYTHING),
        (_healthy(errors=3), "the disk counted 3 new media errors", Invalidates.EVERYTHING),
        (_healthy(warning=None), "the disk's health was not read before and after", Invalidates.GOOD_NEWS),
        (_healthy(errors=None), "the disk's health was not read before and after", Invalidates.GOOD_NEWS),
    ],
)
def test_a_disk_that_is_not_well_is_no_measure_of_a_kernel(made: Record, reason: str, spoils: Invalidates) -> None:
    assert reason in _failed("health", made)
    assert _check("health", made).invalidates is spoils


AER = "/sys/bus/pci/devices/0000:01:00.0/aer_dev_"


def test_error_counters_that_should_be_there_must_be_read_before_and_after() -> None:
    counters = [CountedFunction(name="nvme", where="0000:01:00.0")]
    read = {f"{AER}{kind}": ("TOTAL 0", "TOTAL 0") for kind in ("correctable", "nonfatal", "fatal")}
    asked = asking(record(), counters=counters)
    assert _check("aer", evidence(asked, readings=read)).result is CheckResult.OK
    assert _check("aer", evidence(record(), readings={})).result is CheckResult.OK
    late = {**read, f"{AER}fatal": ("TOTAL 0", "")}
    assert _failed("aer", evidence(asked, readings=late)) == (
        "the AER counters of nvme (0000:01:00.0) after the test were not read (CONFIG_PCIEAER?)"
    )
    assert "nvme (0000:01:00.0) before the test, nvme" in _failed("aer", evidence(asked, readings={}))
    assert _check("aer", evidence(asked)).invalidates is Invalidates.GOOD_NEWS


def _tasks(priorities: tuple[int, ...]) -> Check:
    """Return the check of rt-migrate-test's threads on two CPUs, of which those with these priorities were seen."""
    expected = RtMigrateTest().expected(Setting(cpus=2, duration_s=10, virtual_time=False))
    seen = tuple(
        Thread(moment="middle", name="rt-migrate-test", policy=1, priority=priority, processor=0)
        for priority in priorities
    )
    made = asking(evidence(record(), threads=seen), threads=expected.threads, seen=expected.seen)
    return _check("threads", made)


def test_each_task_of_rt_migrate_test_must_have_its_own_priority() -> None:
    assert _tasks((2, 3, 4, 5)).result is CheckResult.OK
    equal = _tasks((2, 3, 3, 5))
    assert (equal.result, equal.invalidates) == (CheckResult.FAILED, Invalidates.EVERYTHING)
    assert "0 of 1 measuring threads ran at SCHED_FIFO 4" in equal.sentence
    assert _tasks((2, 3, 4)).result is CheckResult.FAILED


def test_a_migration_test_that_was_over_before_anybody_looked_keeps_its_failures() -> None:
    unseen = _tasks(())
    assert (unseen.result, unseen.invalidates) == (CheckResult.FAILED, Invalidates.FIGURES)


# --- temperature


def _at(before: str, after: str, limit: int | None = 85) -> Record:
    readings = {f"{ZONE}/temp": (before, after), f"{ZONE}/type": ("soc-thermal",) * 2}
    readings["/sys/class/thermal/thermal_zone1/temp"] = ("40000", "40000") if before and after else ("", "")
    return evidence(asking(record(), temperature_limit=limit), readings=readings)


def test_a_board_below_its_limit() -> None:
    found = _check("temperature", _at("45000", "85000"))
    assert (found.result, found.sentence) == (CheckResult.OK, "at most 85 C, 85 C are allowed")


@pytest.mark.parametrize("temperatures", [("85001", "60000"), ("60000", "85001"), ("85001", "")])
def test_a_board_that_was_too_hot_is_no_measure_of_a_kernel(temperatures: tuple[str, str]) -> None:
    made = _at(*temperatures)
    assert _failed("temperature", made) == "soc-thermal was at 85.001 C; the board's limit is 85 C"
    # Its latencies are long because its clocks were lowered, which is not the kernel's fault.
    assert _check("temperature", made).invalidates is Invalidates.FIGURES


@pytest.mark.parametrize("temperatures", [("", "60000"), ("60000", "")])
def test_a_temperature_that_was_read_once_proves_nothing(temperatures: tuple[str, str]) -> None:
    assert _failed("temperature", _at(*temperatures)) == "the temperature of soc-thermal was not read before and after"
    assert _check("temperature", _at(*temperatures)).invalidates is Invalidates.GOOD_NEWS


@pytest.mark.parametrize("made", [asking(record(), temperature_limit=85), _at("", "")])
def test_a_limit_without_a_sensor_proves_nothing(made: Record) -> None:
    """A kernel that lost its thermal driver tells no temperature."""
    wanted = "the board's file has a temperature_limit, and no sensor gave a temperature"
    assert _failed("temperature", made) == wanted
    assert _check("temperature", made).invalidates is Invalidates.GOOD_NEWS


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_at("99000", "99000", None), "the board's file gives no temperature_limit"),
        (record(), "the board's file gives no temperature_limit"),
    ],
)
def test_without_a_limit_the_temperature_does_not_apply(made: Record, why: str) -> None:
    found = _check("temperature", made)
    assert (found.result, found.sentence) == (CheckResult.NOT_APPLICABLE, why)


# --- suspend

SUCCESS, FAIL = "/sys/power/suspend_stats/success", "/sys/power/suspend_stats/fail"
ENTRY = ("PM: suspend entry (deep)",)


def _slept(
    lines: tuple[str, ...] | None, success: tuple[str, str] | None = None, fail: tuple[str, str] | None = None
) -> Record:
    counts = {path: values for path, values in ((SUCCESS, success), (FAIL, fail)) if values}
    return evidence(record(), suspends=lines, readings=counts)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_slept((), ("0", "0"), ("0", "0")), "the kernel counted no suspend"),
        (_slept(ENTRY, ("3", "3"), ("1", "1")), "the kernel counted no suspend"),  # it was before the measurement
        (_slept(None, ("0", "0"), ("0", "0")), "the kernel counted no suspend"),
        (_slept(()), "the kernel's log tells of no suspend"),
    ],
)
def test_a_board_that_was_awake(made: Record, why: str) -> None:
    found = _check("suspend", made)
    assert (found.result, found.sentence) == (CheckResult.OK, why)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_slept((), ("0", "1"), ("0", "0")), "suspended while it measured, or was to be: success 0 to 1"),
        (_slept((), ("2", "2"), ("0", "4")), "or was to be: fail 0 to 4"),  # all processes stood still
        (_slept(ENTRY), "the kernel does not count suspends, and its log tells of one: 'PM: suspend entry (deep)'"),
    ],
)
def test_a_board_that_was_suspended_is_no_measure_of_a_kernel(made: Record, why: str) -> None:
    assert why in _failed("suspend", made)
    assert _check("suspend", made).invalidates is Invalidates.FIGURES


@pytest.mark.parametrize("made", [_slept((), ("0", ""), ("0", "0")), _slept((), ("", "0"))])
def test_a_count_of_suspends_that_was_read_once_proves_nothing(made: Record) -> None:
    assert _failed("suspend", made) == "how often the board was suspended was not read before and after"


def test_without_any_log_nobody_knows_of_a_suspend() -> None:
    found = _check("suspend", evidence(record(), suspends=None, log=""))
    assert (found.result, found.sentence) == (
        CheckResult.FAILED,
        "neither the kernel's count of suspends nor its log was read",
    )
    log = evidence(record(), suspends=None, log="some")
    assert _check("suspend", log).result is CheckResult.FAILED


# --- page faults


@pytest.mark.parametrize(("minor", "major"), [(34, 0), (33, 1), (5000, 12)])
def test_a_measuring_thread_that_waits_for_its_memory_measures_no_kernel(minor: int, major: int) -> None:
    looks = (_thread("middle", 1, 99), _thread("late", 1, 99, minor, major))
    faulting = evidence(record(), threads=looks)
    expected = f"measuring threads had {minor - 33} minor and {major} major page faults while they measured"
    assert expected in _failed("page-faults", faulting)
    assert _check("page-faults", faulting).invalidates is Invalidates.GOOD_NEWS


def test_faults_of_other_threads_and_of_tools_that_do_not_lock_their_memory_do_not_count() -> None:
    main = (_thread("middle", 0, 0), _thread("late", 0, 0, minor=900))
    measuring = (_thread("middle", 1, 99), _thread("late", 1, 99))
    assert _check("page-faults", evidence(record(), threads=(*main, *measuring))).result is CheckResult.OK
    faulting = evidence(record(), threads=(_thread("middle", 1, 99), _thread("late", 1, 99, minor=34)))
    assert _check("page-faults", replace(faulting, argv=("hackbench",))).result is CheckResult.OK


def test_page_faults_that_were_not_read_are_no_good_news() -> None:
    unread = tuple(replace(_thread(moment, 1, 99), minor_faults=None) for moment in ("middle", "late"))
    made = evidence(record(), threads=unread)
    assert "the page faults of its measuring threads were not read: measure again" in _failed("page-faults", made)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (0, 1), (0, 0)])
def test_page_faults_are_not_known_where_the_looks_saw_unequal_numbers_of_threads(before: int, after: int) -> None:
    looks = (*[_thread("middle", 1, 99)] * before, *[_thread("late", 1, 99)] * after)
    made = evidence(record(), threads=looks)
    (found,) = (check for check in checks(made, {"threads": "the board cannot tell"}) if check.name == "page-faults")
    assert (found.result, found.invalidates) == (CheckResult.FAILED, Invalidates.GOOD_NEWS)
    assert found.sentence.startswith(
        f"{before} measuring threads were there at half of the run and {after} at nine tenths"
    )


def test_on_virtual_time_a_tool_that_had_ended_leaves_its_page_faults_to_other_boots() -> None:
    """The same boot looks as late each time: to measure again helps nobody."""
    found = _check("page-faults", evidence(record(), threads=[_thread("middle", 1, 99)] * 2))
    assert (found.result, found.unseen) == (CheckResult.NOT_APPLICABLE, True)
    assert found.sentence.endswith("their page faults in between are not known: the tool had ended")


def test_threads_that_were_not_there_are_one_cause_said_once() -> None:
    made = evidence(record(), threads=(_thread("middle", 1, 98), _thread("late", 1, 98)))
    assert "0 of 1 measuring threads" in _failed("threads", made)
    # A board may not know its threads; their page faults are not known all the same.
    found = {check.name: check.result for check in checks(made, {"threads": "the board cannot tell"})}
    assert found["page-faults"] is CheckResult.FAILED


def test_a_busy_host_that_looked_late_makes_no_measurement_invalid_but_says_how_many_threads_it_saw() -> None:
    busy = replace(record(), environment=replace(record().environment, time=TimeBase.HOST))
    found = _check("page-faults", evidence(busy, threads=(_thread("middle", 1, 99),)))
    assert found.result is CheckResult.NOT_APPLICABLE
    assert "1 measuring threads were there at half of the run and 0 at nine tenths" in found.sentence


def test_a_tool_without_measuring_threads_has_no_page_faults_of_theirs() -> None:
    assert _check("page-faults", evidence(asking(record(), threads=[]), threads=())).result is CheckResult.OK


# --- firmware

BL31 = "NOTICE:  BL31: v2.3():v2.3-589-g3389cfdda:derrick.huang, fwver: v1.02"
L3 = "L3 cache partition cfg-cc33"
PINS = {"BL31": r"BL31: v2\.3.*fwver: v1\.02$", "cache": "(?i)l3 cache partition cfg-cc33"}


def _flashed(*told: str, pins: dict[str, str] = PINS) -> Record:
    made = asking(record(), firmware=pins)
    return replace(made, environment=replace(made.environment, firmware="; ".join(told)))


def test_firmware_as_the_board_s_file_pins_it() -> None:
    found = _check("firmware", _flashed("U-Boot 2017.09", BL31, L3))
    assert (found.result, found.sentence) == (CheckResult.OK, "BL31, cache as pinned")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((BL31.replace("v1.02", "v1.01"), L3), f"and is {BL31.replace('v1.02', 'v1.01')!r}"),
        ((BL31 + "1", L3), "BL31 should be 'BL31: v2"),  # an end is an end although other strings follow
        ((BL31, "L3 cache partition cfg-8421"), "cache should be '(?i)l3 cache partition cfg-cc33' and is 'L3 cache"),
        ((L3,), "and is not told: the boot told 'L3 cache partition cfg-cc33'"),
        (("a", "b"), "; cache should be "),
        (tuple("abcdefgh"), "the boot told 'a', 'b', 'c', 'd', 'e', 'f' and 2 more"),
    ],
)
def test_other_firmware_is_another_board(told: tuple[str, ...], why: str) -> None:
    assert why in _failed("firmware", _flashed(*told))
    assert _check("firmware", _flashed(*told)).invalidates is Invalidates.EVERYTHING


def test_firmware_that_nobody_saw_is_not_proven() -> None:
    assert _failed("firmware", _flashed()) == (
        "BL31, cache: the board's file pins it, and no log of the boot told any (a LAVA job has one)"
    )
    assert _check("firmware", _flashed()).invalidates is Invalidates.GOOD_NEWS


def test_without_pins_any_firmware_will_do() -> None:
    found = _check("firmware", _flashed(BL31, pins={}))
    assert (found.result, found.sentence) == (CheckResult.NOT_APPLICABLE, "the board's file pins no firmware")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"load_output": "stress: FAIL: [1] (415) <-- worker 2 returned error 1"}, "reported an error: stress: FAIL"),
        ({"load_ended": 0}, "ended by itself with exit code 0"),
        ({"load_ended": 1}, "ended by itself with exit code 1"),
    ],
)
def test_a_load_that_failed_by_its_own_account_takes_good_news_away(changes: dict[str, object], sentence: str) -> None:
    made = evidence(record(case=LOADED), **changes)
    assert sentence in _failed("load", made)
    assert _check("load", made).invalidates is Invalidates.GOOD_NEWS
    # Without a load there is none that could fail.
    assert _check("load", evidence(record(), **changes)).result is CheckResult.OK


def test_what_a_load_prints_when_it_is_ended_is_no_failure() -> None:
    made = evidence(record(case=LOADED), load_output="Signal 15 caught, longjmp'ing out!\n")
    assert _check("load", made).result is CheckResult.OK
