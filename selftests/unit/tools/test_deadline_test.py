# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.cyclicdeadline import HRTICK
from rtgate.tools.deadline_test import DeadlineTest
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.threads import SCHED_DEADLINE, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
REAL = Setting(cpus=1, duration_s=2.0, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=2.0, virtual_time=True)
TOOL = DeadlineTest()
GOOD = (DATA / "2.10" / "deadline_test-virtual-idle.out").read_text()
MISSED = (DATA / "2.10" / "deadline_test-host-idle.out").read_text()


def _parse(
    text: str,
    setting: Setting = REAL,
    files: Mapping[str, bytes] | None = None,
    code: int = 0,
    tool: DeadlineTest = TOOL,
) -> tuple[Measurement, ...]:
    return tool.parse(Output(files={"tool.out": text.encode(), **(files or {})}, exit_code=code, setting=setting))


def _values(found: tuple[Measurement, ...], thread: int) -> tuple[float, ...]:
    return tuple(one.quantity.value for one in found if one.quantity and one.labels == {"thread": str(thread)})


@pytest.mark.parametrize(
    ("capture", "cpus", "threads"),
    # Of each thread: missed deadlines and periods, periods, minimum, average, maximum.
    [
        ("virtual-idle", 1, [(0, 0, 1000, 1238, 1240, 1257), (0, 0, 952, 1300, 1377, 2623)]),
        ("virtual-smp2-idle", 2, [(123, 0, 1000, 2475, 3641, 10750), (2, 0, 952, 2596, 3067, 11006)]),
        ("host-idle", 1, [(170, 32, 999, 1105, 3391, 29461), (138, 35, 953, 1162, 3241, 25062)]),
    ],
)
def test_a_capture_is_read(capture: str, cpus: int, threads: list[tuple[float, ...]]) -> None:
    text = (DATA / "2.10" / f"deadline_test-{capture}.out").read_text()
    found = _parse(text, Setting(cpus=cpus, duration_s=60.0, virtual_time=False))
    assert [_values(found, number) for number in range(len(threads))] == threads
    assert len(found) == 6 * len(threads)
    assert {one.name for one in found} == set(TOOL.reports)
    (least,) = (entry.least for entry in TOOL.expected(REAL).counts)
    assert min(values[2] for values in threads) >= least, "every period is accounted for, missed ones too"


def test_a_capture_of_2_4_with_one_missed_deadline_is_read_although_its_exit_code_is_0() -> None:
    text = (DATA / "2.4/deadline_test-missed.txt").read_text()
    assert text.endswith("rc=0\n")
    twice = text[text.index("[22230]") :].replace("22230", "22231")
    found = _parse(text + twice, tool=DeadlineTest(interval_us=5000, step_us=0))
    assert _values(found, 0) == (1, 0, 2001, 441, 462, 1035)


def test_misses_are_measured_and_lower_is_better() -> None:
    found = _parse(MISSED)
    directions = {one.name: one.better for one in found}
    assert directions.pop("periods") is Better.NEITHER
    assert set(directions.values()) == {Better.LOWER}


@pytest.mark.parametrize(("setting", "unit"), [(REAL, Unit.US), (VIRTUAL, Unit.VIRTUAL_US)])
def test_units_follow_the_clock(setting: Setting, unit: Unit) -> None:
    units = {one.name.split(".")[0]: one.unit for one in _parse(GOOD, setting)}
    assert units == {"deadlines": Unit.COUNT, "periods": Unit.COUNT, "runtime": unit}


@pytest.mark.parametrize(
    ("text", "files", "reason"),
    [
        (
            (DATA / "2.4/deadline_test-not-admitted.out").read_text(),
            {"tool.err": (DATA / "2.4/deadline_test-not-admitted.err").read_bytes()},
            r"not set up as asked: Thread 0 failed: Failed sched_setattr: .*sched_setattr: Device or resource busy",
        ),
        (
            (DATA / "2.4/deadline_test-started-over.out").read_text(),
            {},
            "not set up as asked: Failed to perform task within runtime: Missed by 152 us",
        ),
        ("RT Thread failed: Failed setting prio\n" + GOOD, {}, "RT Thread failed"),
        (GOOD, {"tool.deadline": b"after 40 s\n"}, "stopped after 40 s"),
        ("", {}, "reports 0 threads of 2: no output"),
        ("", {"tool.err": b"[62]sched_setattr: Device or resource busy\n"}, "0 threads of 2: .*resource busy"),
        (GOOD[: GOOD.rindex("highest")], {}, "reports 1 threads of 2"),
        (GOOD + GOOD, {}, "reports 4 threads of 2"),
        ((DATA / "2.4/deadline_test-missed.txt").read_text(), {}, "reports 1 threads of 2: .*highest prime"),
        (GOOD.replace("deadline   : 10500", "deadline   : 11000"), {}, "deadline of 11000 us, not of 10500 us"),
        (GOOD.replace("max_time: 1257us", "max_time: 1239us"), {}, "1239 contradict each other"),
        (GOOD.replace("min_time: 1238us", "min_time: 1241us"), {}, "minimum 1241"),
        (GOOD.replace("nr_periods : 1001", "nr_periods : 1"), {}, "thread 0 never ran in a period of its own"),
        (GOOD.replace("missed periods    = 0", "missed periods    = -1", 1), {}, "reports 1 threads of 2"),
        (GOOD.replace("\nruntime ", "\n[    9.1] random: crng init done\nruntime ", 1), {}, "reports 1 threads of 2"),
    ],
)
def test_what_is_refused_says_why(text: str, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=f"(?s){reason}"):
        _parse(text, files=files)


