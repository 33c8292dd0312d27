# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.cyclictest import JSON, Cyclictest
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Unit

if TYPE_CHECKING:
    from selftests.conftest import Golden

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
REAL = Setting(cpus=1, duration_s=1.0, virtual_time=False)
TOOL = Cyclictest(range_us=1000, virtual_range_us=200)
PAIR = replace(REAL, cpus=2)
VIRTUAL = Setting(cpus=1, duration_s=2.0, virtual_time=True)
GOOD = (DATA / "2.10" / "cyclictest-virtual-hackbench.json").read_bytes()
SMALL = (DATA / "2.4" / "cyclictest-hist.json").read_text()


def _capture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _parse(
    data: bytes | str,
    setting: Setting = REAL,
    tool: Cyclictest = TOOL,
    files: Mapping[str, bytes] | None = None,
) -> tuple[Measurement, ...]:
    raw = data.encode() if isinstance(data, str) else data
    return tool.parse(Output(files={JSON: raw, **(files or {})}, exit_code=0, setting=setting))


def _number(measurements: tuple[Measurement, ...], name: str, cpu: int = 0) -> tuple[float, Unit]:
    (found,) = (one.quantity for one in measurements if one.name == name and one.labels == {"cpu": str(cpu)})
    assert found is not None
    return found.value, found.unit


