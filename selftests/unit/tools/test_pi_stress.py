# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
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
from rtgate.tools.pi_stress import JSON, PiStress
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
ONE = Setting(cpus=1, duration_s=2.0, virtual_time=True)
GOOD = {
    JSON: (DATA / "2.10" / "pi_stress-virtual-idle.json").read_bytes(),
    "tool.out": (DATA / "2.10" / "pi_stress-virtual-idle.out").read_bytes(),
}
WATCHDOG = (DATA / "2.10" / "pi_stress-watchdog.err").read_bytes()
STOPPED = b"after 24 s\n"


def _parse(files: Mapping[str, bytes], exit_code: int = 0) -> tuple[Measurement, ...]:
    return PiStress().parse(Output(files=files, exit_code=exit_code, setting=ONE))


def _numbers(found: tuple[Measurement, ...]) -> dict[str, float]:
    assert {one.unit for one in found} == {Unit.COUNT}
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def _edited(old: str, new: str) -> dict[str, bytes]:
    assert old.encode() in GOOD[JSON]
    return {**GOOD, JSON: GOOD[JSON].replace(old.encode(), new.encode())}


@pytest.mark.parametrize(
    ("document", "text", "inversions"),
    [
        ("2.4/pi_stress.json", "2.4/pi_stress.txt", 91226),
        ("2.10/pi_stress-virtual-idle.json", "2.10/pi_stress-virtual-idle.out", 8725),
    ],
)
def test_a_capture_is_read(document: str, text: str, inversions: int) -> None:
    found = _parse({JSON: (DATA / document).read_bytes(), "tool.out": (DATA / text).read_bytes()})
    assert _numbers(found) == {"failures": 0, "inversions": inversions}
    assert {one.name: one.better for one in found} == {"failures": Better.LOWER, "inversions": Better.NEITHER}
    assert set(_numbers(found)) == set(PiStress.reports)


def test_a_group_that_stands_still_is_the_kernels_failure() -> None:
    # The tool ended itself by SIGTERM before it wrote anything else.
    assert _numbers(_parse({"tool.err": WATCHDOG, "tool.out": b""}, 143)) == {"failures": 1}


def test_the_groups_that_stand_still_are_counted_once_each() -> None:
    said = b"".join(b"WATCHDOG triggered: group %d is deadlocked!\n" % group for group in (0, 2, 2, 11))
    assert _numbers(_parse({"tool.err": said, "tool.deadline": STOPPED}, 137)) == {"failures": 3}


def test_a_run_that_never_ends_without_a_word_is_a_failure_too() -> None:
    # Seen: with its threads kept from running it had to be stopped, and both its outputs were empty.
    assert _numbers(_parse({"tool.out": b"", "tool.err": b"", "tool.deadline": STOPPED}, 143)) == {"failures": 1}


