# SPDX-License-Identifier: MIT
from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.cyclictest import JSON as WAKEUPS
from rtgate.tools.measurement import Measurement
from rtgate.tools.preemptirq import JSON, KINDS, Preemptirq
from rtgate.tools.threads import ThreadScope
from rtgate.tools.wakeup_bound import interference
from rtgate.units import Unit

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "selftests" / "data"
TOOL = Preemptirq()
SETTING = Setting(cpus=2, duration_s=1, virtual_time=False)
LATENCIES = (DATA / "rt-tests" / "2.4" / "cyclictest-hist.json").read_text()
"""Of two CPUs, whose longest wake-ups are of 61 and 39 us."""


def site(begin: str, end: str, longest: int, begin_caller: str = "0x0", end_caller: str = "0x0") -> dict[str, Any]:
    names = {"begin": begin, "begin_caller": begin_caller, "end": end, "end_caller": end_caller}
    return {"longest": longest, **names}


def sections(*sites: dict[str, Any]) -> dict[str, Any]:
    return {"count": 10 * len(sites), "sites": {str(number): one for number, one in enumerate(sites)}}


SPIN, UNLOCK = "_raw_spin_lock_irqsave", "_raw_spin_unlock_irqrestore"
CPU = {
    "lost": 0,
    "entry": site("vprintk", "schedule", 500),
    "tail": 100,
    "way": 9000,
    "interrupts": 2,
    "nmis": 0,
    "windows": {"10000": {"taken": 4000, "count": 1}, "100000": {"taken": 7000, "count": 2}},
    "irqsoff": sections(
        site(SPIN, UNLOCK, 60_500, "try_to_wake_up", "schedule"),
        site("handle_softirqs", "handle_softirqs", 5000),
        site(SPIN, UNLOCK, 700),
    ),
    "preemptoff": sections(
        site("trace_preempt_off.part.0", "other [module]", 3000, "vprintk"), site("do_idle", "do_idle", 2500)
    ),
    "preemptirqsoff": sections(site("do_idle", "do_idle", 62_000), site("do_idle", "do_idle", 500)),
    "poid": sections(site("vprintk", "vprintk", 40_000)),
    "switch": sections(site("schedule", "schedule", 20_000)),
}