def _histogram(measurements: tuple[Measurement, ...], cpu: int = 0) -> Histogram:
    (found,) = (one.histogram for one in measurements if one.name == "latency" and one.labels == {"cpu": str(cpu)})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("capture", "setting", "tool", "threads"),
    # Of each thread: cycles, lost, overflow, samples in buckets, minimum, average, maximum.
    [
        (
            "2.4/cyclictest-hist.json",
            PAIR,
            Cyclictest(range_us=20),
            [(200, 800, 33, 167, 12, 15.69, 61), (200, 800, 49, 151, 9, 16.23, 39)],
        ),
        (
            "2.4/cyclictest-duration.json",
            PAIR,
            Cyclictest(range_us=1),
            [(1000, 0, 1000, 0, 13, 26.25, 314), (667, 333, 667, 0, 12, 24.12, 626)],
        ),
        ("2.4/cyclictest-hist-all-overflow.json", REAL, Cyclictest(range_us=40), [(100, 900, 100, 0, 65, 78.54, 99)]),
        ("2.4/cyclictest-quote-in-cmdline.json", REAL, Cyclictest(range_us=1), [(3, 997, 3, 0, 82, 83.33, 86)]),
        ("2.4/cyclictest-one-cycle.json", REAL, Cyclictest(range_us=1), [(1, 999, 1, 0, 69, 69.0, 69)]),
        ("2.4/cyclictest-nsecs.json", REAL, Cyclictest(range_us=1), [(3, 997, 3, 0, 70390, 75772.67, 83998)]),
        ("2.4/cyclictest-sigterm.json", REAL, Cyclictest(range_us=1), [(2994, 0, 2994, 0, 11, 26.5, 5647)]),
        ("2.4/cyclictest-timeout.json", REAL, Cyclictest(range_us=1), [(992, 8, 992, 0, 32, 83.71, 4968)]),
        ("2.10/cyclictest-virtual-idle.json", VIRTUAL, Cyclictest(), [(2000, 0, 0, 2000, 21360, 28198.24, 39776)]),
        ("2.10/cyclictest-virtual-hackbench.json", VIRTUAL, Cyclictest(), [(2000, 0, 0, 2000, 19664, 27562.22, 45360)]),
        ("2.10/cyclictest-virtual-stress-ng.json", VIRTUAL, Cyclictest(), [(2000, 0, 0, 2000, 20304, 25814.27, 38240)]),
        (
            "2.10/cyclictest-host-idle.json",
            Setting(cpus=1, duration_s=2.0, virtual_time=False),
            Cyclictest(),
            [(1001, 999, 250, 751, 30, 1290.06, 77108)],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_capture_is_read(capture: str, setting: Setting, tool: Cyclictest, threads: list[tuple[float, ...]]) -> None:
    found = _parse(_capture(capture), setting, tool)
    assert len(found) == 6 * len(threads)
    for cpu, (cycles, lost, overflow, inside, low, mean, high) in enumerate(threads):
        histogram = _histogram(found, cpu)
        assert (histogram.overflow, sum(histogram.counts.values()), histogram.total) == (overflow, inside, cycles)
        assert _number(found, "wakeups", cpu) == (cycles, Unit.COUNT)
        assert _number(found, "wakeups.lost", cpu) == (lost, Unit.COUNT)
        numbers = [_number(found, f"latency.{name}", cpu)[0] for name in ("min", "avg", "max")]
        assert numbers == [low, mean, high]
        assert {_number(found, f"latency.{name}", cpu)[1] for name in ("min", "avg", "max")} == {histogram.unit}


def test_every_capture_of_json_is_in_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    captures = sorted(path for path in DATA.glob("*/cyclictest*") if path.parent.name != "2.6")  # test_versions.py
    assert len(captures) == 21
    assert not [path.name for path in captures if path.name not in text and path.stem not in text]


@pytest.mark.parametrize(
    ("capture", "setting", "unit", "limit"),
    [
        ("2.4/cyclictest-hist.json", PAIR, Unit.US, 1000),
        ("2.4/cyclictest-nsecs.json", REAL, Unit.NS, 1_000_000),
        ("2.10/cyclictest-virtual-idle.json", VIRTUAL, Unit.VIRTUAL_NS, 200_000),
        ("2.4/cyclictest-hist.json", replace(VIRTUAL, cpus=2), Unit.VIRTUAL_US, 200),
    ],
)
def test_unit_and_range_follow_the_output_and_the_clock(capture: str, setting: Setting, unit: Unit, limit: int) -> None:
    histogram = _histogram(_parse(_capture(capture), setting))
    assert (histogram.unit, histogram.limit) == (unit, limit)


def test_overflows_of_the_json_are_those_of_the_text() -> None:
    text = _capture("2.4/cyclictest-hist.txt").decode()
    (line,) = (line for line in text.splitlines() if line.startswith("# Histogram Overflows:"))
    found = _parse(_capture("2.4/cyclictest-hist.json"), PAIR, Cyclictest(range_us=20))
    assert [_histogram(found, cpu).overflow for cpu in (0, 1)] == [int(word) for word in line.split()[3:]]
    host = _capture("2.10/cyclictest-host-idle.out").decode()
    assert "# Histogram Overflows: 00250\n" in host
    assert _histogram(_parse(_capture("2.10/cyclictest-host-idle.json"))).overflow == 250


def test_lower_latencies_are_better_and_wakeups_only_counted() -> None:
    found = {one.name: one.better for one in _parse(GOOD, VIRTUAL)}
    assert found.pop("wakeups") is Better.NEITHER
    assert set(found.values()) == {Better.LOWER}


@pytest.mark.parametrize("stopped", ["2.4/cyclictest-sigterm", "2.4/cyclictest-timeout"])
def test_a_stopped_run_looks_complete_in_json_and_text(stopped: str) -> None:
    # Nothing here tells it; cycles and duration do: selftests/unit/validity/test_checks.py.
    text = _capture(f"{stopped}.txt")
    assert json.loads(_capture(f"{stopped}.json"))["return_code"] == 0
    assert _parse(_capture(f"{stopped}.json"), files={"tool.out": text})


def test_warnings_on_standard_error_are_no_failure() -> None:
    warned = _capture("2.10/cyclictest-host-idle.err")
    assert b"WARN" in warned
    assert _parse(_capture("2.10/cyclictest-host-idle.json"), files={"tool.err": warned})


@pytest.mark.parametrize(
    ("data", "files", "reason"),
    [
        (_capture("2.4/cyclictest-zero-cycles.json"), {}, r"never woke up \(0 of 1000 cycles\)"),
        (_capture("2.4/cyclictest-zero-cycles.json").replace(b'"cycles": 0', b'"cycles": 9'), {}, "'avg' is None"),
        (SMALL, {"tool.out": _capture("2.4/cyclictest-breaktrace.txt")}, "broke off at its break value"),
        (SMALL, {"tool.deadline": b"after 40 s\n"}, "stopped after 40 s"),
        ("", {}, "wrote no JSON"),
        ("\n \n", {}, "wrote no JSON"),
        (GOOD[: len(GOOD) // 2], {}, "JSON is damaged"),
        (b"\xff\xfe" + GOOD, {}, "JSON is damaged"),
        (GOOD.replace(b"\n", b"\n[   12.345678] random: crng init done\n", 1), {}, "JSON is damaged"),
        ("[]", {}, "is not an object"),
        ("3", {}, "is not an object"),
        ("{}", {}, "has no 'resolution_in_ns'"),
        ('{"resolution_in_ns": 0}', {}, "has no 'thread'"),
        ('{"resolution_in_ns": 0, "thread": {}}', {}, "reports no threads"),
        ('{"resolution_in_ns": 0, "thread": []}', {}, "'thread' is not what it should be"),
        ('{"resolution_in_ns": 0, "thread": {"a": {}}}', {}, "'thread' is not what it should be"),
        ('{"resolution_in_ns": 0, "thread": {"0": 7}}', {}, "'thread' is not what it should be"),
        ('{"resolution_in_ns": true, "thread": {"0": {}}}', {}, "'resolution_in_ns' is True, not a whole number"),
        (SMALL.replace('"cycles": 200', '"cycles": 100', 1), {}, "holds 167 samples of 100 cycles"),
        (SMALL.replace('"12": 12', '"12": -1', 1), {}, "histogram is damaged: it holds counts below zero"),
        (SMALL.replace('"12": 12', '"12": 46', 1), {}, "holds 201 samples of 200 cycles"),
        (SMALL.replace('"12": 12', '"-12": 12', 1), {}, "histogram is damaged"),
        (SMALL.replace('"12": 12', '"12": 1.5', 1), {}, "'12' is 1.5, not a whole number"),
        (SMALL.replace('"12": 12', '"12": null', 1), {}, "'12' is None, not a whole number"),
        (SMALL.replace('"12": 12', '"12": Infinity', 1), {}, "'12' is inf, not a whole number"),
        (SMALL.replace('"12": 12', '"12": true', 1), {}, "'12' is True, not a whole number"),
        (SMALL.replace('"12": 12', '"1' + 5000 * "2" + '": 12', 1), {}, "histogram is damaged"),
        (SMALL.replace('"histogram": {', '"histogram": [], "other": {', 1), {}, "histogram is damaged"),
        (SMALL.replace('"12": 12', '"twelve": 12', 1), {}, "histogram is damaged"),
        (SMALL.replace('"max": 61', '"max": 13', 1), {}, "contradict each other"),
        (SMALL.replace('"min": 12', '"min": 17', 1), {}, "contradict each other"),
        (SMALL.replace('"avg": 15.69', '"avg": Infinity', 1), {}, "'avg' is inf"),
        (SMALL.replace('"max": 61', '"max": "61"', 1), {}, "'max' is '61', not a whole number"),
        (SMALL.replace('"avg": 15.69', '"avg": 1' + 400 * "0", 1), {}, "'avg' is"),
        (SMALL.replace('"cycles": 200', '"cycles": 2' + 400 * "0", 1), {}, "'cycles' is .*, not a whole number"),
        (SMALL.replace('"cycles": 200', '"cycles": 2' + 5000 * "0", 1), {}, "JSON is damaged"),
        (SMALL.replace('"cpu": 0', '"core": 0', 1), {}, "has no 'cpu'"),
        ("[" * 100_000, {}, "JSON is damaged"),
        (SMALL.replace('"12": 12', '"1000": 12', 1), {}, "holds a sample of 1000, and its range ends at 1000"),
        (SMALL.replace('"12": 12', '"62": 12', 1), {}, "maximum 61 and its histogram contradict each other"),
        (SMALL.replace('"12": 12', '"12": 45', 1), {}, "maximum 61 and its histogram contradict each other"),
        (SMALL.replace('"cpu": 1', '"cpu": 0', 1), {}, "had threads on the CPUs 0, 0, not one on each"),
        (SMALL.replace('"cpu": 1', '"cpu": -1', 1), {}, "had threads on the CPUs 0, -1, not one on each"),
        (SMALL.replace('"1": {', '"2": {', 1), {}, "reports threads 0, 2: 2 were asked for"),
    ],
)
def test_what_is_refused_says_why(data: bytes | str, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(data, PAIR if isinstance(data, str) else REAL, files=files)


@pytest.mark.parametrize("setting", [REAL, replace(REAL, cpus=3)])
def test_threads_that_nobody_reports_are_no_threads_that_were_in_time(setting: Setting) -> None:
    with pytest.raises(ParseError, match=rf"reports threads 0, 1: {setting.cpus} were asked for"):
        _parse(SMALL, setting)


def test_a_failed_run_says_what_it_printed() -> None:
    said = _capture("2.4/cyclictest-json-unwritable.txt")
    output = Output(files={"tool.err": said}, exit_code=2, setting=REAL)
    with pytest.raises(ParseError, match=r"exit code 2: Failed to open '/nonexistent/x\.json'"):
        Cyclictest().parse(output)
    with pytest.raises(ParseError, match="exit code 1: no message"):
        Cyclictest().parse(Output(files={JSON: GOOD}, exit_code=1, setting=REAL))


def test_a_failed_run_is_refused_although_its_json_is_whole() -> None:
    with pytest.raises(ParseError, match="exit code 143: Terminated"):
        Cyclictest().parse(Output(files={JSON: GOOD, "tool.out": b"Terminated\n"}, exit_code=143, setting=VIRTUAL))


def _clean_or_refused(data: bytes | str) -> None:
    """Read it, or refuse it: nothing else may happen, and nothing that is read may be nonsense."""
    try:
        found = _parse(data, PAIR)
    except ParseError:
        return
    assert found
    for one in found:
        if one.histogram is not None:
            assert one.histogram.total > 0
            assert min(one.histogram.counts.values(), default=0) >= 0
        else:
            assert one.quantity is not None
            assert math.isfinite(one.quantity.value)


@examples(100)
@given(end=st.integers(0, len(GOOD)))
def test_a_truncated_file_is_refused_or_whole(end: int) -> None:
    if end >= len(GOOD.rstrip()):
        assert _parse(GOOD[:end], VIRTUAL) == _parse(GOOD, VIRTUAL)
    else:
        with pytest.raises(ParseError):
            _parse(GOOD[:end], VIRTUAL)


@examples(200)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(SMALL)), st.integers(0, 6), st.binary(max_size=6) | st.just(b"\n[    1.2] x")),
        max_size=4,
    )
)
def test_damaged_bytes_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    data = SMALL.encode()
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused(data)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 2**63, -1, 0]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("0123456789-.x", max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


@examples(300)
@given(
    path=st.sampled_from(
        [
            ("resolution_in_ns",),
            ("thread",),
            ("thread", "0"),
            *(("thread", "1", key) for key in ("histogram", "cycles", "min", "max", "avg", "cpu")),
            ("thread", "0", "histogram", "13"),
            ("thread", "0", "histogram", "60"),
            ("thread", "7"),
        ]
    ),
    value=ANYTHING,
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(path: tuple[str, ...], value: object) -> None:
    document: dict[str, Any] = json.loads(SMALL)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    _clean_or_refused(json.dumps(document))


@examples(100)
@given(
    counts=st.dictionaries(st.integers(0, 999), st.integers(1, 10**9), max_size=30),
    overflow=st.integers(0, 1000),
    virtual=st.booleans(),
)
def test_the_counts_of_any_histogram_come_out_as_they_went_in(
    counts: dict[int, int], overflow: int, *, virtual: bool
) -> None:
    cycles = sum(counts.values()) + overflow
    if cycles == 0:
        counts, cycles = {5: 1}, 1
    high = 1500 if overflow else max(counts)
    low = min(counts, default=1000)
    thread = {
        "histogram": {f"{value}": count for value, count in counts.items()},
        "cycles": cycles,
        "min": low,
        "max": high,
        "avg": (low + high) / 2,
        "cpu": 3,
        "node": 0,
    }
    document = {"cmdline:": 'a"b', "resolution_in_ns": int(virtual), "thread": {"0": thread}}
    text = json.dumps(document, indent=2).replace('a\\"b', 'a"b')  # cyclictest escapes nothing
    setting = Setting(cpus=1, duration_s=1.0, virtual_time=virtual)
    histogram = _histogram(_parse(text, setting), cpu=3)
    assert (dict(histogram.counts), histogram.overflow, histogram.total) == (counts, overflow, cycles)
    assert list(histogram.counts) == sorted(counts)


def test_threads_come_in_the_order_of_their_numbers() -> None:
    document = json.loads(SMALL)
    thread = document["thread"]["0"]
    document["thread"] = {str(number): {**thread, "cpu": number} for number in (10, 2, 0, *range(3, 10), 1)}
    found = _parse(json.dumps(document), replace(REAL, cpus=11))
    assert [one.labels["cpu"] for one in found if one.name == "latency"] == [str(cpu) for cpu in range(11)]


def test_one_whole_capture_is_what_it_was(golden: Golden) -> None:
    lines = []
    for one in _parse(GOOD, VIRTUAL):
        head = f"{one.name} [{one.label}] {one.better.value}: "
        if one.histogram is None:
            lines.append(f"{head}{one.quantity}")
        else:
            counts = (f"{value} {count}" for value, count in one.histogram.counts.items())
            tail = f"range {one.histogram.limit}, overflow {one.histogram.overflow}"
            lines += [f"{head}{one.histogram.unit}, {one.histogram.total} samples, {tail}", *counts]
    golden("cyclictest-2.10-virtual-hackbench.txt", "\n".join(lines) + "\n")


def test_the_command_line_on_virtual_time_has_a_bucket_per_nanosecond() -> None:
    setting = Setting(cpus=2, duration_s=9.5, virtual_time=True)
    assert TOOL.argv(setting) == (
        *("cyclictest", "--quiet", "--mlockall", "--priority=99", "--threads=2", "--affinity", "--interval=1000"),
        *("--duration=10", "--json=cyclictest.json"),
        *("--histogram=200000", "--histfile=/dev/null", "--nsecs"),
    )


def test_the_command_line_on_a_real_clock_has_a_bucket_per_microsecond() -> None:
    tool = Cyclictest(interval_us=500, priority=80, range_us=300)
    argv = tool.argv(Setting(cpus=4, duration_s=60, virtual_time=False))
    assert {"--priority=80", "--threads=4", "--interval=500", "--duration=60", "--histogram=300"} < set(argv)
    assert "--nsecs" not in argv


def test_what_must_be_seen_is_what_the_command_line_asks_for() -> None:
    tool = Cyclictest(interval_us=500, priority=80)
    assert tool.name == "cyclictest"
    expected = tool.expected(Setting(cpus=4, duration_s=9.5, virtual_time=False))
    assert expected == Expected(
        threads=(Threads(count=4, policy=1, priority=80),),
        duration_s=10,
        seen=ThreadScope.OWN,
        interval_us=500,
        processors=4,
    )
    # Its wake-ups are accounted for one by one, and it measures with CLOCK_MONOTONIC.
    assert (expected.counts, expected.clock) == ((), False)


@pytest.mark.parametrize(
    ("tool", "processors"),
    [
        (TOOL, 4),
        (Cyclictest(threads=8), 4),
        (Cyclictest(threads=2), 2),
        (Cyclictest(smp=True, affinity="none"), 4),
        (Cyclictest(affinity="2-3"), 2),
        (Cyclictest(affinity="none"), 0),  # cyclictest decides
        (Cyclictest(taskset="2"), 0),
    ],
)
def test_bound_threads_are_on_as_many_cpus(tool: Cyclictest, processors: int) -> None:
    assert tool.expected(Setting(cpus=4, duration_s=1, virtual_time=False)).processors == processors


def test_it_measures_on_the_cpus_that_a_tuning_gives_it() -> None:
    two = Setting(cpus=2, cpu_list="2-3", duration_s=1, virtual_time=False)
    assert {"--threads=2", "--affinity=2-3"} < set(TOOL.argv(two))
    assert "--affinity" in TOOL.argv(REAL)
    assert TOOL.expected(two).threads == (Threads(count=2, policy=1, priority=99),)


def test_the_range_on_virtual_time_holds_every_latency_of_a_good_kernel() -> None:
    assert Cyclictest().virtual_range_us == 150
    assert "--histogram=150000" in Cyclictest().argv(VIRTUAL)
    assert _histogram(_parse(GOOD, VIRTUAL, Cyclictest())).limit == 150_000
    assert max(_histogram(_parse(GOOD, VIRTUAL, Cyclictest())).counts) < 150_000


def test_lost_wakeups_are_counted_against_the_seconds_that_were_asked_for() -> None:
    asked = Setting(cpus=1, duration_s=1.5, virtual_time=False)  # cyclictest measures 2 s
    assert _number(_parse(_capture("2.10/cyclictest-host-idle.json"), asked), "wakeups.lost")[0] == 999
    faster = Cyclictest(interval_us=500)
    assert _number(_parse(_capture("2.10/cyclictest-host-idle.json"), asked, faster), "wakeups.lost")[0] == 2999


# `cyclictest -D 1` with two threads, without a histogram: periods of 1000 and 1500 us.
PLAIN = Cyclictest(range_us=0, threads=2, affinity="none")
TWO = Setting(cpus=2, duration_s=1.0, virtual_time=False)


def test_without_a_histogram_each_thread_has_a_period_of_its_own() -> None:
    found = _parse(_capture("2.4/cyclictest-duration.json"), TWO, PLAIN)
    assert {one.name for one in found} == {"latency.min", "latency.avg", "latency.max", "wakeups", "wakeups.lost"}
    assert [_number(found, "wakeups", cpu)[0] for cpu in (0, 1)] == [1000, 667]
    assert [_number(found, "wakeups.lost", cpu)[0] for cpu in (0, 1)] == [0, 0]
    assert [_number(found, "latency.max", cpu)[0] for cpu in (0, 1)] == [314, 626]
    (count,) = PLAIN.expected(TWO).counts
    assert count.least <= 667


def test_threads_that_share_a_cpu_are_told_apart() -> None:
    data = json.loads(_capture("2.4/cyclictest-duration.json"))
    for thread in data["thread"].values():
        thread["cpu"] = 1
    text = json.dumps(data, indent=2)
    with pytest.raises(ParseError, match="not one on each"):
        _parse(text, TWO, PLAIN)
    found = _parse(text, TWO, Cyclictest(range_us=0, threads=2, affinity="none", taskset="1"))
    assert {tuple(sorted(one.labels.items())) for one in found} == {
        (("cpu", "1"), ("thread", "0")),
        (("cpu", "1"), ("thread", "1")),
    }


def test_a_thread_per_cpu_on_fewer_cpus_shares_them() -> None:
    setting = Setting(cpus=4, duration_s=4.0, virtual_time=False)
    data = json.loads(_capture("2.10/cyclictest-not-bound.json"))
    for number, thread in data["thread"].items():
        thread["cpu"] = 2 + int(number) % 2
    tool = Cyclictest(range_us=0, affinity="2-3")
    assert {"--threads=4", "--affinity=2-3"} <= set(tool.argv(setting))
    found = _parse(json.dumps(data, indent=2), setting, tool)
    assert [one.labels for one in found if one.name == "latency.max"] == [
        {"cpu": str(2 + number % 2), "thread": str(number)} for number in range(4)
    ]


def test_threads_that_are_not_bound_have_a_number_and_no_cpu() -> None:
    four = Cyclictest(range_us=0, threads=4, affinity="none", clock="monotonic")
    for cpus in (1, 4, 8):
        setting = Setting(cpus=cpus, duration_s=4.0, virtual_time=True)
        found = _parse(_capture("2.10/cyclictest-not-bound.json"), setting, four)
        assert [one.labels for one in found if one.name == "latency.max"] == [{"thread": str(n)} for n in range(4)]
    with pytest.raises(ParseError, match="had threads on the CPUs -1, -1, -1, -1, not one on each"):
        _parse(_capture("2.10/cyclictest-not-bound.json"), setting, Cyclictest(range_us=0, threads=4))


def test_a_number_of_wake_ups_ends_a_run_before_the_duration_does() -> None:
    counted = Cyclictest(loops=500, interval_us=1000)
    assert counted.expected(TWO).duration_s == 0.5
    assert "--loops=500" in counted.argv(TWO)
    assert not any(word.startswith("--duration") for word in counted.argv(TWO))
    both = Cyclictest(loops=5000).argv(TWO)
    assert {"--loops=5000", "--duration=1"} <= set(both)


def test_microseconds_may_be_asked_for_on_virtual_time() -> None:
    plain = Cyclictest(range_us=100, virtual_range_us=0)
    assert "--histogram=100" in plain.argv(VIRTUAL)
    assert "--nsecs" not in plain.argv(VIRTUAL)


def test_the_wall_clock_must_stand_still_if_it_is_measured_with() -> None:
    assert Cyclictest(clock="realtime").expected(TWO).clock
    assert not Cyclictest(clock="monotonic").expected(TWO).clock
    assert "--clock=1" in Cyclictest(clock="realtime").argv(TWO)


@pytest.mark.parametrize("options", [{"clock": "tai"}, {"policy": "other"}, {"affinity": "all"}, {"taskset": "x"}])
def test_a_text_that_it_does_not_know_is_a_mistake(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        Cyclictest(**options)  # type: ignore[arg-type]
