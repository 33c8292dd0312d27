# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.oslat import JSON, Oslat
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Quantity, Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOL = Oslat()
DEFAULT_BUCKETS = Oslat(buckets=32)  # those of oslat itself, as in the captures of 2.4
ALONE = Setting(cpus=1, duration_s=10, virtual_time=True)
TWO = Setting(cpus=2, duration_s=10, virtual_time=True)
BOTH = Setting(cpus=2, duration_s=2, virtual_time=False, cpu_list="0-1")
GOOD = (DATA / "2.10" / "oslat-virtual-idle.json").read_text()
OLD = (DATA / "2.4" / "oslat.json").read_text()


def _capture(name: str) -> str:
    return (DATA / name).read_text()


def _parse(
    data: str,
    setting: Setting = ALONE,
    tool: Oslat = TOOL,
    code: int = 0,
    files: Mapping[str, bytes] | None = None,
) -> tuple[Measurement, ...]:
    return tool.parse(Output(files={JSON: data.encode(), **(files or {})}, exit_code=code, setting=setting))


def _number(found: tuple[Measurement, ...], name: str, cpu: int = 0) -> float:
    (quantity,) = (one.quantity for one in found if one.name == name and one.labels == {"cpu": str(cpu)})
    assert quantity is not None
    return quantity.value


def _histogram(found: tuple[Measurement, ...], cpu: int = 0) -> Histogram:
    (histogram,) = (one.histogram for one in found if one.name == "latency" and one.labels == {"cpu": str(cpu)})
    assert histogram is not None
    return histogram


@pytest.mark.parametrize(
    ("capture", "setting", "tool", "cpus"),
    # Of each CPU: samples, overflow, minimum, maximum, samples below a microsecond.
    [
        ("2.10/oslat-virtual-idle.json", ALONE, TOOL, {0: (5_549_588, 0, 0, 192, 5_547_588)}),
        ("2.10/oslat-virtual-smp2-idle.json", TWO, TOOL, {1: (4_952_601, 9, 0, 15_444, 4_949_333)}),
        (
            "2.4/oslat.json",
            BOTH,
            DEFAULT_BUCKETS,
            {0: (54_757_444, 261, 1, 60_015, 54_756_790), 1: (57_788_524, 222, 1, 87_996, 57_787_852)},
        ),
    ],
)
def test_a_capture_is_read(
    capture: str, setting: Setting, tool: Oslat, cpus: dict[int, tuple[int, int, int, int, int]]
) -> None:
    found = _parse(_capture(capture), setting, tool)
    assert len(found) == 4 * len(cpus)
    assert {one.name for one in found} == set(tool.reports)
    for cpu, (samples, overflow, low, high, short) in cpus.items():
        histogram = _histogram(found, cpu)
        assert (histogram.total, histogram.overflow, histogram.counts[0]) == (samples, overflow, short)
        assert histogram.limit == tool.buckets - 1
        assert histogram.unit is (Unit.VIRTUAL_US if setting.virtual_time else Unit.US)
        numbers = [_number(found, name, cpu) for name in ("samples", "latency.min", "latency.max")]
        assert numbers == [samples, low, high]


def test_the_histogram_of_the_json_is_that_of_the_text_by_lower_ends() -> None:
    printed = re.findall(r"^ *(\d+) \(us\):\t (\d+)", _capture("2.10/oslat-virtual-idle.out"), re.MULTILINE)
    histogram = _histogram(_parse(GOOD))
    assert dict(histogram.counts) == {int(upper) - 1: int(samples) for upper, samples in printed if int(samples)}
    assert "1000 (us):\t 0 (including overflows)" in _capture("2.10/oslat-virtual-idle.out")


def test_the_last_bucket_is_overflow_since_it_has_no_upper_end() -> None:
    histogram = _histogram(_parse(OLD, BOTH, DEFAULT_BUCKETS))
    assert max(histogram.counts) == 30
    assert histogram.over(Quantity(30, Unit.US)) == 261
    with pytest.raises(ValueError, match="beyond the histogram's range of 31 us"):
        histogram.over(Quantity(31, Unit.US))


def test_the_average_is_not_reported_since_it_holds_the_overflow_of_the_first_thread() -> None:
    assert not [one.name for one in _parse(OLD, BOTH, DEFAULT_BUCKETS) if "avg" in one.name]


def test_shorter_interruptions_are_better_and_samples_only_counted() -> None:
    better = {one.name: one.better for one in _parse(GOOD)}
    assert better.pop("samples") is Better.NEITHER
    assert set(better.values()) == {Better.LOWER}