def reported(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what the driver says of two CPUs, with changes of the first one's."""
    return {"preempt_rt": 1, "cpu": {"0": {**copy.deepcopy(CPU), **(changes or {})}, "1": copy.deepcopy(CPU)}}


def parse(report: dict[str, Any] | str, code: int = 0, setting: Setting = SETTING) -> tuple[Measurement, ...]:
    text = report if isinstance(report, str) else json.dumps(report)
    return TOOL.parse(Output(files={JSON: text.encode(), WAKEUPS: LATENCIES.encode()}, exit_code=code, setting=setting))


def times(measurements: tuple[Measurement, ...], name: str, cpu: str = "0") -> list[tuple[str, float]]:
    return [
        (one.labels.get("site", ""), one.quantity.value)
        for one in measurements
        if one.name == name and one.labels["cpu"] == cpu and one.quantity
    ]


def test_the_longest_sites_are_named_and_sections_counted() -> None:
    found = parse(reported())
    assert times(found, "irqsoff.max") == [("", 60.5)]
    assert times(found, "irqsoff.site") == [
        (f"try_to_wake_up ({SPIN}) to schedule ({UNLOCK})", 60.5),
        ("handle_softirqs", 5.0),
        (f"unknown ({SPIN}) to unknown ({UNLOCK})", 0.7),
    ]
    # The tracing itself is no place.
    assert times(found, "preemptoff.site") == [("vprintk to other [module]", 3.0), ("do_idle", 2.5)]
    # Places with one name are one site.
    assert times(found, "preemptirqsoff.site") == [("do_idle", 62.0)]
    assert times(found, "irqsoff.sections") == [("", 30)]
    assert times(found, "latency.max") == [("", 61)]
    assert {one.name for one in found} <= set(TOOL.reports)
    assert {one.quantity.unit for one in found if one.quantity} == {Unit.US, Unit.COUNT}


def test_a_bound_is_made_of_the_longest_parts() -> None:
    found = parse(reported())
    for cpu in ("0", "1"):
        assert times(found, "bound", cpu) == [("", 40.1 + 0.5 + 20.1 + 9 + 7)]
    assert times(found, "bound.postponed") == [("vprintk", 40.1)]
    assert times(found, "bound.entry") == [("vprintk to schedule", 0.5)]
    assert times(found, "bound.switch") == [("schedule", 20.1)]
    assert times(found, "bound.way") == [("", 9)]
    assert times(found, "bound.interrupts") == [("", 7)]
    assert not times(found, "latency.unexplained")


def test_a_wake_up_that_is_longer_than_its_bound_is_said_and_has_none() -> None:
    found = parse(reported({"poid": sections(site("vprintk", "vprintk", 100))}))
    assert times(found, "latency.unexplained") == [("", 61 - (20.1 + 0.5 + 20.1 + 9 + 7))]
    assert not [one for one in found if one.name.startswith("bound") and one.labels["cpu"] == "0"]
    assert times(found, "bound", "1")


BUSY = {"10000": {"taken": 9000, "count": 9}, "100000": {"taken": 50_001, "count": 50}}


@pytest.mark.parametrize(
    "report",
    [reported({"windows": BUSY}), reported({"nmis": 1}), {**reported(), "preempt_rt": 0}],
    ids=["no room", "NMIs", "no PREEMPT_RT"],
)
def test_some_kernels_have_no_bound(report: dict[str, Any]) -> None:
    found = parse(report)
    assert not [one for one in found if one.name.startswith(("bound", "latency.un")) and one.labels["cpu"] == "0"]
    assert times(found, "irqsoff.max")


def test_a_bound_beyond_the_longest_time_has_as_many_interrupts_as_several_of_it() -> None:
    found = parse(reported({"poid": sections(site("vprintk", "vprintk", 150_000))}))
    # 179.7 us are two times 100 us: 2 x 7 us; with them it is no more.
    assert times(found, "bound.interrupts") == [("", 14)]


def test_only_the_ten_longest_sites_are_measurements() -> None:
    many = sections(*(site(f"function_{number}", f"function_{number}", 1000 + number) for number in range(16)))
    found = parse(reported({"irqsoff": many}))
    assert [name for name, _ in times(found, "irqsoff.site")] == [f"function_{number}" for number in range(15, 5, -1)]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("", "preemptirq wrote no JSON"),
        ("{", "preemptirq's JSON is damaged"),
        ({"cpu": {}}, "preemptirq reports no cpus"),
        ({"cpu": reported()["cpu"]}, "JSON has no 'preempt_rt'"),
        ({"preempt_rt": 1, "cpu": {"0": CPU}}, "preemptirq followed no CPU 1, on which cyclictest measured"),
        (reported({"lost": 3}), "3 sections or interrupts of CPU 0 had no room in the driver"),
        (reported({"irqsoff": sections()}), "CPU 0 had no section of irqsoff: nothing was followed"),
        (reported({"irqsoff": {"count": 4, "sites": {}}}), "counts 4 sections of irqsoff at 0 sites"),
        (reported({"poid": {"count": 0, "sites": {"0": site("a", "a", 1)}}}), "counts 0 sections of poid at 1 sites"),
        (reported({"way": -1}), "'way' is -1"),
        (reported({"switch": sections()}), "CPU 0 had no switch to cyclictest's thread, or no interrupt"),
        (reported({"way": 0}), "CPU 0 had no switch to cyclictest's thread, or no interrupt"),
        (reported({"interrupts": 0}), "CPU 0 had no switch to cyclictest's thread, or no interrupt"),
        (reported({"entry": site("a", "b", -1)}), "'longest' is -1"),
        (reported({"windows": {}}), "reports no windowss"),
        (reported({"windows": {"0": {"taken": 0, "count": 0}}}), "took less of a longer time"),
        (
            reported({"windows": {"10": {"taken": 5, "count": 1}, "20": {"taken": 4, "count": 1}}}),
            r"took less of a longer time: \[5, 4\]",
        ),
    ],
)
def test_what_is_not_whole_is_no_result(report: dict[str, Any] | str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(report)


def test_a_thread_of_cyclictest_on_no_cpu_is_no_result() -> None:
    nowhere = LATENCIES.replace('"cpu": 1', '"cpu": -1')
    assert nowhere != LATENCIES
    files = {JSON: json.dumps(reported()).encode(), WAKEUPS: nowhere.encode()}
    with pytest.raises(ParseError, match="cyclictest had threads on the CPUs 0, -1, not one on each"):
        TOOL.parse(Output(files=files, exit_code=0, setting=SETTING))


def test_a_run_that_failed_is_no_measurement() -> None:
    with pytest.raises(ParseError, match="cyclictest ended with exit code 1"):
        parse(reported(), code=1)


@given(st.text(max_size=200))
def test_any_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([])
)