@pytest.mark.parametrize(
    ("files", "code", "reason"),
    [
        (
            {"tool.err": (DATA / "2.10" / "pi_stress-too-many-groups.err").read_bytes()},
            255,
            "exit code 255: the number of groups cannot exceed",
        ),
        ({"tool.err": b"low_priority[0]: not bound to 1\n", "tool.deadline": STOPPED}, 143, "stopped after 24 s"),
        ({**GOOD, "tool.deadline": STOPPED}, 0, "stopped after 24 s"),
        ({}, 143, "exit code 143: no message"),
        ({"tool.err": b"sh: pi_stress: not found\n"}, 127, "exit code 127: sh: pi_stress: not found"),
        ({**GOOD, JSON: b""}, 0, "wrote no JSON"),
        ({**GOOD, JSON: GOOD[JSON][:200]}, 0, "JSON is damaged"),
        ({**GOOD, "tool.out": b""}, 0, "printed no summary"),
        ({**GOOD, "tool.out": b"Total inversion performed: 12345678901234567890\n"}, 0, "printed no summary"),
        ({**GOOD, "tool.out": b"Total inversion performed: 8726\n"}, 0, "8726 and 8725 inversions"),
        (_edited('"inversion": 8725', '"inversion": 8724'), 0, "8725 and 8724 inversions"),
        (_edited('"inversion": 8725', '"inversions": 8725'), 0, "has no 'inversion'"),
        (_edited('"inversion": 8725', '"inversion": "8725"'), 0, "not a whole number"),
        (_edited('"return_code": 0', '"return_code": 1'), 0, "contradicts itself: exit code 0 and 1"),
        (
            {**_edited('"inversion": 8725', '"inversion": 0'), "tool.out": b"Total inversion performed: 0\n"},
            0,
            "brought about no inversion",
        ),
    ],
)
def test_what_is_refused_says_why(files: Mapping[str, bytes], code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(files, code)


def test_every_capture_is_in_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    captures = sorted(path for path in DATA.glob("*/pi_stress*") if path.parent.name != "2.6")  # test_versions.py
    assert len(captures) == 6
    assert not [path.name for path in captures if path.name not in text]


def test_the_command_line_and_what_must_be_seen_on_one_cpu() -> None:
    setting = Setting(cpus=1, duration_s=9.5, virtual_time=True)
    assert PiStress().argv(setting) == (
        *("pi_stress", "--quiet", "--duration=10", "--groups=1", "--json=pi_stress.json"),
    )
    assert PiStress().expected(setting) == Expected(
        threads=tuple(Threads(count=1, policy=1, priority=priority) for priority in (1, 2, 3)),
        duration_s=10,
        seen=ThreadScope.OWN,
        counts=(Count(measurement="inversions", least=1000),),
        clock=True,
        ends_with="failures",
    )
    assert PiStress.suites == ("scheduling",)


def test_the_first_cpu_of_several_has_no_group() -> None:
    setting = Setting(cpus=8, duration_s=10, virtual_time=False)
    assert "--groups=7" in PiStress().argv(setting)
    assert {threads.count for threads in PiStress().expected(setting).threads} == {7}


def test_round_robin_is_asked_for_and_expected() -> None:
    tool = PiStress(round_robin=True)
    assert "--rr" in tool.argv(ONE)
    assert {threads.policy for threads in tool.expected(ONE).threads} == {2}


def _clean_or_refused(files: Mapping[str, bytes], code: int) -> None:
    """Read it, or refuse it: nothing else may happen, and no failure comes out as a success."""
    try:
        numbers = _numbers(_parse(files, code))
    except ParseError:
        return
    if numbers["failures"] == 0:
        assert numbers["inversions"] > 0
        assert code == 0
        assert b"is deadlocked" not in files.get("tool.err", b"")
    else:
        assert set(numbers) == {"failures"}


@examples(150)
@given(
    edits=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 6), st.binary(max_size=6)), max_size=3),
    name=st.sampled_from([JSON, "tool.out"]),
    code=st.sampled_from([0, 0, 0, 1, 143]),
)
def test_damaged_bytes_are_read_or_refused(edits: list[tuple[int, int, bytes]], name: str, code: int) -> None:
    data = GOOD[name]
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused({**GOOD, name: data}, code)


@examples(150)
@given(
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(10**400),
    key=st.sampled_from(["inversion", "return_code"]),
)
def test_a_value_of_any_kind_is_read_or_refused(value: object, key: str) -> None:
    made: dict[str, Any] = json.loads(GOOD[JSON])
    made[key] = value
    _clean_or_refused({**GOOD, JSON: json.dumps(made).encode()}, 0)


@examples(100)
@given(
    out=st.binary(max_size=40) | st.just(GOOD["tool.out"]),
    err=st.binary(max_size=40) | st.just(b"") | st.just(WATCHDOG),
    stopped=st.sampled_from([b"", STOPPED]),
    code=st.integers(0, 255),
)
def test_garbage_is_read_or_refused(out: bytes, err: bytes, stopped: bytes, code: int) -> None:
    _clean_or_refused({JSON: GOOD[JSON], "tool.out": out, "tool.err": err, "tool.deadline": stopped}, code)


@examples(50)
@given(inversions=st.integers(1, 10**18 - 1))
def test_every_number_of_inversions_comes_out_as_it_went_in(inversions: int) -> None:
    document = json.dumps({"return_code": 0, "inversion": inversions}).encode()
    found = _parse({JSON: document, "tool.out": b"Total inversion performed: %d\n" % inversions})
    assert _numbers(found)["inversions"] == inversions
