# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting
from rtgate.tools.cyclicdeadline import JSON, Cyclicdeadline
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.threads import SCHED_DEADLINE, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
REAL = Setting(cpus=1, duration_s=2.0, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=2.0, virtual_time=True)
SMP = Setting(cpus=2, duration_s=2.0, virtual_time=True)
TOOL = Cyclicdeadline()
OLD = Cyclicdeadline(interval_us=10_000, range_us=0)  # rt-tests before 2.7
GOOD = (DATA / "2.10" / "cyclicdeadline-virtual-hackbench.json").read_text()
HOST = (DATA / "2.10" / "cyclicdeadline-host-idle.json").read_text()


def _capture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _parse(
    data: bytes | str,
    setting: Setting = REAL,
    tool: Cyclicdeadline = TOOL,
    files: Mapping[str, bytes] | None = None,
    code: int = 0,
) -> tuple[Measurement, ...]:
    raw = data.encode() if isinstance(data, str) else data
    return tool.parse(Output(files={JSON: raw, **(files or {})}, exit_code=code, setting=setting))


def _numbers(found: tuple[Measurement, ...], thread: int) -> dict[str, float]:
    labels = {"thread": str(thread)}
    return {one.name: one.quantity.value for one in found if one.quantity is not None and one.labels == labels}


@pytest.mark.parametrize(
    ("capture", "setting", "threads"),
    # Of each thread: samples in buckets, overflow, minimum, average, maximum, wake-ups, lost.
    [
        ("2.10/cyclicdeadline-virtual-idle.json", VIRTUAL, [(501, 0, 0, 10.2, 22, 500, 0)]),
        ("2.10/cyclicdeadline-virtual-hackbench.json", VIRTUAL, [(501, 0, 0, 3.75, 18, 500, 0)]),
        (
            "2.10/cyclicdeadline-virtual-smp2-hackbench.json",
            SMP,
            [(13, 461, 0, 56852.24, 108530, 473, 27), (251, 249, 0, 2073.16, 7580, 499, 1)],
        ),
        ("2.10/cyclicdeadline-host-idle.json", REAL, [(35, 456, 0, 22857.55, 47746, 490, 10)]),
    ],
)
def test_a_capture_is_read(capture: str, setting: Setting, threads: list[tuple[float, ...]]) -> None:
    found = _parse(_capture(capture), setting)
    assert len(found) == 6 * len(threads)
    for number, (inside, overflow, low, mean, high, wakeups, lost) in enumerate(threads):
        (one,) = (
            one.histogram
            for one in found
            if one.histogram is not None and (one.name, one.labels) == ("latency", {"thread": str(number)})
        )
        assert (sum(one.counts.values()), one.overflow, one.limit) == (inside, overflow, 1000)
        assert _numbers(found, number) == {
            "latency.min": low,
            "latency.avg": mean,
            "latency.max": high,
            "wakeups": wakeups,
            "wakeups.lost": lost,
        }
        assert one.total == wakeups + 1, "the set-up run is in the histogram"
    time = Unit.VIRTUAL_US if setting.virtual_time else Unit.US
    assert {one.unit for one in found} == {time, Unit.COUNT}


def test_the_minimum_is_that_of_the_histogram_since_zero_counts_as_not_set() -> None:
    document = json.loads(HOST)["thread"]["0"]
    assert document["min"] > min(int(value) for value in document["histogram"]) == 0


def test_rt_tests_before_2_7_has_no_histogram_and_no_minimum_that_could_be_trusted() -> None:
    found = _parse(_capture("2.4/cyclicdeadline.json"), tool=OLD)
    assert _numbers(found, 0) == {"latency.avg": 23.28, "latency.max": 140, "wakeups": 200, "wakeups.lost": 0}
    assert not [one for one in found if one.histogram is not None]
    broken = json.loads(_capture("2.4/cyclicdeadline-break.json"))["thread"]["0"]
    assert broken["min"] > broken["avg"], "a sample of 0 was replaced by the next one"
    assert _numbers(_parse(_capture("2.4/cyclicdeadline-break.json"), tool=OLD), 0)["latency.max"] == 5


