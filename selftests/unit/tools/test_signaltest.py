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
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.signaltest import JSON, Signaltest
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
REAL = Setting(cpus=1, duration_s=2.0, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=2.0, virtual_time=True)
TOOL = Signaltest()
GOOD = (DATA / "2.10" / "signaltest-virtual-idle.json").read_text()


def _capture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _parse(
    data: bytes | str, setting: Setting = REAL, files: Mapping[str, bytes] | None = None, code: int = 0
) -> tuple[Measurement, ...]:
    raw = data.encode() if isinstance(data, str) else data
    return TOOL.parse(Output(files={JSON: raw, **(files or {})}, exit_code=code, setting=setting))


def _values(found: tuple[Measurement, ...]) -> dict[tuple[str, str], float]:
    return {(one.name, one.labels["thread"]): one.quantity.value for one in found if one.quantity is not None}


@pytest.mark.parametrize(
    ("capture", "cpus", "samples", "times"),
    [
        ("2.10/signaltest-virtual-idle.json", 1, [2625, 2625], (91, 93.57, 123)),
        ("2.10/signaltest-virtual-smp2-hackbench.json", 2, [826, 826], (135, 1616.33, 52271)),
        ("2.10/signaltest-host-idle.json", 1, [2401, 2401], (24, 50.63, 5955)),
        ("2.4/signaltest.json", 2, [100, 100], (22, 33.35, 90)),
        ("2.4/signaltest-three.json", 3, [1425, 1425, 1425], (26, 52.72, 1322)),
    ],
)
def test_a_capture_is_read(capture: str, cpus: int, samples: list[int], times: tuple[float, ...]) -> None:
    found = _parse(_capture(capture), Setting(cpus=cpus, duration_s=1.0, virtual_time=False))
    assert _values(found) == {
        **{("samples", str(thread)): value for thread, value in enumerate(samples)},
        **dict(zip([(f"roundtrip.{name}", "0") for name in ("min", "avg", "max")], times, strict=True)),
    }
    assert {one.name for one in found} == set(TOOL.reports)


def test_only_thread_0_is_timed_since_the_others_measure_its_sleeps() -> None:
    threads = json.loads(_capture("2.4/signaltest-three.json"))["thread"]
    assert [threads[number]["max"] > 10_000 for number in ("0", "1", "2")] == [False, True, True]
    three = Setting(cpus=3, duration_s=1.0, virtual_time=False)
    timed = [one for one in _parse(_capture("2.4/signaltest-three.json"), three) if one.name.startswith("roundtrip")]
    assert {one.labels["thread"] for one in timed} == {"0"}


def test_threads_have_numbers_and_no_cpu_since_the_json_gives_that_of_thread_0_to_all() -> None:
    data = _capture("2.4/signaltest-three.json")
    assert {thread["cpu"] for thread in json.loads(data)["thread"].values()} == {0}
    found = _parse(data, Setting(cpus=3, duration_s=1.0, virtual_time=False))
    assert {key for one in found for key in one.labels} == {"thread"}


@pytest.mark.parametrize(("setting", "unit"), [(REAL, Unit.US), (VIRTUAL, Unit.VIRTUAL_US)])
def test_units_follow_the_clock(setting: Setting, unit: Unit) -> None:
    found = _parse(GOOD, setting)
    assert {(one.unit, one.better) for one in found} == {(unit, Better.LOWER), (Unit.COUNT, Better.NEITHER)}


