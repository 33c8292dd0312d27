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
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_migrate_test import JSON, RtMigrateTest
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOL = RtMigrateTest()


def _setting(cpus: int, rounds: int, *, virtual: bool = False) -> Setting:
    return Setting(cpus=cpus, duration_s=rounds / 5, virtual_time=virtual)


def _text(name: str) -> str:
    """Return a capture without the line `rc=N` of the shell that ran it."""
    return re.sub(r"rc=\d+\n\Z", "", (DATA / name).read_text())


PASSED = (_text("2.4/rt-migrate-test-three.json"), _text("2.4/rt-migrate-test-three.out"))
FAILED = (
    _text("2.10/rt-migrate-test-virtual-smp2-failed.json"),
    _text("2.10/rt-migrate-test-virtual-smp2-failed.out"),
)
TWO_CPUS = _setting(2, 5)


def _parse(
    run: tuple[str, str], setting: Setting = TWO_CPUS, code: int = 0, files: Mapping[str, bytes] | None = None
) -> tuple[Measurement, ...]:
    both = {JSON: run[0].encode(), "tool.out": run[1].encode(), "tool.err": b"\n"}
    return TOOL.parse(Output(files={**both, **(files or {})}, exit_code=code, setting=setting))


def _values(found: tuple[Measurement, ...]) -> dict[str, float]:
    return {f"{one.name} {one.label}".strip(): one.quantity.value for one in found if one.quantity is not None}


def _tasks(*tasks: tuple[int, int, int]) -> dict[str, float]:
    return {
        f"latency.{name} priority {2 + number} task {number}": value
        for number, task in enumerate(tasks)
        for name, value in zip(("min", "avg", "max"), task, strict=True)
    }


@pytest.mark.parametrize(
    ("name", "setting", "code", "failures", "rounds", "tasks"),
    [
        ("2.4/rt-migrate-test", _setting(1, 3), 0, 0, 3, [(31, 33, 35), (28, 29, 30)]),
        (
            "2.10/rt-migrate-test-virtual-idle",
            _setting(1, 10, virtual=True),
            0,
            0,
            10,
            [(20080, 20085, 20106), (62, 67, 88)],
        ),
        (
            "2.10/rt-migrate-test-virtual-smp2-failed",
            _setting(2, 10, virtual=True),
            255,
            1,
            2,
            [(20103, 20607, 21112), (946, 20571, 40197), (82, 106, 131)],
        ),
    ],
)
def test_a_capture_is_read(
    name: str, setting: Setting, code: int, failures: int, rounds: int, tasks: list[tuple[int, int, int]]
) -> None:
    text = "txt" if name.startswith("2.4") else "out"
    found = _parse((_text(f"{name}.json"), _text(f"{name}.{text}")), setting, code)
    assert _values(found) == {"failures": failures, "rounds": rounds, **_tasks(*tasks)}
    assert {one.name for one in found} == set(TOOL.reports)
    assert {one.unit for one in found} == {Unit.COUNT, Unit.VIRTUAL_US if setting.virtual_time else Unit.US}
    assert {one.name for one in found if one.better is not Better.LOWER} == {"rounds"}


def test_a_failure_of_the_kernel_is_a_measurement_and_no_error() -> None:
    found = _values(_parse(FAILED, _setting(2, 10, virtual=True), 255))
    assert (found["failures"], found["rounds"]) == (1, 2)


def test_a_run_by_time_ends_with_1_after_it_passed_so_it_is_never_asked_for() -> None:
    run = (_text("2.4/rt-migrate-test-duration.json"), _text("2.4/rt-migrate-test-duration.txt"))
    assert " Passed!" in run[1]
    with pytest.raises(ParseError, match="ended with exit code 1"):
        _parse(run, _setting(1, 10), 1)
    assert not any(word.startswith(("-D", "--duration")) for word in TOOL.argv(TWO_CPUS))


def _damaged(old: str, new: str) -> tuple[str, str]:
    assert old in PASSED[0], old
    return PASSED[0].replace(old, new, 1), PASSED[1]


