# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.measurement import Better, Histogram, Measurement
from rtgate.threads import Seen
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.queuelat import Queuelat
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOL = Queuelat(search_s=9)
REAL = Setting(cpus=2, duration_s=1, virtual_time=False)
VIRTUAL = Setting(cpus=2, duration_s=1, virtual_time=True)
GOOD = (DATA / "2.10" / "queuelat-x86_64-complete.out").read_text()
EXCEEDED = (DATA / "2.10" / "queuelat-x86_64-exceeded.out").read_text()
START = GOOD[: GOOD.index("default_n=")] + "default_n=131000 nr_packets_drain_per_block=2772\n"


def _parse(
    text: str, setting: Setting = REAL, tool: Queuelat = TOOL, code: int = 0, files: Mapping[str, bytes] | None = None
) -> tuple[Measurement, ...]:
    return tool.parse(Output(files={"tool.out": text.encode(), **(files or {})}, exit_code=code, setting=setting))


def _values(found: tuple[Measurement, ...]) -> dict[str, float]:
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def _histogram(found: tuple[Measurement, ...]) -> Histogram:
    (histogram,) = (one.histogram for one in found if one.histogram is not None)
    return histogram


@pytest.mark.parametrize(
    ("capture", "exceeded", "loops", "overflow", "buckets"),
    [
        ("2.10/queuelat-x86_64-complete.out", 0, 325_802, 376, 207),
        ("2.10/queuelat-x86_64-exceeded.out", 1, 233, 1, 3),
        ("2.10/queuelat-host-exceeded.out", 1, 2, 2, 0),
    ],
)
def test_a_capture_is_read(capture: str, exceeded: int, loops: int, overflow: int, buckets: int) -> None:
    found = _parse((DATA / capture).read_text())
    assert _values(found) == {"queue.exceeded": exceeded, "loops": loops}
    histogram = _histogram(found)
    assert (histogram.total, histogram.overflow, len(histogram.counts)) == (loops, overflow, buckets)
    assert (histogram.unit, histogram.limit) == (Unit.NS, 70_000)
    assert {one.name for one in found} == set(TOOL.reports)
    assert {one.name: one.better for one in found} == {
        "queue.exceeded": Better.LOWER,
        "loop": Better.LOWER,
        "loops": Better.NEITHER,
    }


def test_a_row_of_equal_buckets_is_printed_as_its_last_one_and_read_as_all() -> None:
    assert "[4800 - 4899] = 10\n...\n[5200 - 5299] = 5\n[5300 - 5399] = 4\n" in GOOD
    counts = _histogram(_parse(GOOD)).counts
    assert [counts[value] for value in range(4800, 5400, 100)] == [10, 5, 5, 5, 5, 4]
    assert 2500 not in counts  # printed, with a count of 0


def test_virtual_time_has_a_unit_of_its_own() -> None:
    assert _histogram(_parse(GOOD, VIRTUAL)).unit is Unit.VIRTUAL_NS


@pytest.mark.parametrize("capture", ["2.4/queuelat-calibration-only.txt", "2.10/queuelat-virtual-idle.out"])
def test_a_run_that_ends_in_its_calibration_prints_a_summary_and_is_refused(capture: str) -> None:
    text = re.sub(r"rc=0\n\Z", "", (DATA / capture).read_text())
    assert "Avg loop processing time: " in text
    with pytest.raises(ParseError, match=r"never left its calibration.*copy takes 10000 ns: it measured nothing"):
        _parse(text)


def test_without_a_trace_marker_it_ends_with_0_and_measures_nothing() -> None:
    text, said = (DATA / "2.10" / f"queuelat-x86_64-no-trace-marker.{kind}" for kind in ("out", "err"))
    assert "default_n=" in text.read_text()
    with pytest.raises(ParseError, match="printed no result: open: No such file or directory"):
        _parse(text.read_text(), files={"tool.err": said.read_bytes()})


def test_a_run_that_measured_for_too_short_a_time_is_refused_unless_the_queue_overflowed() -> None:
    longer = Setting(cpus=2, duration_s=2, virtual_time=False)
    with pytest.raises(ParseError, match=r"measured for 0\.9 s of the 2 s .* calibration took the rest of 11 s"):
        _parse(GOOD, longer)
    assert _values(_parse(EXCEEDED, longer))["queue.exceeded"] == 1


