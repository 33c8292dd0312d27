# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.hwlatdetect import Hwlatdetect
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.threads import SCHED_OTHER, Threads, ThreadScope
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
REAL = Setting(cpus=2, duration_s=5, virtual_time=False)
VIRTUAL = Setting(cpus=1, duration_s=5, virtual_time=True)
TOOL = Hwlatdetect(least_s=5)
FOUND = (DATA / "2.10" / "hwlatdetect-host-smp2.out").read_text()
QUIET = (DATA / "2.10" / "hwlatdetect-virtual-idle.out").read_text()


def _capture(name: str) -> str:
    return (DATA / name).read_text()


def _parse(
    out: str, err: str = "", code: int = 0, setting: Setting = REAL, tool: Hwlatdetect = TOOL
) -> tuple[Measurement, ...]:
    files = {"tool.out": out.encode(), "tool.err": err.encode()}
    return tool.parse(Output(files=files, exit_code=code, setting=setting))


def _numbers(measurements: tuple[Measurement, ...]) -> dict[str, tuple[float, Unit]]:
    numbers = {one.name: (one.quantity.value, one.quantity.unit) for one in measurements if one.quantity is not None}
    assert len(numbers) == len(measurements)
    return numbers


def test_gaps_are_counted_and_the_largest_is_told() -> None:
    found = _parse(FOUND)
    largest = max(int(value) for value in re.findall(r"(?:inner|outer):(\d+)", FOUND))
    gaps = sum(int(value) for value in re.findall(r"count:(\d+)", FOUND))
    assert (largest, gaps) == (4126, 1465)
    assert _numbers(found) == {
        "samples": (47, Unit.COUNT),
        "samples.exceeding": (1465, Unit.COUNT),
        "latency.max": (4126, Unit.US),
    }
    assert {one.better for one in found} == {Better.LOWER}


def test_nothing_over_the_threshold_is_no_latency_at_all() -> None:
    assert _numbers(_parse(QUIET, setting=VIRTUAL)) == {
        "samples": (0, Unit.COUNT),
        "samples.exceeding": (0, Unit.COUNT),
    }


def test_on_virtual_time_a_gap_is_virtual() -> None:
    assert _numbers(_parse(FOUND, setting=VIRTUAL))["latency.max"] == (4126, Unit.VIRTUAL_US)


@pytest.mark.parametrize(("drop", "gaps"), [(r", count:\d+", 47), (r", cpu:\d+, count:\d+", 47)])
def test_samples_of_older_versions_have_neither_count_nor_cpu(drop: str, gaps: int) -> None:
    old = re.sub(drop, "", FOUND).replace("exceeding threshold: 1465", f"exceeding threshold: {gaps}")
    old = re.sub(r"MTBF.*\n", "", old)
    assert _numbers(_parse(old))["samples.exceeding"] == (gaps, Unit.COUNT)


def test_watched_samples_stand_before_the_report() -> None:
    """`if not watch: detect.display()` ends src/hwlatdetect/hwlatdetect.py of 2.4 and of 2.10."""
    samples = "".join(re.findall(r"^ts: .*\n", FOUND, re.MULTILINE))
    watched = FOUND.replace(samples, "").replace("test finished\n", f"{samples}test finished\n")
    tool = Hwlatdetect(least_s=5, watch=True)
    assert _parse(watched, tool=tool) == _parse(FOUND)
    with pytest.raises(ParseError, match="lists 46"):
        _parse(watched.replace("\nts: ", "\nrs: ", 1), tool=tool)


def test_a_traceback_and_a_gap_have_the_same_exit_code() -> None:
    # So the hard limit is out of reach, and 1 is always an error.
    over = _capture("2.10/hwlatdetect-host-default-hardlimit.out")
    assert "Max Latency: 3016us" in over
    with pytest.raises(ParseError, match="ended with exit code 1"):
        _parse(over, code=1)
    with pytest.raises(ParseError, match=r"measured nothing: RuntimeError: Failed to mount debugfs \(exit code 1\)"):
        _parse("", _capture("2.10/hwlatdetect-no-debugfs.err"), code=1)
    assert "--hardlimit=3600s" in TOOL.argv(REAL)