@pytest.mark.parametrize("file", ["tool.out", "tool.err"])
def test_a_run_that_could_not_be_set_up_says_what_it_printed(file: str) -> None:
    said = (DATA / "2.4/deadline_test-no-hrtick.txt").read_bytes()
    with pytest.raises(ParseError, match=r"(?s)exit code 255: .*you need to\nhave HRTICK enabled"):
        TOOL.parse(Output(files={file: said}, exit_code=255, setting=REAL))


@examples(60)
@given(end=st.integers(0, len(GOOD.rstrip()) - 6))
def test_truncated_text_is_refused(end: int) -> None:
    with pytest.raises(ParseError):
        _parse(GOOD[:end])


@examples(200)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(MISSED)), st.integers(0, 30), st.text(max_size=6) | st.text("0123456789")),
        max_size=4,
    )
)
def test_damaged_text_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = MISSED
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        found = _parse(text)
    except ParseError:
        return
    assert len(found) == 12
    for number in (0, 1):
        deadlines, missed, periods, low, mean, high = _values(found, number)
        assert 0 <= low <= mean <= high
        assert deadlines + missed < periods


@examples(100)
@given(st.data())
def test_the_numbers_of_any_run_come_out_as_they_went_in(data: st.DataObject) -> None:
    threads = data.draw(st.integers(2, 8))
    number = st.integers(0, 10**9)
    rows = [
        (data.draw(number), data.draw(number), data.draw(number) + 2, *sorted(data.draw(number) for _ in range(3)))
        for _ in range(threads)
    ]
    text = "".join(
        f"\n[{20 + index}]\nmissed deadlines  = {deadlines}\nmissed periods    = {periods}\nTotal adjustments = 0 us\n"
        f"deadline   : {10_000 + 500 * index} us\nruntime    : 5000 us\nnr_periods : {tried}\n"
        f"max_time: {high}us\tmin_time: {low}us\tavg_time: {mean}us\n"
        f"ctx switches vol:1 nonvol:2 migration:-1\nhighest prime: 7\n\n"
        for index, (deadlines, periods, tried, low, mean, high) in enumerate(rows)
    )
    found = _parse(text, Setting(cpus=threads, duration_s=1.0, virtual_time=True))
    for index, (deadlines, periods, tried, low, mean, high) in enumerate(rows):
        assert _values(found, index) == (deadlines, periods, tried - 1 + deadlines + periods, low, mean, high)


@pytest.mark.parametrize(("interval_us", "short"), [(1000, True), (2222, True), (2224, False), (10_000, False)])
def test_short_runs_need_hrtick(interval_us: int, short: bool) -> None:
    """With a period of 2222 us not even the largest share, 90 %, is 2 ms."""
    tool = DeadlineTest(interval_us=interval_us, percent=80, run_percent=100)
    assert tool.required() == ((HRTICK,) if short else ())


@pytest.mark.parametrize(("cpus", "threads", "longest"), [(1, 2, 10_500), (2, 2, 10_500), (4, 4, 11_500)])
def test_the_command_line_and_what_must_be_seen(cpus: int, threads: int, longest: int) -> None:
    setting = Setting(cpus=cpus, duration_s=60, virtual_time=False)
    command = f"exec deadline_test -t {threads} -i 10000 -s 500 -p 50 -P 50 0>/dev/null"
    assert TOOL.argv(setting) == ("sh", "-c", command)
    runtime_us = TOOL.interval_us * min(90, TOOL.percent * cpus // threads) // 100  # what deadline_test makes of it
    assert runtime_us >= 2000, "no HRTICK_DL is needed"
    assert TOOL.expected(setting) == Expected(
        threads=(Threads(count=threads, policy=SCHED_DEADLINE, priority=0),),
        duration_s=10,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="periods", least=9_500_000 / longest),),
    )