def test_a_stopped_run_writes_json_as_if_it_were_complete_but_for_its_duration() -> None:
    data = _capture("2.4/oslat-sigterm.json")
    assert json.loads(data)["return_code"] == 0
    asked = Setting(cpus=1, duration_s=20, virtual_time=False, cpu_list="0")
    with pytest.raises(ParseError, match=r"measured for 0\.996 s of the 20 s asked for"):
        _parse(data, asked, DEFAULT_BUCKETS)


def test_a_trace_limit_and_a_kernel_without_numa_end_with_1_and_say_why() -> None:
    for capture, reason in (
        ("2.4/oslat-threshold-hit.txt", "exit code 1: oslat: Trace threshold"),
        ("2.10/oslat-no-numa.txt", "exit code 1: ERROR: Could not initialize libnuma"),
    ):
        said = re.sub(r"rc=1\n\Z", "", _capture(capture))
        with pytest.raises(ParseError, match=reason):
            _parse("", code=1, files={"tool.out": said.encode()})


def test_an_unknown_processor_ends_with_0_and_is_refused() -> None:
    # src/oslat/oslat.c, main(): this is all that it does there.
    said = b"This architecture is not yet supported. Please implement frc() function first for oslat.\n"
    with pytest.raises(ParseError, match="does not know this CPU: This architecture is not yet supported"):
        _parse("", files={"tool.out": said})


def _damaged(old: str, new: str) -> str:
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "files", "reason"),
    [
        (GOOD, {"tool.deadline": b"after 21 s\n"}, "stopped after 21 s"),
        ("", {}, "wrote no JSON"),
        (GOOD[: len(GOOD) // 2], {}, "JSON is damaged"),
        (_damaged('"thread": {', '"threads": {'), {}, "has no 'thread'"),
        (_damaged('"cpu": 0', '"cpu": 1'), {}, r"on the CPUs \[1\], not on \[0\]"),
        (_damaged('"duration": 2.015', '"duration": 1.979'), {}, "1.979 s of the 2 s"),
        (_damaged('"duration": 2.015', '"duration": Infinity'), {}, "'duration' is inf"),
        (_damaged('"duration": 2.015', '"duration": -nan'), {}, "JSON is damaged"),
        (_damaged('"histogram": {', '"other": {'), {}, "histogram is empty"),
        (_damaged('"1": 5547588', '"0": 5547588'), {}, "histogram is empty, or has other buckets than 1 to 1000"),
        (_damaged('"193": 1', '"1001": 1'), {}, "other buckets than 1 to 1000"),
        (_damaged('"193": 1', '"193": -1'), {}, "counts below zero"),
        (_damaged('"193": 1', '"194": 1'), {}, "max 192 contradicts its histogram, where it is below 194 us"),
        (_damaged('"max": 192', '"max": 194'), {}, "max 194 contradicts"),
        (_damaged('"max": 192', '"max": 60'), {}, "max 60 contradicts"),
        (_damaged('"min": 0', '"min": 2'), {}, "min 2 contradicts its histogram, where it is below 1 us"),
        (_damaged('"min": 0', '"min": 18446744073709551615'), {}, "not a whole number"),
        (_damaged('"max": 192', '"max": "192"'), {}, "'max' is '192', not a whole number"),
    ],
)
def test_what_is_refused_says_why(data: str, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(data, files=files)


@pytest.mark.parametrize("setting", [TWO, BOTH, Setting(cpus=3, duration_s=2, virtual_time=False)])
def test_a_run_on_other_cpus_than_asked_for_is_refused(setting: Setting) -> None:
    with pytest.raises(ParseError, match=r"measured on the CPUs \[0\], not on"):
        _parse(GOOD, setting)


@pytest.mark.parametrize("high", [31, 32, 1_000_000])
def test_with_overflow_the_maximum_is_anything_from_the_last_bucket_on(high: int) -> None:
    document = json.loads(OLD)
    document["thread"]["0"]["max"] = high
    assert _number(_parse(json.dumps(document), BOTH, DEFAULT_BUCKETS), "latency.max") == high
    document["thread"]["0"]["max"] = 30
    with pytest.raises(ParseError, match="max 30 contradicts"):
        _parse(json.dumps(document), BOTH, DEFAULT_BUCKETS)


@examples(100)
@given(
    times=st.lists(st.integers(0, 2_000_000), min_size=1, max_size=30),
    rounded_up=st.booleans(),
    buckets=st.integers(5, 1024),
)
def test_samples_come_out_as_they_went_in(times: list[int], buckets: int, *, rounded_up: bool) -> None:
    """As oslat counts nanoseconds: until 2.4 all is rounded up to microseconds, since 2.5 only a bucket's key is."""
    lats = [max(1, math.ceil(time / 1000)) if rounded_up else time // 1000 for time in times]
    keys = [min(lat if rounded_up else lat + 1, buckets) for lat in lats]
    counts = {key: keys.count(key) for key in keys}
    document = json.loads(GOOD)
    document["thread"]["0"] |= {
        "min": min(lats),
        "max": max(lats),
        "histogram": {str(key): samples for key, samples in counts.items()},
    }
    found = _parse(json.dumps(document), tool=Oslat(buckets=buckets))
    histogram = _histogram(found)
    assert histogram.total == len(times) == _number(found, "samples")
    assert histogram.overflow == sum(lat >= (buckets if rounded_up else buckets - 1) for lat in lats)
    for value, samples in histogram.counts.items():
        inside = [time for time in times if value * 1000 <= time <= (value + 1) * 1000]
        assert len(inside) >= samples > 0


def _clean_or_refused(data: str) -> None:
    try:
        found = _parse(data)
    except ParseError:
        return
    for one in found:
        if one.histogram is not None:
            assert one.histogram.total > 0
            assert min(one.histogram.counts, default=0) >= 0
        else:
            assert one.quantity is not None
            assert 0 <= one.quantity.value < math.inf


@examples(200)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), st.text(max_size=6)), max_size=4),
)
def test_damaged_json_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    data = GOOD
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused(data)