@pytest.mark.parametrize(
    ("data", "files", "reason"),
    [
        (
            _capture("2.4/signaltest-breaktrace.json"),
            {"tool.out": _capture("2.4/signaltest-breaktrace.txt")},
            "broke off at its trace limit",
        ),
        (_capture("2.4/signaltest-zero-cycles.json"), {}, r"thread 0 was never signalled \(0 cycles\)"),
        (GOOD, {"tool.err": b"WARN: Could not set CPU affinity to CPU #1\n"}, "threads are not bound: WARN"),
        (GOOD, {"tool.deadline": b"after 40 s\n"}, "stopped after 40 s"),
        ("", {}, "wrote no JSON"),
        (GOOD[:-9], {}, "JSON is damaged"),
        (GOOD.replace('"1": {', '"2": {'), {}, "reports threads 0, 2: 2 were asked for"),
        (_capture("2.4/signaltest-three.json"), {}, "reports threads 0, 1, 2: 2 were asked for"),
        (GOOD.replace('"max": 123', '"max": 93'), {}, "contradict each other"),
        (GOOD.replace('"min": 91', '"min": 94', 1), {}, "contradict each other"),
        ("0".join(GOOD.rsplit("2625", 1)), {}, "thread 1 was never signalled"),
        (GOOD.replace('"avg": 93.57', '"avg": "93"'), {}, "'avg' is '93', not a number"),
    ],
)
def test_what_is_refused_says_why(data: bytes | str, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(data, files=files)


def test_a_trace_limit_is_not_in_the_exit_code_and_not_in_the_json() -> None:
    assert json.loads(_capture("2.4/signaltest-breaktrace.json"))["return_code"] == 0
    assert _capture("2.4/signaltest-breaktrace.txt").endswith(b"rc=0\n")


@pytest.mark.parametrize("code", [1, 124, 143, 255])
def test_a_failed_run_is_refused_although_its_json_is_whole(code: int) -> None:
    with pytest.raises(ParseError, match=f"exit code {code}: no message"):
        _parse(GOOD, code=code)


def _clean_or_refused(data: bytes | str) -> None:
    try:
        found = _parse(data)
    except ParseError:
        return
    values = _values(found)
    assert all(math.isfinite(value) for value in values.values())
    assert values[("roundtrip.min", "0")] <= values[("roundtrip.avg", "0")] <= values[("roundtrip.max", "0")]
    assert min(values[("samples", "0")], values[("samples", "1")]) > 0


@examples(60)
@given(end=st.integers(0, len(GOOD.rstrip()) - 1))
def test_a_truncated_file_is_refused(end: int) -> None:
    with pytest.raises(ParseError):
        _parse(GOOD[:end])


@examples(150)
@given(edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), st.binary(max_size=6)), max_size=4))
def test_damaged_bytes_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    data = GOOD.encode()
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused(data)


@examples(150)
@given(
    path=st.sampled_from(
        [("thread",), ("thread", "0"), ("thread", "9"), *(("thread", "0", key) for key in ("cycles", "min", "avg"))]
    ),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers()),
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(path: tuple[str, ...], value: object) -> None:
    document: dict[str, Any] = json.loads(GOOD)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    _clean_or_refused(json.dumps(document))


@pytest.mark.parametrize(("cpus", "threads"), [(1, 2), (2, 2), (8, 8)])
def test_the_command_line_and_what_must_be_seen(cpus: int, threads: int) -> None:
    setting = Setting(cpus=cpus, duration_s=9.5, virtual_time=True)
    assert Signaltest(priority=80).argv(setting) == (
        *("signaltest", "--quiet", "--mlockall", "--priority=80", f"--threads={threads}", "--affinity"),
        *("--duration=10", "--json=signaltest.json"),
    )
    assert Signaltest(priority=80).expected(setting) == Expected(
        threads=(Threads(count=threads, policy=SCHED_FIFO, priority=80),),
        duration_s=10,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="samples", least=1600),),
        processors=cpus,
    )
    for free in (Signaltest(affinity=False), Signaltest(taskset="2")):
        assert free.expected(setting).processors == 0


def test_a_number_of_rounds_is_waited_for_as_long_as_a_time_may_hold_them() -> None:
    setting = Setting(cpus=4, duration_s=3600, virtual_time=False)
    (per_hour,) = Signaltest().expected(setting).counts
    assert Signaltest().expected(setting).work_s == 0
    assert Signaltest(loops=576_000).expected(setting).work_s == pytest.approx(3600 * 576_000 / per_hour.least)


@pytest.mark.parametrize(
    "capture", ["2.10/signaltest-virtual-idle.json", "2.10/signaltest-virtual-smp2-hackbench.json"]
)
def test_good_captures_hold_as_many_samples_as_are_asked_for(capture: str) -> None:
    (least,) = (entry.least for entry in TOOL.expected(VIRTUAL).counts)
    cpus = 2 if "smp2" in capture else 1
    found = _parse(_capture(capture), Setting(cpus=cpus, duration_s=2.0, virtual_time=True))
    assert min(one.quantity.value for one in found if one.name == "samples" and one.quantity) >= least
