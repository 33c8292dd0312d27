# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.hackbench import Hackbench
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOL = Hackbench()
REAL = Setting(cpus=2, duration_s=10, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=10, virtual_time=True)
GOOD = (DATA / "2.4" / "hackbench-two-groups.out").read_text()


def _capture(name: str) -> str:
    return (DATA / name).read_text()


def _parse(
    text: str,
    setting: Setting = REAL,
    tool: Hackbench = TOOL,
    code: int = 0,
    files: Mapping[str, bytes] | None = None,
) -> tuple[Measurement, ...]:
    return tool.parse(Output(files={"tool.out": text.encode(), **(files or {})}, exit_code=code, setting=setting))


@pytest.mark.parametrize(
    ("text", "setting", "tool", "microseconds"),
    [
        (GOOD, REAL, TOOL, 462_000),
        (
            re.sub(r"rc=0\n\Z", "", _capture("2.4/hackbench.txt")),
            REAL,
            Hackbench(senders=20, loops=50),
            51_000,
        ),
        (_capture("2.10/hackbench-virtual-idle.out"), VIRTUAL, TOOL, 590_000),
        (
            _capture("2.10/hackbench-virtual-smp2-idle.out"),
            Setting(cpus=2, duration_s=10, virtual_time=True),
            TOOL,
            1_205_000,
        ),
    ],
    ids=["2.4", "2.4 as a load", "2.10 on one CPU", "2.10 on two CPUs"],
)
def test_a_capture_is_read(text: str, setting: Setting, tool: Hackbench, microseconds: int) -> None:
    (found,) = _parse(text, setting, tool)
    assert found.quantity is not None
    assert (found.name, found.quantity.value, found.better) == ("duration", microseconds, Better.LOWER)
    assert found.unit is (Unit.VIRTUAL_US if setting.virtual_time else Unit.US)
    assert {found.name} == set(TOOL.reports)


@pytest.mark.parametrize("capture", ["hackbench-sigterm", "hackbench-receiver-killed"])
def test_a_run_that_lost_a_process_or_was_stopped_prints_a_time_and_ends_with_0(capture: str) -> None:
    text, said = _capture(f"2.4/{capture}.out"), (DATA / "2.4" / f"{capture}.err").read_bytes()
    assert re.search(r"^Time: [0-9.]+$", text, re.MULTILINE)
    with pytest.raises(ParseError, match=r"did not do all its work: (Signal 15 caught|SENDER: write)"):
        _parse(text, tool=Hackbench(loops=100_000), files={"tool.err": said})
    with pytest.raises(ParseError, match="printed no time, or something else"):
        _parse(text, tool=Hackbench(loops=100_000))


@pytest.mark.parametrize(
    ("text", "code", "files", "reason"),
    [
        ("", 0, {}, "printed no time, or something else: nothing"),
        (GOOD.replace("Time: 0.462\n", ""), 0, {}, "printed no time"),
        (GOOD.replace("Time: 0.462\n", "Time: 0.462"), 0, {}, "printed no time"),
        (GOOD.replace("0.462", "18446744073709551615.462"), 0, {}, "printed no time"),
        (GOOD.replace("0.462", "-1.462"), 0, {}, "printed no time"),
        (GOOD.replace("0.462", "0.46"), 0, {}, "printed no time"),
        (GOOD.replace("0.462", "nan"), 0, {}, "printed no time"),
        (GOOD.replace("0.462", "0.000"), 0, {}, "less than the millisecond"),
        (GOOD * 2, 0, {}, "printed no time"),
        (GOOD + "Time: 0.100\n", 0, {}, "printed no time"),
        (GOOD.replace("2 groups", "1 groups"), 0, {}, r"other work than it was asked for: \('process', 1, 20"),
        (GOOD.replace("1000 messages", "100 messages"), 0, {}, "other work"),
        (GOOD.replace("100 bytes", "10 bytes"), 0, {}, "other work"),
        (GOOD.replace("40 tasks", "39 tasks"), 0, {}, "other work"),
        (GOOD.replace("20 file", "40 file"), 0, {}, "other work"),
        (GOOD.replace("process mode", "threaded mode"), 0, {}, "other work"),
        (GOOD, 1, {"tool.err": b"fork() (error: Cannot allocate memory)\n"}, r"exit code 1: fork\(\) \(error: Cannot"),
        (GOOD, 0, {"tool.deadline": b"after 20 s\n"}, "stopped after 20 s"),
        (GOOD, 137, {}, "exit code 137"),
    ],
)
def test_what_is_refused_says_why(text: str, code: int, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(text, code=code, files=files)


@given(milliseconds=st.integers(1, 10**9))
def test_any_time_comes_out_as_it_was_printed(milliseconds: int) -> None:
    text = GOOD.replace("0.462", f"{milliseconds // 1000}.{milliseconds % 1000:03}")
    (found,) = _parse(text)
    assert found.quantity is not None
    assert found.quantity.value == milliseconds * 1000


@examples(300)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), st.text(max_size=6)), min_size=1, max_size=3)
)
def test_damaged_output_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        (found,) = _parse(text)
    except ParseError:
        return
    printed = re.search(r"^Time: ([0-9]+)\.([0-9]{3})\n\Z", text, re.MULTILINE)
    assert printed is not None
    assert found.quantity is not None
    assert found.quantity.value == int(printed[1] + printed[2]) * 1000 > 0


@pytest.mark.parametrize(
    ("setting", "groups", "loops"),
    [(VIRTUAL, 1, 100), (REAL, 2, 1000), (Setting(cpus=8, duration_s=60, virtual_time=False), 8, 1000)],
)
def test_the_work_grows_with_the_cpus_and_not_with_the_profile(setting: Setting, groups: int, loops: int) -> None:
    assert TOOL.argv(setting) == (
        *("hackbench", "--groups", str(groups), "--fds", "10", "--loops", str(loops), "--datasize", "100"),
    )


def test_what_must_be_seen_is_a_run_of_at_least_any_length() -> None:
    assert TOOL.suites == ("scheduling",)
    expected = Expected(threads=(), duration_s=0.05, work_s=60, clock=True)
    assert TOOL.expected(REAL) == expected


@pytest.mark.parametrize(
    ("tool", "setting", "work_s"),
    [
        (TOOL, VIRTUAL, 6),
        (TOOL, Setting(cpus=2, duration_s=10, virtual_time=True), 12),  # CPUs take turns there
        (TOOL, Setting(cpus=8, duration_s=10, virtual_time=False), 60),
        (Hackbench(groups=15, senders=25, loops=200), Setting(cpus=4, duration_s=10, virtual_time=False), 281.25),
    ],
)
def test_more_work_may_take_longer(tool: Hackbench, setting: Setting, work_s: float) -> None:
    assert tool.expected(setting).work_s == pytest.approx(work_s)