def test_a_clock_that_goes_back_every_second_is_no_failure_of_the_kernel() -> None:
    # The size that a build for arm64 with the clock of 2.7 printed on an emulated board.
    impossible = EXCEEDED.replace("queue_size=36481", "queue_size=2147482400")
    with pytest.raises(ParseError, match=r"has 2147482400 packets, and in the whole run only 50000000 arrive"):
        _parse(impossible)
    assert _values(_parse(EXCEEDED.replace("queue_size=36481", "queue_size=50000000")))["queue.exceeded"] == 1


def _damaged(old: str, new: str) -> str:
    assert old in GOOD, old
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("text", "code", "files", "reason"),
    [
        ("", 0, {}, r"never left its calibration.*\(no output\)"),
        ("error, did not find right bucket with < 10% of total\n", 0, {}, r"\(error, did not find right bucket"),
        ("", 0, {"tool.err": b"queuelat: boom\n"}, r"never left .*\(queuelat: boom\)"),
        ("options -m, -c, -p and -f are required\n", 1, {}, "exit code 1: options -m"),
        ("", 127, {"tool.err": b"sh: queuelat: not found\n"}, "exit code 127: sh: queuelat: not found"),
        ("", 1, {"tool.err": b"chrt: Operation not permitted\n"}, "exit code 1: chrt"),
        (GOOD, 0, {"tool.deadline": b"after 40 s\n"}, "stopped after 40 s"),
        (GOOD, 137, {}, "exit code 137"),
        (START, 0, {}, "printed no result: "),
        (START + "failure to allocate 131000 bytes  for dest\n", 0, {}, "printed no result: failure to allocate"),
        (GOOD[:-40], 0, {}, "printed no result"),
        (GOOD + "more\n", 0, {}, "printed no result"),
        (_damaged("Avg loop processing time: 2910", "Avg loop processing time: 2909"), 0, {}, "average is not 2909"),
        (_damaged("[2700 - 2799] = 307289\n", ""), 0, {}, r"damaged at \[2800 - 2899\]"),
        (_damaged("[2700 - 2799] = 307289", "[2750 - 2799] = 307289"), 0, {}, r"damaged at \[2750 - 2799\]"),
        (_damaged("[2700 - 2799] = 307289", "[2600 - 2799] = 307289"), 0, {}, r"damaged at \[2600 - 2799\]"),
        (_damaged("[2700 - 2799] = 307289", "...\n[2700 - 2799] = 307289"), 0, {}, r"damaged at \[2700 - 2799\]"),
        (_damaged("[2700 - 2799] = 307289", "[2700 - 2799] = -1"), 0, {}, "printed no result"),
        (_damaged("[2700 - 2799] = 307289", "[2700 - 2799] = 307288"), 0, {}, None),
    ],
)
def test_what_is_refused_says_why(text: str, code: int, files: dict[str, bytes], reason: str | None) -> None:
    if reason is None:  # one copy less than an average in whole nanoseconds can tell
        assert _values(_parse(text, code=code, files=files))["loops"] == 325_801
        return
    with pytest.raises(ParseError, match=reason):
        _parse(text, code=code, files=files)


def test_an_empty_histogram_is_refused() -> None:
    empty = "...\n[70000 - END] = 0\n\n ---------------- \n"
    summary = "".join(f"{name} loop processing time: [0 - 99] = 0\n" for name in ("Min", "Max"))
    with pytest.raises(ParseError, match="histogram is damaged"):
        _parse(f"{START}{empty}{summary}Avg loop processing time: 0\n")


def _printed(buckets: list[int]) -> str:
    """Return what `print_exit_info` of queuelat.c prints of 701 buckets."""
    lines, skipped = [], False
    for number, samples in enumerate(buckets):
        last = number == len(buckets) - 1
        if not last and samples == buckets[number + 1]:
            skipped = True
            continue
        lines += ["..."] if skipped else []
        skipped = False
        lines.append(f"[{number * 100} - {'END' if last else number * 100 + 99}] = {samples}")
    used = [number for number, samples in enumerate(buckets) if samples]
    mean = sum((number * 100 + 99) * samples for number, samples in enumerate(buckets)) // sum(buckets)
    low, high = min(used), max(used)
    lines += ["", " ---------------- "]
    lines.append(f"Min loop processing time: [{low * 100} - {low * 100 + 99}] = {buckets[low]}")
    lines.append(f"Max loop processing time: [{high * 100} - {high * 100 + 99}] = {buckets[high]}")
    return "\n".join([*lines, f"Avg loop processing time: {mean}", ""])