@examples(200)
@given(
    key=st.sampled_from(["cpu", "freq", "min", "avg", "max", "duration", "histogram"]),
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.just([])
    | st.dictionaries(st.text("0123456789-", max_size=4), st.integers() | st.none(), max_size=2),
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(key: str, value: Any) -> None:
    document = json.loads(GOOD)
    document["thread"]["0"][key] = value
    _clean_or_refused(json.dumps(document))


def test_a_single_cpu_is_measured_without_a_real_time_priority_and_looked_at_while_it_gets_warm() -> None:
    assert TOOL.argv(ALONE) == (
        *("oslat", "--quiet", "--zero-omit", "--bucket-size=1000", "--cpu-list=0", "--cpu-main-thread=0"),
        *("--duration=2", "--json=oslat.json"),
    )
    assert TOOL.expected(ALONE) == Expected(threads=(), duration_s=0.5, seen=ThreadScope.SESSION)
    a_minute = Setting(cpus=1, duration_s=60, virtual_time=False)
    assert "--duration=2" in TOOL.argv(a_minute)  # the plan's deadline follows the half second


def test_with_several_cpus_the_first_is_left_to_all_that_is_not_measured() -> None:
    setting = Setting(cpus=4, duration_s=9.5, virtual_time=False)
    assert Oslat(priority=80, buckets=500).argv(setting) == (
        *("oslat", "--quiet", "--zero-omit", "--bucket-size=500", "--cpu-list=1,2,3", "--cpu-main-thread=0"),
        *("--rtprio=80", "--duration=10", "--json=oslat.json"),
    )
    assert Oslat(priority=80).expected(setting) == Expected(
        threads=(Threads(count=3, policy=SCHED_FIFO, priority=80),),
        duration_s=11,
        seen=ThreadScope.SESSION,
        processors=3,
    )


@pytest.mark.parametrize(
    ("cpus", "cpu_list", "measured", "main"),
    [
        (2, "2-3", "2,3", 0),
        (1, "3", "3", 0),
        (1, "0", "0", 1),
        (2, "0,2", "0,2", 1),
        (3, "0-2", "0,1,2", 3),
        (4, "0-3", "0,1,2,3", 0),  # there is no other
    ],
)
def test_a_tuning_s_cpus_are_measured_and_the_main_thread_runs_elsewhere(
    cpus: int, cpu_list: str, measured: str, main: int
) -> None:
    setting = Setting(cpus=cpus, duration_s=5, virtual_time=False, cpu_list=cpu_list, board_cpus=4)
    argv = TOOL.argv(setting)
    assert {f"--cpu-list={measured}", f"--cpu-main-thread={main}", "--rtprio=1", "--duration=5"} < set(argv)
    assert TOOL.expected(setting).threads == (Threads(count=cpus, policy=SCHED_FIFO, priority=1),)


@pytest.mark.parametrize(
    ("asked", "virtual", "seconds"), [(10, True, 2), (60, True, 2), (1, True, 2), (1, False, 2), (60, False, 60)]
)
def test_on_virtual_time_it_is_short_and_never_shorter_than_the_look_at_its_threads(
    asked: float, virtual: bool, seconds: int
) -> None:
    setting = Setting(cpus=2, duration_s=asked, virtual_time=virtual)
    assert f"--duration={seconds}" in TOOL.argv(setting)
    assert TOOL.expected(setting).duration_s == seconds + 1


def test_it_needs_a_kernel_with_numa() -> None:
    assert TOOL.suites == ("latency",)
    (need,) = TOOL.needs
    assert "CONFIG_NUMA" in need.reason
