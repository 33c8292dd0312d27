# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ConfigError, ParseError
from rtgate.rootfs import programs
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.queuelat import Queuelat
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Unit

PROGRAM = Path(__file__).resolve().parents[3] / "target" / "queue" / "queuelat.c"
DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOL = Queuelat()
REAL = Setting(cpus=2, duration_s=1, virtual_time=False)
VIRTUAL = Setting(cpus=2, duration_s=1, virtual_time=True)
OURS = (Path(__file__).resolve().parents[2] / "data" / "queuelat" / "virtual-smp2.out").read_text()
COMPLETE = (DATA / "2.10" / "queuelat-x86_64-complete.out").read_text()
SEARCHED = "default_n=131000 nr_packets_drain_per_block=2772\n"
QUEUE = "longest queue = 12, exceeded = 0\n"
# A run of rt-tests' own program on real hardware, with the line about its queue that ours prints.
GOOD = COMPLETE.replace(SEARCHED, SEARCHED + QUEUE)
START = COMPLETE[: COMPLETE.index("default_n=")] + SEARCHED


def _parse(
    text: str, setting: Setting = REAL, tool: Queuelat = TOOL, code: int = 0, files: Mapping[str, bytes] | None = None
) -> tuple[Measurement, ...]:
    return tool.parse(Output(files={"tool.out": text.encode(), **(files or {})}, exit_code=code, setting=setting))


def _values(found: tuple[Measurement, ...]) -> dict[str, float]:
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def _histogram(found: tuple[Measurement, ...]) -> Histogram:
    (histogram,) = (one.histogram for one in found if one.histogram is not None)
    return histogram


def test_a_run_on_hardware_is_read() -> None:
    found = _parse(GOOD)
    assert _values(found) == {"queue.exceeded": 0, "queue.longest": 12, "loops": 325_802}
    histogram = _histogram(found)
    assert (histogram.total, histogram.overflow, len(histogram.counts)) == (325_802, 376, 207)
    assert (histogram.unit, histogram.limit) == (Unit.NS, 70_000)
    assert {one.name: one.better for one in found} == {
        "queue.exceeded": Better.LOWER,
        "queue.longest": Better.LOWER,
        "loop": Better.LOWER,
        "loops": Better.NEITHER,
    }


def test_our_program_goes_on_after_a_queue_that_was_too_long_and_counts() -> None:
    found = _parse(OURS, Setting(cpus=2, duration_s=10, virtual_time=True))
    assert {one.name for one in found} == set(TOOL.reports)
    assert _values(found) == {"queue.exceeded": 7433, "queue.longest": 74137, "loops": 773_947}
    histogram = _histogram(found)
    assert (histogram.unit, histogram.total, histogram.overflow) == (Unit.VIRTUAL_NS, 773_947, 7_429)
    assert {one.better for one in found if one.name.startswith("queue.")} == {Better.LOWER}


@pytest.mark.parametrize(("longest", "exceeded"), [(200, 1), (201, 0), (0, 3)])
def test_a_longest_queue_that_contradicts_the_number_of_those_that_were_too_long_is_refused(
    longest: int, exceeded: int
) -> None:
    text = re.sub(r"longest queue = \d+, exceeded = \d+", f"longest queue = {longest}, exceeded = {exceeded}", OURS)
    with pytest.raises(ParseError, match=f"longest queue, {longest} packets, contradicts {exceeded}"):
        _parse(text)


def test_a_row_of_equal_buckets_is_printed_as_its_last_one_and_read_as_all() -> None:
    assert "[4800 - 4899] = 10\n...\n[5200 - 5299] = 5\n[5300 - 5399] = 4\n" in GOOD
    counts = _histogram(_parse(GOOD)).counts
    assert [counts[value] for value in range(4800, 5400, 100)] == [10, 5, 5, 5, 5, 4]
    assert 2500 not in counts  # printed, with a count of 0


def test_virtual_time_has_a_unit_of_its_own() -> None:
    assert _histogram(_parse(GOOD, VIRTUAL)).unit is Unit.VIRTUAL_NS


@pytest.mark.parametrize(
    "capture",
    [
        "2.4/queuelat-calibration-only.txt",
        "2.6/queuelat-x86_64-calibration-only.out",
        "2.10/queuelat-virtual-idle.out",
    ],
)
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


@pytest.mark.parametrize("capture", ["complete", "exceeded"])
def test_what_the_program_of_rt_tests_prints_is_no_result_of_ours(capture: str) -> None:
    with pytest.raises(ParseError, match="printed no result"):
        _parse((DATA / "2.10" / f"queuelat-x86_64-{capture}.out").read_text())


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
    empty = f"{QUEUE}...\n[70000 - END] = 0\n\n ---------------- \n"
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
    assert GOOD.endswith(QUEUE + _printed(buckets))


@examples(100)
@given(
    runs=st.lists(st.tuples(st.integers(0, 700), st.integers(1, 40), st.integers(0, 10**9)), min_size=1, max_size=12)
)
def test_any_histogram_comes_out_as_it_was_printed(runs: list[tuple[int, int, int]]) -> None:
    buckets = [0] * 701
    for first, length, samples in runs:
        buckets[first : first + length] = [samples] * len(buckets[first : first + length])
    if not sum(buckets):
        buckets[30] = 1
    full = f"{START}longest queue = 201, exceeded = 1\n{_printed(buckets)}"
    histogram = _histogram(_parse(full))
    assert histogram.total == sum(buckets)
    assert histogram.overflow == buckets[700]
    assert dict(histogram.counts) == {number * 100: samples for number, samples in enumerate(buckets[:700]) if samples}