def test_the_printing_of_these_tests_is_that_of_the_tool() -> None:
    counts = dict(_histogram(_parse(GOOD)).counts) | {70_000: 376}
    buckets = [counts.get(number * 100, 0) for number in range(701)]
    assert GOOD.endswith("nr_packets_drain_per_block=2772\n" + _printed(buckets))


@settings(max_examples=100)
@given(
    runs=st.lists(st.tuples(st.integers(0, 700), st.integers(1, 40), st.integers(0, 10**9)), min_size=1, max_size=12)
)
def test_any_histogram_comes_out_as_it_was_printed(runs: list[tuple[int, int, int]]) -> None:
    buckets = [0] * 701
    for first, length, samples in runs:
        buckets[first : first + length] = [samples] * len(buckets[first : first + length])
    if not sum(buckets):
        buckets[30] = 1
    full = f"{START}queue length exceeded:  queue_size=80 max_queue_len=79\n{_printed(buckets)}"
    histogram = _histogram(_parse(full))
    assert histogram.total == sum(buckets)
    assert histogram.overflow == buckets[700]
    assert dict(histogram.counts) == {number * 100: samples for number, samples in enumerate(buckets[:700]) if samples}


@settings(max_examples=150)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(EXCEEDED)) | st.integers(len(EXCEEDED) - 400, len(EXCEEDED)),  # the part that is read
            st.integers(0, 20),
            st.text("0123456789[]-. \nEND=", max_size=8),
        ),
        max_size=4,
    )
)
def test_damaged_output_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = EXCEEDED
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        found = _parse(text)
    except ParseError:
        return
    assert _histogram(found).total == _values(found)["loops"] > 0


def test_the_command_line_takes_the_counter_s_frequency_from_the_kernel() -> None:
    shell, option, command = TOOL.argv(Setting(cpus=4, duration_s=9.5, virtual_time=False))
    assert (shell, option) == ("sh", "-c")
    assert command.endswith(
        "exec taskset 8 chrt -f 1 queuelat -m 20000 -c $((100 * ${f%.*} / 1000)) -p 5 -f $f -q 199 -t 19"
    )
    (_, _, bound) = TOOL.argv(Setting(cpus=2, duration_s=9.5, virtual_time=False, cpu_list="4-5"))
    assert "taskset 20 chrt" in bound


@pytest.mark.parametrize(
    ("machine", "log", "options"),
    [
        ("aarch64", "", "-c 100 -p 5 -f 1000 -q"),
        ("x86_64", "[    0.0] tsc: Detected 2599.998 MHz processor", "-c 259 -p 5 -f 2599.998 -q"),
        (
            "x86_64",
            "tsc: Detected 2600.000 MHz processor\ntsc: Detected 2592.000 MHz TSC",
            "-c 259 -p 5 -f 2592.000 -q",
        ),
        ("i686", "tsc: Detected 1000.000 MHz processor", "-c 100 -p 5 -f 1000.000 -q"),
    ],
)
def test_what_the_shell_makes_of_it(tmp_path: Path, machine: str, log: str, options: str) -> None:
    (tmp_path / "log").write_text(log + "\n")
    for name, body in (("uname", f"echo {machine}"), ("dmesg", f"cat {tmp_path}/log"), ("taskset", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        TOOL.argv(REAL), env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert options in done.stdout


@pytest.mark.parametrize(
    ("printed", "met"),
    [
        ("Min loop processing time: [0 - 99] = 29481", False),  # as Debian's 2.10 on arm64
        ("Min loop processing time: [400 - 499] = 12", True),
        ("Min loop processing time: [0 - 99] = 0", True),
    ],
)
def test_a_program_that_copies_nothing_is_found_out(tmp_path: Path, printed: str, met: bool) -> None:
    (tmp_path / "queuelat").write_text(f"#!/bin/sh\necho '{printed}'\n")
    (tmp_path / "queuelat").chmod(0o755)
    (need,) = (need for need in TOOL.needs if "compiler" in need.reason)
    done = subprocess.run(["sh", "-c", need.test], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert (done.returncode == 0) is met


def test_what_must_be_seen_is_a_run_with_its_search_and_no_thread_since_a_full_queue_ends_it() -> None:
    assert TOOL.suites == ("latency",)
    setting = Setting(cpus=4, duration_s=9.5, virtual_time=False)
    assert Queuelat().expected(setting) == Expected(threads=(), duration_s=100, seen=Seen.SESSION)