@pytest.mark.parametrize(
    ("err", "code", "reason"),
    [
        (_capture("2.4/hwlatdetect-no-tracer.txt").removesuffix("rc=1\n"), 1, "hwlat tracer not available"),
        (_capture("2.10/hwlatdetect-bad-option.err"), 2, "unrecognized arguments: --nonsense"),
        ("setsid: can't execute 'hwlatdetect': No such file or directory\n", 127, r"No such file.*exit code 127"),
        ("", 0, r"measured nothing: no message \(exit code 0\)"),
    ],
)
def test_a_run_that_measured_nothing_says_why(err: str, code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse("", err, code)


def test_an_interrupted_run_reports_as_if_it_had_ended() -> None:
    broken = _capture("2.10/hwlatdetect-interrupted.out")
    assert "Max Latency:" in broken
    with pytest.raises(ParseError, match="was interrupted"):
        _parse(broken, tool=Hwlatdetect(least_s=8))


def test_a_stopped_run_is_refused() -> None:
    output = Output(files={"tool.out": FOUND.encode(), "tool.deadline": b"after 30 s\n"}, exit_code=0, setting=REAL)
    with pytest.raises(ParseError, match="was stopped after 30 s"):
        TOOL.parse(output)
    silent = Output(files={"tool.deadline": b"after 30 s\n"}, exit_code=143, setting=REAL)
    with pytest.raises(ParseError, match="was stopped after 30 s"):
        TOOL.parse(silent)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("test duration 5 seconds", "test duration 4 seconds", "measured for 5 s"),
        ("Sample width:      50000us", "Sample width:      5000us", "'Sample width': 5000"),
        ("        Sample window:      100000us\n", "", "measured with"),
        ("Latency threshold: 10us", "Latency threshold: 0us", "'Latency threshold': 0"),
        ("Samples recorded: 47", "Samples recorded: 46", "contradicts itself: it reports 46 samples.* lists 47"),
        ("exceeding threshold: 1465", "exceeding threshold: 1466", "1465, at most 4126"),
        ("Max Latency: 4126us", "Max Latency: 4125us", "at most 4125 us, and lists"),
        ("Max Latency: 4126us", "Max Latency: Below threshold", "at most 0 us, and lists 47"),
        ("Samples recorded: 47\n", "", "report is damaged: 0"),
        ("Max Latency: 4126us", "Max Latency: us", "report is damaged: 0"),
        ("\nts: ", "\nrs: ", "lists 46"),
        (", inner:", ", inner:-", "lists 46"),
    ],
)
def test_what_contradicts_itself_is_refused(before: str, after: str, reason: str) -> None:
    assert before in FOUND
    with pytest.raises(ParseError, match=reason):
        _parse(FOUND.replace(before, after, 1))


def test_two_reports_are_one_too_many() -> None:
    with pytest.raises(ParseError, match="does not say that it measured for 5 s"):
        _parse(FOUND + FOUND)
    report = re.search(r"Max Latency.*\nSamples.*\nSamples.*\n", QUIET)
    assert report is not None
    with pytest.raises(ParseError, match="report is damaged: 2"):
        _parse(QUIET + report[0], setting=VIRTUAL)


@examples(60)
@given(end=st.integers(0, len(FOUND) - 1))
def test_a_truncated_output_is_refused_or_whole(end: int) -> None:
    if end >= len(FOUND.rstrip()):
        assert _parse(FOUND[:end]) == _parse(FOUND)
    else:
        with pytest.raises(ParseError):
            _parse(FOUND[:end])


@examples(200)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(FOUND)), st.integers(0, 8), st.text("0123456789 :,u\nx", max_size=6)))
)
def test_damaged_text_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = FOUND
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        numbers = _numbers(_parse(text))
    except ParseError:
        return
    assert numbers["samples.exceeding"][0] >= numbers["samples"][0] > 0
    assert numbers["latency.max"][0] > 0


@examples(100)
@given(samples=st.lists(st.tuples(st.integers(11, 10**6), st.integers(0, 10**6), st.integers(1, 100)), max_size=6))
def test_what_is_listed_is_what_is_reported(samples: list[tuple[int, int, int]]) -> None:
    lines = [f"ts: 1.5, inner:{inner}, outer:{outer}, cpu:0, count:{count}" for inner, outer, count in samples]
    largest = max((max(inner, outer) for inner, outer, _ in samples), default=0)
    gaps = sum(count for *_, count in samples)
    told = f"{largest}us" if largest else "Below threshold"
    head = QUIET[: QUIET.index("Max Latency")]
    report = f"Max Latency: {told}\nSamples recorded: {len(samples)}\nSamples exceeding threshold: {gaps}\n"
    numbers = _numbers(_parse(head + report + "".join(f"{line}\n" for line in lines)))
    assert (numbers["samples"][0], numbers["samples.exceeding"][0]) == (len(samples), gaps)
    assert ("latency.max" in numbers) == bool(samples)


def test_the_command_line_and_what_it_must_be_seen_to_do() -> None:
    setting = Setting(cpus=4, duration_s=59.5, virtual_time=False)
    tool = Hwlatdetect(threshold_us=20, window_us=1_000_000, width_us=500_000)
    assert tool.argv(setting) == (
        *("hwlatdetect", "--duration=60s", "--hardlimit=3600s"),
        *("--threshold=20us", "--window=1000000us", "--width=500000us"),
    )
    assert tool.expected(setting) == Expected(
        threads=(Threads(count=2, policy=SCHED_OTHER, priority=0),),
        duration_s=60,
        seen=ThreadScope.SYSTEM,
        name="hwlatd",
    )


def test_a_short_profile_leaves_time_for_python_to_start() -> None:
    assert Hwlatdetect().argv(VIRTUAL)[1] == "--duration=16s"
    assert Hwlatdetect().expected(VIRTUAL).duration_s == 16


def test_it_is_skipped_without_the_tracer() -> None:
    assert [need.reason for need in Hwlatdetect.needs] == [
        "the kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)",
        "the kernel has no debugfs (CONFIG_DEBUG_FS)",
    ]
    assert Hwlatdetect.image == "full"