def test_every_name_is_declared_and_lower_is_better() -> None:
    found = {one.name: one for one in _parse(GOOD, VIRTUAL)}
    assert set(found) == set(TOOL.reports)
    assert {one.better for one in found.values() if one.name != "wakeups"} == {Better.LOWER}
    assert found["wakeups"].better is Better.NEITHER
    assert [name for name, kind in TOOL.reports.items() if kind is Reports.TIMES] == ["latency"]


def test_threads_that_were_not_admitted_look_perfect_and_are_refused() -> None:
    data = _capture("2.4/cyclicdeadline-not-admitted.json")
    assert json.loads(data)["thread"]["1"]["max"] == 0
    said = {name: _capture(f"2.4/cyclicdeadline-not-admitted.{name[-3:]}") for name in ("tool.out", "tool.err")}
    setting = Setting(cpus=2, duration_s=1.0, virtual_time=False)
    with pytest.raises(ParseError, match=r"did not measure: \[19828\]: Device or resource busy\n"):
        _parse(data, setting, OLD, said)
    with pytest.raises(ParseError, match="thread 0 never ran in a period of its own"):
        _parse(data, setting, OLD)


@pytest.mark.parametrize(
    ("data", "files", "reason"),
    [
        (GOOD, {"tool.out": _capture("2.4/cyclicdeadline-break.out")}, "broke off at its break value"),
        (GOOD, {"tool.deadline": b"after 40 s\n"}, "stopped after 40 s"),
        ("", {}, "wrote no JSON"),
        (GOOD[:-9], {}, "JSON is damaged"),
        (GOOD.replace('"resolution_in_ns": 0', '"resolution_in_ns": 1'), {}, "not in microseconds"),
        (GOOD.replace('"0": {', '"1": {', 1), {}, "reports threads 1: 1 were asked for"),
        (_capture("2.10/cyclicdeadline-virtual-smp2-hackbench.json"), {}, "reports threads 0, 1: 1 were asked for"),
        (_capture("2.4/cyclicdeadline.json"), {}, "wrote no histogram: rt-tests before 2.7"),
        (GOOD.replace('"cycles": 501', '"cycles": 500'), {}, "holds 501 samples of 500 cycles"),
        (GOOD.replace('"cycles": 501', '"cycles": 1'), {}, "never ran in a period of its own"),
        (GOOD.replace('"cycles": 501', '"cycles": 502'), {}, "maximum 18 and its histogram contradict"),
        (GOOD.replace('"max": 18', '"max": 19'), {}, "maximum 19 and its histogram contradict"),
        (GOOD.replace('"max": 18', '"max": 17'), {}, "maximum 17 and its histogram contradict"),
        (HOST.replace('"max": 47746', '"max": 999').replace("22857.55", "9.0"), {}, "999 and its histogram contradict"),
        (GOOD.replace('"avg": 3.75', '"avg": 18.01'), {}, r"average 18\.01 and maximum 18 contradict"),
        (GOOD.replace('"avg": 3.75', '"avg": -0.01'), {}, r"average -0\.01 and maximum 18 contradict"),
        (GOOD.replace('"avg": 3.75', '"avg": -nan'), {}, "'avg' is None"),
        (
            GOOD.replace('"0": 91', '"0": 0').replace('"cycles": 501', '"cycles": 410').replace("3.75", "0.5"),
            {},
            r"minimum 1 and average 0\.5 contradict",
        ),
    ],
)
def test_what_is_refused_says_why(data: bytes | str, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(data, VIRTUAL, files=files)


@pytest.mark.parametrize(
    ("file", "capture", "reason"),
    [
        ("tool.out", "cyclicdeadline-no-hrtick.txt", "exit code 1: .*you need to\nhave HRTICK enabled"),
        ("tool.err", "cyclicdeadline-no-histogram.err", "exit code 1: .*unrecognized option '--histogram=1000'"),
    ],
)
def test_a_run_that_could_not_be_set_up_says_what_it_printed(file: str, capture: str, reason: str) -> None:
    with pytest.raises(ParseError, match=f"(?s){reason}"):
        TOOL.parse(Output(files={file: _capture(f"2.4/{capture}")}, exit_code=1, setting=REAL))


def _clean_or_refused(data: bytes | str, tool: Cyclicdeadline = TOOL) -> None:
    try:
        found = _parse(data, tool=tool)
    except ParseError:
        return
    assert found
    for one in found:
        if one.histogram is not None:
            assert one.histogram.total > 1
            assert one.histogram.overflow >= 0
        else:
            assert one.quantity is not None
            assert math.isfinite(one.quantity.value)
            assert one.quantity.value >= 0


@examples(60)
@given(end=st.integers(0, len(GOOD.rstrip()) - 1))
def test_a_truncated_file_is_refused(end: int) -> None:
    with pytest.raises(ParseError):
        _parse(GOOD[:end], VIRTUAL)


@examples(150)
@given(edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), st.binary(max_size=6)), max_size=4))
def test_damaged_bytes_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    data = GOOD.encode()
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused(data)
    _clean_or_refused(data, OLD)


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())