@examples(300)
@given(st.sampled_from(sorted(CPU)), _VALUES)
def test_a_damaged_output_is_a_result_or_a_parse_error(name: str, value: Any) -> None:
    try:
        found = parse(reported({name: value}))
    except ParseError:
        return
    assert all(one.quantity.value >= 0 for one in found if one.quantity)


@given(st.integers(1, 10**6), st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 50)), max_size=40))
@example(1, [(0, 1), (0, 46), (0, 1), (2, 1), (0, 47)])
def test_a_bound_has_room_for_its_own_interrupts(length: int, gaps: list[tuple[int, int]]) -> None:
    """`most` counts in full what begins within the time; afterwards nothing comes."""
    interrupts, start = [], 0
    for gap, taken in gaps:
        interrupts.append((start, taken))
        start += gap + taken

    def most(window: int) -> tuple[int, int]:
        return max(
            (
                (sum(taken for begin, taken in inside), len(inside))
                for start, _ in interrupts
                if (inside := [one for one in interrupts if start <= one[0] < start + window])
            ),
            default=(0, 0),
        )

    taken, number = interference(length, most)
    worst, count = most(length + taken)
    assert worst == taken
    assert bool(taken) <= number <= count  # a longer time may hold as much in more of them
    assert all(most(length + less)[0] > less for less in range(0, taken, max(1, taken // 20)))


def test_cyclictest_measures_while_the_driver_follows() -> None:
    program, option, script, zero, *command = TOOL.argv(SETTING)
    assert (program, option, zero) == ("sh", "-c", "sh")
    assert tuple(command) == TOOL.cyclictest.argv(SETTING)
    assert script.startswith("exec 3>/dev/rtgate_sections && echo 99 >&3 || exit\n")
    expected = TOOL.expected(SETTING)
    assert (expected.seen, expected.threads) == (ThreadScope.SESSION, ())
    assert expected.interval_us == TOOL.cyclictest.expected(SETTING).interval_us


def test_parser_and_driver_name_the_same_kinds() -> None:
    driver = (ROOT / "target" / "modules" / "rtgate_sections.c").read_text()
    listed = ", ".join(f'"{name}"' for name in (*KINDS, "poid", "switch"))
    assert f"names[] = {{ {listed} }};" in driver


@pytest.mark.parametrize("load", ["idle", "hackbench"])
def test_a_captured_run(load: str) -> None:
    directory = DATA / "preemptirq" / "linux-6.12"
    names = {JSON: "preemptirq", WAKEUPS: "cyclictest"}
    files = {file: (directory / f"{name}-virt-arm64-{load}.json").read_bytes() for file, name in names.items()}
    virtual = Setting(cpus=1, duration_s=10, virtual_time=True)
    found = TOOL.parse(Output(files=files, exit_code=0, setting=virtual))
    ((_, longest),) = times(found, "latency.max")
    ((_, bound),) = times(found, "bound")
    assert longest / 1000 < bound
    postponed = "_raw_spin_lock_irq to __run_timer_base.part.0 (_raw_spin_unlock_irq)"
    assert times(found, "bound.postponed")[0][0] == postponed
    parts = sum(times(found, f"bound.{part}")[0][1] for part in ("entry", "way", "interrupts"))
    first, second = (times(found, f"bound.{part}")[0][1] for part in ("postponed", "switch"))
    assert bound == pytest.approx(max(first, second) + second + parts)
    assert len(times(found, "irqsoff.site")) == 10
    assert "unknown" not in " ".join(one.labels.get("site", "") for one in found)