@pytest.mark.parametrize(
    ("run", "code", "files", "reason"),
    [
        (PASSED, 255, {}, "exit code 255 and the verdict Passed"),
        (PASSED, 255, {"tool.out": b"", "tool.err": b"malloc: Cannot allocate memory"}, "verdict none: malloc: Cannot"),
        ((PASSED[0], PASSED[1].replace("Passed", "Failed")), 0, {}, "exit code 0 and the verdict Failed"),
        ((PASSED[0], PASSED[1].replace("Passed", "Failed")), 255, {}, "return_code contradicts its exit code 255"),
        ((PASSED[0], PASSED[1] * 2), 0, {}, "verdict Passed and Passed"),
        ((PASSED[0], PASSED[1].replace(" Passed!", "")), 0, {}, "verdict none"),
        ((PASSED[0], PASSED[1].replace(" len: ", " Len: ", 1)), 0, {}, "reports 4 rounds of 5"),
        (PASSED, 0, {"tool.err": b"Warning, can't set priorities\n\n"}, "without its priorities: Warning, can't set"),
        (PASSED, 0, {"tool.err": b"Warning, can't set priority of main thread!\n"}, "without its priorities"),
        (PASSED, 0, {"tool.deadline": b"after 24 s\n"}, "stopped after 24 s"),
        (PASSED, 139, {}, "exit code 139"),
        (PASSED, 0, {JSON: b""}, "wrote no JSON"),
        ((PASSED[0][:200], PASSED[1]), 0, {}, "JSON is damaged"),
        (_damaged('"return_code": 0', '"return_code": 1'), 0, {}, "return_code contradicts its exit code 0"),
        (_damaged('"prio": 3', '"prio": 2'), 0, {}, r"priorities \[2, 2, 4\], not \[2, 3, 4\]"),
        (_damaged('"2": {', '"3": {'), 0, {}, r"priorities \[2, 3, 4\], not"),
        (_damaged('"total": ', '"total": 9'), 0, {}, "contradict each other"),
        (_damaged('"max": ', '"max": -'), 0, {}, "contradict each other"),
        (_damaged('"min": ', '"min": -'), 0, {}, "clock was set back"),
        (_damaged('"max": ', '"max": 18446744073709'), 0, {}, "is .*, not a whole number|clock was set back"),
        (_damaged('"avg": ', '"mean": '), 0, {}, "has no 'avg'"),
    ],
)
def test_what_is_refused_says_why(run: tuple[str, str], code: int, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(run, TWO_CPUS, code, files)


@pytest.mark.parametrize(("rounds", "asked"), [(2, 1), (0, 5)])
def test_a_failed_run_has_at_least_one_round_and_no_more_than_asked_for(rounds: int, asked: int) -> None:
    text = FAILED[1] if rounds else FAILED[1].replace(" len: ", " Len: ")
    with pytest.raises(ParseError, match=f"reports {rounds} rounds of {asked}"):
        _parse((FAILED[0], text), _setting(2, asked, virtual=True), 255)


def test_a_board_with_another_number_of_cpus_is_refused() -> None:
    with pytest.raises(ParseError, match=r"not \[2, 3, 4, 5\]"):
        _parse(PASSED, _setting(3, 5))


def test_a_clock_that_was_set_back_is_no_latency() -> None:
    document = json.loads(PASSED[0])
    late = (2**64 - 3_000_000_000) // 1000  # nanoseconds without a sign, printed as microseconds
    document["thread"]["0"] |= {"max": late, "total": late, "avg": late // 5}
    with pytest.raises(ParseError, match="clock was set back"):
        _parse((json.dumps(document), PASSED[1]))


@examples(100)
@given(tasks=st.lists(st.lists(st.integers(0, 10**9), min_size=5, max_size=5), min_size=3, max_size=3))
def test_the_tool_s_own_numbers_are_always_read(tasks: list[list[int]]) -> None:
    """The tool adds nanoseconds and prints the sum, and its fifth, in whole microseconds."""
    document = json.loads(PASSED[0])
    for number, times in enumerate(tasks):
        total = sum(times) // 1000
        low, high = min(times) // 1000, max(times) // 1000
        document["thread"][str(number)] |= {"min": low, "avg": total // 5, "max": high, "total": total}
    found = _values(_parse((json.dumps(document), PASSED[1])))
    assert [found[f"latency.max priority {2 + task} task {task}"] for task in range(3)] == [
        max(times) // 1000 for times in tasks
    ]


def _clean_or_refused(run: tuple[str, str], code: int) -> None:
    try:
        found = _parse(run, TWO_CPUS, code)
    except ParseError:
        return
    assert all(one.quantity is not None and 0 <= one.quantity.value < math.inf for one in found)


EDITS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 6), st.text(max_size=6)), max_size=4)


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    return text


@examples(200)
@given(of_json=EDITS, of_text=EDITS, code=st.sampled_from([0, 255]))
def test_damaged_output_is_read_or_refused(
    of_json: list[tuple[int, int, str]], of_text: list[tuple[int, int, str]], code: int
) -> None:
    _clean_or_refused((_edited(PASSED[0], of_json), _edited(PASSED[1], of_text)), code)


@examples(200)
@given(
    task=st.sampled_from(["0", "2", "7"]),
    key=st.sampled_from(["prio", "min", "avg", "max", "total"]),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({}),
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(task: str, key: str, value: Any) -> None:
    document = json.loads(PASSED[0])
    document["thread"].setdefault(task, {})[key] = value
    _clean_or_refused((json.dumps(document), PASSED[1]), 0)


@pytest.mark.parametrize(("seconds", "rounds"), [(10, 50), (60, 300), (2, 10), (0.01, 1), (9.9, 50)])
def test_the_command_line_asks_for_a_check_and_for_rounds(seconds: float, rounds: int) -> None:
    setting = Setting(cpus=4, duration_s=seconds, virtual_time=False)
    assert RtMigrateTest(priority=10, late_us=500).argv(setting) == (
        *("rt-migrate-test", "--quiet", "--check", "--prio=10", "--maxerr=500"),
        *(f"--loops={rounds}", "--json=rt-migrate-test.json", "5"),
    )


def test_on_virtual_time_only_a_task_that_got_no_cpu_is_late() -> None:
    setting = Setting(cpus=2, duration_s=10, virtual_time=True)
    assert "--maxerr=100000" in RtMigrateTest(late_us=500).argv(setting)


def test_what_must_be_seen_is_all_rounds_and_each_task_at_its_own_priority() -> None:
    assert TOOL.expected(Setting(cpus=4, duration_s=10, virtual_time=False)) == Expected(
        # Five tasks, and the main thread above them.
        threads=tuple(Threads(count=1, policy=SCHED_FIFO, priority=priority) for priority in range(2, 8)),
        duration_s=10,
        seen=ThreadScope.SESSION,
        counts=(Count(measurement="rounds", least=50),),
        clock=True,
        ends_with="failures",
    )


def test_it_needs_two_cpus() -> None:
    assert TOOL.suites == ("scheduling",)
    assert [need.reason.split(":")[0] for need in TOOL.required()] == ["needs two CPUs"]