@examples(150)
@given(
    key=st.sampled_from(["histogram", "cycles", "min", "max", "avg"]),
    value=ANYTHING | st.dictionaries(st.text("0123456789-x", max_size=4), ANYTHING, max_size=2),
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(key: str, value: object) -> None:
    document: dict[str, Any] = json.loads(HOST)
    document["thread"]["0"][key] = value
    _clean_or_refused(json.dumps(document))


@examples(100)
@given(
    counts=st.dictionaries(st.integers(0, 999), st.integers(1, 10**6), min_size=1, max_size=20),
    late=st.lists(st.integers(1000, 10**6), max_size=5),
)
def test_the_samples_of_any_histogram_come_out_as_they_went_in(counts: dict[int, int], late: list[int]) -> None:
    cycles = sum(counts.values()) + len(late)
    total = sum(value * samples for value, samples in counts.items()) + sum(late)
    thread = {
        "histogram": {str(value): samples for value, samples in counts.items()},
        "cycles": cycles,
        "min": max([*counts, *late]),
        "max": max([*counts, *late]),
        "avg": total / cycles,
    }
    text = json.dumps({"resolution_in_ns": 0, "thread": {"0": thread}})
    if cycles == 1:
        with pytest.raises(ParseError, match="never ran"):
            _parse(text)
        return
    found = _parse(text)
    (histogram,) = (one.histogram for one in found if one.histogram is not None)
    assert (dict(histogram.counts), histogram.overflow) == (counts, len(late))
    numbers = _numbers(found, 0)
    assert (numbers["latency.min"], numbers["wakeups"]) == (min(counts), cycles - 1)


def test_the_command_line_needs_no_hrtick() -> None:
    argv = TOOL.argv(Setting(cpus=4, duration_s=9.5, virtual_time=True))
    assert argv == (
        *("cyclicdeadline", "--quiet", "--threads=4", "--interval=4000", "--step=0", "--duration=10"),
        *("--json=cyclicdeadline.json", "--histogram=1000", "--histfile=/dev/null"),
    )
    runtime_us = TOOL.interval_us * 60 // 100  # what cyclicdeadline makes of it
    assert runtime_us >= 2000
    assert not [argument for argument in OLD.argv(REAL) if argument.startswith("--hist")]


def test_what_must_be_seen_is_what_the_command_line_asks_for() -> None:
    setting = Setting(cpus=4, duration_s=9.5, virtual_time=False)
    threads = (Threads(count=4, policy=SCHED_DEADLINE, priority=0),)
    assert TOOL.expected(setting) == Expected(threads=threads, duration_s=10, seen=ThreadScope.OWN, interval_us=4000)
    assert OLD.expected(setting) == Expected(
        threads=threads, duration_s=10, seen=ThreadScope.OWN, counts=(Count(measurement="wakeups", least=950),)
    )