@examples(150)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(OURS)) | st.integers(len(OURS) - 400, len(OURS)),  # the part that is read
            st.integers(0, 20),
            st.text("0123456789[]-. \nEND=", max_size=8),
        ),
        max_size=4,
    )
)
def test_damaged_output_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = OURS
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    try:
        found = _parse(text)
    except ParseError:
        return
    assert _histogram(found).total == _values(found)["loops"] > 0


def test_the_command_line_keeps_it_on_the_last_of_the_measured_cpus() -> None:
    options = ("--latency=20000", "--packet=100", "--packets=5", "--seconds=10")
    four = Setting(cpus=4, duration_s=9.5, virtual_time=False)
    assert TOOL.argv(four) == ("taskset", "8", "chrt", "-f", "1", "rtgate-queuelat", *options)
    assert TOOL.argv(Setting(cpus=2, duration_s=9.5, virtual_time=False, cpu_list="4-5"))[1] == "20"


@pytest.mark.parametrize("latency_ns", [0, 139_401, 200_000])
def test_a_queue_that_drains_longer_than_copies_are_told_apart_is_refused(latency_ns: int) -> None:
    assert Queuelat(max_latency_ns=139_400).argv(REAL)[6] == "--latency=139400"
    with pytest.raises(ConfigError, match=f"^max_latency_ns of queuelat is {latency_ns} .allowed: 1 to 139400.$"):
        Queuelat(max_latency_ns=latency_ns)


def test_what_must_be_seen_is_its_one_thread_and_the_whole_run() -> None:
    assert (TOOL.suites, TOOL.image) == (("latency",), "full")
    setting = Setting(cpus=4, duration_s=9.5, virtual_time=False)
    thread = Threads(count=1, policy=1, priority=1)
    assert Queuelat().expected(setting) == Expected(threads=(thread,), duration_s=10, seen=ThreadScope.SESSION)
    assert [need.reason.split(":")[0] for need in TOOL.needs] == [
        "needs two CPUs",
        "needs rtgate's own queuelat (image full)",
    ]


# --- the program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("queue") / "rtgate-queuelat"
    command = ["gcc", *programs.COMPILE, "-Werror", "-fsanitize=undefined", str(PROGRAM), "-o", str(made)]
    subprocess.run(command, check=True, timeout=60)
    return made


def _run(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *options], capture_output=True, text=True, timeout=60, check=False)


def test_what_the_program_prints_is_read_and_says_that_it_copied(program: Path) -> None:
    setting = Setting(cpus=2, duration_s=1, virtual_time=False)
    options = TOOL.argv(setting)[6:]
    for _ in range(5):  # on a busy machine it may find no block
        done = _run(program, *options)
        if done.returncode != 3:
            break
    if done.returncode == 4:
        pytest.skip("this user may not lock memory")
    assert done.returncode == 0, done.stderr
    found = _parse(done.stdout, setting)
    assert set(_values(found)) == {"queue.exceeded", "queue.longest", "loops"}
    # Half of the latency asked for, as long as this machine does not change its speed.
    counts = _histogram(found).counts
    assert max(counts, key=lambda value: counts[value]) > 2_000
    block = re.search(r"^default_n=(\d+) ", done.stdout, re.MULTILINE)
    assert block is not None
    assert int(block[1]) > 1024


def test_memory_that_cannot_be_locked_is_an_error_of_its_own(program: Path) -> None:
    limited = ["prlimit", "--memlock=0", "setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock"]
    if not all(map(shutil.which, ("prlimit", "setpriv"))) or os.geteuid() != 0:
        pytest.skip("needs prlimit, setpriv and root, to take the right away")
    options = TOOL.argv(Setting(cpus=2, duration_s=1, virtual_time=False))[6:]
    done = subprocess.run([*limited, program, *options], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "memory is not locked" in done.stderr
    files = {"tool.out": done.stdout.encode(), "tool.err": done.stderr.encode()}
    with pytest.raises(ParseError, match="could not lock its memory"):
        TOOL.parse(Output(files=files, exit_code=4, setting=REAL))


def test_a_result_with_memory_that_was_not_locked_is_none() -> None:
    warning = b"rtgate-queuelat: memory is not locked: Operation not permitted"
    files = {"tool.out": OURS.encode(), "tool.err": warning}
    with pytest.raises(ParseError, match="could not lock its memory"):
        TOOL.parse(Output(files=files, exit_code=0, setting=REAL))


def test_an_isolated_cpu_counts_for_the_need() -> None:
    need = TOOL.needs[0]
    assert "/proc/cpuinfo" in need.test
    done = subprocess.run(["taskset", "1", "sh", "-c", need.test], check=False)
    assert (done.returncode == 0) == (os.sysconf("SC_NPROCESSORS_ONLN") > 1)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "are needed"),
        (("--latency=20000", "--packet=100", "--packets=5"), 2, "are needed"),
        (("--latency=x",), 2, "--latency: expected a whole number"),
        (("--latency=139401",), 2, "--latency: expected a whole number from 1 to 139400\n"),
        (("--packet=-5",), 2, "--packet: expected a whole number"),
        (("--seconds=0",), 2, "--seconds: expected a whole number"),
        (("--latency=20000", "--packet=100", "--packets=5", "--seconds=1", "more"), 2, "and nothing else"),
        (("--bogus",), 2, "unrecognized option"),
    ],
)
def test_a_wrong_command_line_says_why(program: Path, options: tuple[str, ...], code: int, said: str) -> None:
    done = _run(program, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_help_and_version(program: Path) -> None:
    assert "--latency=NS" in _run(program, "--help").stdout
    assert _run(program, "--version").stdout == "rtgate-queuelat unknown\n"
