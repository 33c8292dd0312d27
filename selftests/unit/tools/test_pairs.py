# SPDX-License-Identifier: MIT
"""What the four tools of pairs have in common, shown on pmqtest; each has its own captures in a file of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Output, Reports, Setting, Tool
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.pairs import Pairs, Pmqtest, Ptsematest, Sigwaittest, Svsematest
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
TOOLS: tuple[type[Pairs], ...] = (Pmqtest, Ptsematest, Svsematest, Sigwaittest)
ONE = Setting(cpus=1, duration_s=2.0, virtual_time=True)
TWO = Setting(cpus=2, duration_s=1.0, virtual_time=False)
GOOD = (DATA / "2.4" / "pmqtest-bound.json").read_text()


def _parse(
    data: bytes | str,
    setting: Setting = TWO,
    tool: Pairs | None = None,
    files: Mapping[str, bytes] | None = None,
    exit_code: int = 0,
) -> tuple[Measurement, ...]:
    chosen = tool or Pmqtest()
    raw = data.encode() if isinstance(data, str) else data
    return chosen.parse(
        Output(files={f"{chosen.name}.json": raw, **(files or {})}, exit_code=exit_code, setting=setting)
    )


def _capture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def test_a_pair_reports_four_numbers_per_cpu() -> None:
    found = {(one.name, one.labels["cpu"]): one for one in _parse(GOOD)}
    numbers = {key: one.quantity.value for key, one in found.items() if one.quantity is not None}
    assert numbers == {
        ("latency.min", "0"): 1,
        ("latency.avg", "0"): 1.48,
        ("latency.max", "0"): 60,
        ("samples", "0"): 2000,
        ("latency.min", "1"): 1,
        ("latency.avg", "1"): 1.51,
        ("latency.max", "1"): 11,
        ("samples", "1"): 2000,
    }
    assert {one.unit for one in found.values()} == {Unit.US, Unit.COUNT}
    assert {name for (name, _), one in found.items() if one.better is not Better.LOWER} == {"samples"}


def test_times_of_a_virtual_board_are_virtual() -> None:
    found = _parse(_capture("2.10/pmqtest-virtual-hackbench.json"), ONE)
    assert {one.unit for one in found} == {Unit.VIRTUAL_US, Unit.COUNT}


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_reported_is_what_limits_may_name(tool: type[Tool]) -> None:
    output = Output(
        files={f"{tool.name}.json": _capture(f"2.10/{tool.name}-virtual-hackbench.json")}, exit_code=0, setting=ONE
    )
    kinds = {
        one.name: Reports.COUNT if one.unit is Unit.COUNT else Reports.TIME
        for one in tool().parse(output)
        if one.histogram is None
    }
    assert kinds == dict(tool.reports)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("cpus", [1, 4, 8])
def test_as_many_threads_must_be_seen_as_the_command_line_starts(tool: type[Pairs], cpus: int) -> None:
    setting = Setting(cpus=cpus, duration_s=60, virtual_time=False)
    argv, expected = tool().argv(setting), tool().expected(setting)
    assert sum(threads.count for threads in expected.threads) == 2 * cpus
    assert ("--smp" in argv) is (len(expected.threads) == 1 and tool is not Sigwaittest)
    assert {threads.policy for threads in expected.threads} == {1}
    assert expected.clock
    assert expected.duration_s == 60


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("duration", [1.0, 2.5, 60])
def test_the_run_is_longer_than_what_must_be_seen(tool: type[Pairs], duration: float) -> None:
    setting = Setting(cpus=1, duration_s=duration, virtual_time=False)
    lengths = dict(word.split("=") for word in tool().argv(setting) if word.startswith(("--loops", "--duration")))
    (name,) = lengths
    assert name == ("--duration" if tool is Ptsematest else "--loops")
    seconds = int(lengths[name]) / (1000 if name == "--loops" else 1)
    assert duration + 1 <= seconds < duration + 2
    (least,) = tool().expected(setting).counts
    assert least.measurement == "samples"
    assert 0.6 * duration < least.least / 1000 < 0.64 * duration


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("loops", "samples"), [(500, 500), (2500, 2500), (9000, 3000)])
def test_a_number_of_loops_ends_a_run_that_the_duration_would_not(tool: type[Pairs], loops: int, samples: int) -> None:
    """A signal that ends a run is a sample of svsematest; only ptsematest needs a time."""
    setting = Setting(cpus=1, duration_s=2, virtual_time=False)
    lengths = {word for word in tool(loops=loops).argv(setting) if word.startswith(("--loops", "--duration"))}
    if tool is Ptsematest:
        assert lengths == {f"--loops={loops}", *(("--duration=3",) if loops > 2000 else ())}
    else:
        assert lengths == {f"--loops={samples}"}
    assert tool(loops=loops).expected(setting).duration_s == min(2, loops / 1000)


NUC = Setting(cpus=4, duration_s=3600, virtual_time=False)


@pytest.mark.parametrize(
    ("pairs", "work_s"),
    [
        (Pmqtest(threads=1, interval_us=100, affinity=False), 36_010_000 * 600e-6),
        (Svsematest(threads=1, interval_us=100, distance_us=25, loops=1_000_000), 600),
        (Ptsematest(threads=1, interval_us=100, distance_us=25, loops=1_000_000), 600),
        (Ptsematest(threads=1, interval_us=100), 0),
        (Sigwaittest(threads=3, interval_us=200, distance_us=50, loops=1000), 0.8),
    ],
)
def test_a_number_of_samples_is_waited_for_while_each_may_be_valid(pairs: Pairs, work_s: float) -> None:
    """Of 100 us each, they were stopped after twice that: a healthy kernel was FAIL "hang"."""
    expected = pairs.expected(NUC)
    assert expected.work_s == pytest.approx(work_s)
    if work_s:
        slowest_us = 0.95 * expected.duration_s * 1e6 / expected.counts[0].least
        assert expected.work_s * 1e6 / pairs._sample_count(NUC) == pytest.approx(slowest_us)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("duration_s", [1, 2, 10, 60, 600, 3600])
def test_the_usual_interval_needs_no_longer_wait(tool: type[Pairs], duration_s: int) -> None:
    """Another deadline would be another plan, and other data on virtual time."""
    setting = Setting(cpus=1, duration_s=duration_s, virtual_time=True)
    assert tool().expected(setting).work_s < 2 * duration_s + 20


def test_no_tool_is_asked_for_what_leaves_traces_or_stops_it_early() -> None:
    for tool in TOOLS:
        argv = " ".join(tool().argv(TWO))
        assert not [word for word in ("--breaktrace", "-b", "--timeout", "--fork") if f" {word}" in argv]
        assert "--distance=0" in argv


def test_each_capture_is_named_in_a_test() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    found = [path for tool in TOOLS for path in DATA.glob(f"*/{tool.name}*")]
    captures = [path for path in found if path.parent.name != "2.6"]  # those are in test_versions.py
    assert len(captures) == 30
    assert not [path.name for path in captures if path.name not in texts and path.stem not in texts]


STOPPED = Setting(cpus=1, duration_s=9.0, virtual_time=False)


@pytest.mark.parametrize(
    ("data", "setting", "files", "reason"),
    [
        (_capture("2.10/pmqtest-sigterm.json"), STOPPED, {}, "ended after 786 of 10000 samples"),
        (
            _capture("2.10/pmqtest-timeout.json"),
            ONE,
            {"tool.err": _capture("2.10/pmqtest-timeout.err")},
            "could not receive test message: Connection timed out",
        ),
        (_capture("2.4/pmqtest-unbound.json"), TWO, {}, "pair 0 was not bound to one CPU: it ran on 0 and 1"),
        (_capture("2.4/pmqtest-breaktrace.json"), TWO, {}, "pair 0 was not bound to one CPU: it ran on 0 and 1"),
        (GOOD, TWO, {"tool.deadline": b"after 22 s\n"}, "stopped after 22 s"),
        (GOOD, TWO, {"tool.err": b"WARNING: Could not set CPU affinity to CPU #1\n"}, "set CPU affinity to CPU #1"),
        (GOOD, TWO, {"tool.err": b"x\nERROR: Sync message mismatch detected\n  a != b\n"}, ": ERROR: Sync message mis"),
        (GOOD, TWO, {"tool.err": b"could not send test message\n"}, "could not send test message"),
        (GOOD, ONE, {}, "had pairs on the CPUs 0, 1, not one on each of 1"),
        (GOOD, Setting(cpus=4, duration_s=1, virtual_time=False), {}, "CPUs 0, 1, not one on each of 4"),
        (GOOD.replace('"cpu": 1', '"cpu": 0'), TWO, {}, "had pairs on the CPUs 0, 0, not one on each of 2"),
        (GOOD.replace('"cpu": 1', '"cpu": -1'), TWO, {}, "pair 1 was not bound to one CPU"),
        (GOOD.replace('"cpu": 1', '"core": 1'), TWO, {}, "has no 'cpu'"),
        (GOOD, Setting(cpus=2, duration_s=1.001, virtual_time=False), {}, "ended after 2000 of 2001 samples"),
        (GOOD.replace('"interval": 1000', '"interval": 1500'), TWO, {}, "interval of 1500 us, 1000 us were asked for"),
        (GOOD.replace('"timeoutcount": 0', '"timeoutcount": 2'), TWO, {}, "waited in vain 2 times"),
        (GOOD.replace('"samples": 2000', '"samples": 0'), TWO, {}, "pair 0 has no samples"),
        (GOOD.replace('"samples": 2000', '"samples": -1'), TWO, {}, "pair 0 has no samples"),
        (GOOD.replace('"min": 1', '"min": -1'), TWO, {}, "minimum -1, average 1.48 and maximum 60 contradict"),
        (GOOD.replace('"avg": 1.48', '"avg": nan'), TWO, {}, "'avg' is None, not a number"),
        (GOOD.replace('"avg": 1.48', '"avg": -nan'), TWO, {}, "'avg' is None, not a number"),
        (GOOD.replace('"avg": 1.48', '"avg": 60.5'), TWO, {}, "contradict each other"),
        (GOOD.replace('"avg": 1.48', '"avg": 0.5'), TWO, {}, "contradict each other"),
        (GOOD.replace('"avg": 1.48', '"avg": "1"'), TWO, {}, "'avg' is '1', not a number"),
        (GOOD.replace('"max": 60', '"max": 1000000'), TWO, {}, "contradict each other"),
        (GOOD.replace('"max": 60', '"max": 999999'), TWO, {}, "maximum of 999999 us: the clock was set back"),
        (GOOD.replace('"max": 60', '"max": 900000'), TWO, {}, "or a wake-up took about a second"),
        (GOOD.replace('"max": 60', '"max": 60.5'), TWO, {}, "'max' is 60.5, not a whole number"),
        (GOOD.replace('"sender"', '"from"'), TWO, {}, "has no 'sender'"),
        (GOOD.replace('"receiver"', '"to"'), TWO, {}, "has no 'receiver'"),
        ("", TWO, {}, "pmqtest wrote no JSON$"),
        ("", TWO, {"tool.err": b"something else\n"}, "pmqtest wrote no JSON: something else"),
        (GOOD[: len(GOOD) // 2], TWO, {}, "JSON is damaged"),
        ("{}", TWO, {}, "has no 'thread'"),
        ('{"thread": {}}', TWO, {}, "reports no threads"),
        ('{"thread": {"0": {"sender": 3, "receiver": {}}}}', TWO, {}, "'sender' is not what it should be"),
    ],
)
def test_what_is_refused_says_why(data: bytes | str, setting: Setting, files: Mapping[str, bytes], reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(data, setting, files=files)


def test_a_stopped_run_looks_complete_in_json_and_text() -> None:
    assert json.loads(_capture("2.10/pmqtest-sigterm.json"))["return_code"] == 0
    assert _capture("2.10/pmqtest-sigterm.out").decode().splitlines()[0].endswith("Cycles 784")


def test_a_set_up_that_failed_is_refused_with_what_it_said() -> None:
    with pytest.raises(ParseError, match="exit code 1: could not open POSIX message queue #1"):
        _parse("", files={"tool.err": b"could not open POSIX message queue #1\n"}, exit_code=1)
    with pytest.raises(ParseError, match="exit code 143: no message"):
        _parse(GOOD, exit_code=143)


def test_other_words_on_standard_error_are_no_failure() -> None:
    assert _parse(GOOD, files={"tool.err": b"something about a library\n"})


@pytest.mark.parametrize("high", [899_999, 250_000, 60])
def test_a_maximum_that_can_be_trusted_is_reported(high: int) -> None:
    found = _parse(GOOD.replace('"max": 60', f'"max": {high}'))
    assert max(one.quantity.value for one in found if one.name == "latency.max" and one.quantity) == high


def test_one_pair_must_have_all_samples_and_the_others_may_be_slower() -> None:
    slower = GOOD.replace('"samples": 2000', '"samples": 1300', 1)
    assert sorted(one.quantity.value for one in _parse(slower) if one.name == "samples" and one.quantity) == [
        1300,
        2000,
    ]


def _clean_or_refused(data: bytes | str) -> None:
    """Read it, or refuse it: nothing else may happen, and nothing that is read may be nonsense."""
    try:
        found = _parse(data)
    except ParseError:
        return
    numbers: dict[tuple[str, str], float] = {
        (one.name, one.labels["cpu"]): one.quantity.value for one in found if one.quantity is not None
    }
    assert len(numbers) == len(found) == 8
    for cpu in {cpu for _, cpu in numbers}:
        low, mean, high = (numbers[f"latency.{name}", cpu] for name in ("min", "avg", "max"))
        assert 0 <= low <= mean <= high < 900_000
        assert numbers["samples", cpu] > 0
    assert all(math.isfinite(value) for value in numbers.values())
    assert max(value for (name, _), value in numbers.items() if name == "samples") >= 2000


@examples(60)
@given(end=st.integers(0, len(GOOD)))
def test_a_truncated_file_is_refused_or_whole(end: int) -> None:
    if end >= len(GOOD.rstrip()):
        assert _parse(GOOD[:end]) == _parse(GOOD)
    else:
        with pytest.raises(ParseError):
            _parse(GOOD[:end])


@examples(150)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), st.binary(max_size=6) | st.just(b"\n[    1.2] x")),
        max_size=4,
    )
)
def test_damaged_bytes_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    data = GOOD.encode()
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    _clean_or_refused(data)


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 2**63, -1, 0, 1000, [], {}, {"0": {}}])
)


@examples(200)
@given(
    path=st.sampled_from(
        [
            ("thread",),
            ("thread", "0"),
            ("thread", "x"),
            *(("thread", "1", "sender", key) for key in ("cpu", "samples", "interval", "priority")),
            *(("thread", "0", "receiver", key) for key in ("cpu", "timeoutcount", "min", "avg", "max")),
            ("thread", "0", "receiver"),
        ]
    ),
    value=ANYTHING,
)
def test_a_value_of_any_kind_anywhere_is_read_or_refused(path: tuple[str, ...], value: object) -> None:
    made: dict[str, Any] = json.loads(GOOD)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    _clean_or_refused(json.dumps(made))


@examples(60)
@given(rows=st.lists(st.tuples(*[st.integers(0, 899_999)] * 3, st.integers(1000, 10**6)), min_size=1, max_size=8))
def test_what_goes_in_comes_out(rows: list[tuple[int, int, int, int]]) -> None:
    threads: dict[str, Any] = {}
    wanted = []
    for cpu, (*times, samples) in enumerate(rows):
        low, mean, high = sorted(times)
        threads[str(cpu)] = {
            "sender": {"cpu": cpu, "priority": 99, "samples": samples, "interval": 1000},
            "receiver": {"cpu": cpu, "priority": 99, "min": low, "avg": float(mean), "max": high},
        }
        wanted += [low, mean, high, samples]
    setting = Setting(cpus=len(rows), duration_s=0.0, virtual_time=False)
    found = _parse(json.dumps({"thread": threads}), setting)
    assert [one.quantity.value for one in found if one.quantity is not None] == wanted


def test_a_number_of_unbound_pairs_with_a_distance_is_read() -> None:
    tool = Pmqtest(threads=2, affinity=False, priority=1, distance_us=500, loops=100)
    setting = Setting(cpus=2, duration_s=60, virtual_time=False)
    data = (DATA / "2.4" / "pmqtest-unbound.json").read_bytes()
    found = tool.parse(Output(files={"pmqtest.json": data}, exit_code=0, setting=setting))
    maxima = {one.labels["pair"]: one.quantity.value for one in found if one.name == "latency.max" and one.quantity}
    assert maxima == {"0": 46, "1": 32}
    assert tool.expected(setting).duration_s == 0.1
    assert "--affinity" not in tool.argv(setting)
    with pytest.raises(ParseError, match="of 101 samples"):
        replace(tool, loops=101).parse(Output(files={"pmqtest.json": data}, exit_code=0, setting=setting))


def test_pairs_that_share_a_cpu_are_told_apart() -> None:
    made: dict[str, Any] = json.loads(GOOD)
    pairs = made["thread"]
    pairs |= {"2": pairs["0"], "3": pairs["1"]}
    found = Pmqtest(threads=4).parse(
        Output(files={"pmqtest.json": json.dumps(made).encode()}, exit_code=0, setting=TWO)
    )
    assert [one.labels for one in found if one.name == "latency.max"] == [
        {"cpu": str(number % 2), "pair": str(number)} for number in range(4)
    ]


def test_the_priority_falls_from_pair_to_pair_and_not_below_1() -> None:
    tool = Svsematest(threads=3, priority=2)
    setting = Setting(cpus=4, duration_s=1, virtual_time=False)
    assert [(group.count, group.priority) for group in tool.expected(setting).threads] == [(2, 2), (4, 1)]
