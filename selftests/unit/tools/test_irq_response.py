# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Expected, Output, Setting
from rtgate.tools.irq_response import INTERVAL_MOST_US, RANGE_MOST_US, RESOLUTION_NS, IrqHard, IrqThreaded
from rtgate.tools.measurement import Measurement
from rtgate.tools.threads import ThreadScope
from rtgate.units import Unit

DRIVER = Path(__file__).resolve().parents[3] / "target" / "modules" / "rtgate_irq_response.c"
CAPTURED = Path(__file__).resolve().parents[2] / "data" / "irq" / "qemu-7.2"  # its SOURCES.md says from what
VIRTUAL = Setting(cpus=1, duration_s=2, virtual_time=True)
HARD = IrqHard()
HANDLED = {
    "test": "hard",
    "asked": 2000,
    "cycles": 2000,
    "lost": 0,
    "spurious": 0,
    "cpu": 0,
    "resolution_in_ns": 30,
    "range": 999_990,
    "min": 3_000,
    "max": 9_000,
    "sum": 6_006_000,
    "histogram": {"3000": 1999, "9000": 1},
}


def _parse(document: dict[str, Any] | str, tool: IrqHard = HARD, exit_code: int = 0) -> tuple[Measurement, ...]:
    text = document if isinstance(document, str) else json.dumps(document)
    return tool.parse(Output(files={"tool.out": text.encode()}, exit_code=exit_code, setting=VIRTUAL))


def _values(measurements: tuple[Measurement, ...]) -> dict[str, tuple[float, Unit]]:
    return {one.name: (one.quantity.value, one.quantity.unit) for one in measurements if one.quantity}


def test_the_response_is_read() -> None:
    measurements = _parse(HANDLED)
    [histogram] = [one.histogram for one in measurements if one.histogram is not None]
    assert (histogram.counts, histogram.unit) == ({3000: 1999, 9000: 1}, Unit.VIRTUAL_NS)
    assert (histogram.limit, histogram.overflow) == (999_990, 0)
    assert _values(measurements) == {
        "interrupts": (2000, Unit.COUNT),
        "interrupts.lost": (0, Unit.COUNT),
        "interrupts.spurious": (0, Unit.COUNT),
        "response.min": (3_000, Unit.VIRTUAL_NS),
        "response.avg": (3_003, Unit.VIRTUAL_NS),
        "response.max": (9_000, Unit.VIRTUAL_NS),
    }
    assert {one.labels["cpu"] for one in measurements} == {"0"}
    assert {one.name for one in measurements} == set(HARD.reports)


def test_a_threaded_handler_has_a_case_of_its_own() -> None:
    document = {**HANDLED, "test": "threaded"}
    assert len(_parse(document, IrqThreaded())) == len(_parse(HANDLED))
    with pytest.raises(ParseError, match="reports 'threaded', not 'hard'"):
        _parse(document)


def test_a_response_beyond_the_range_is_overflow() -> None:
    late = {**HANDLED, "max": 2_000_010, "sum": 7_997_010, "histogram": {"3000": 1999}}
    [histogram] = [one.histogram for one in _parse(late) if one.histogram is not None]
    assert histogram.overflow == 1


def test_an_interrupt_that_never_comes_is_counted_as_lost() -> None:
    lost = {**HANDLED, "cycles": 2, "lost": 1, "sum": 12_000, "histogram": {"3000": 1, "9000": 1}}
    assert _values(_parse(lost))["interrupts.lost"] == (1, Unit.COUNT)
    first = {**HANDLED, "cycles": 0, "lost": 1, "min": 0, "max": 0, "sum": 0, "histogram": {}}
    assert set(_values(_parse(first))) == {"interrupts", "interrupts.lost", "interrupts.spurious"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cycles": 1999}, "contradicts itself: 1999 of 2000"),
        ({"cycles": 2001}, "contradicts itself: 2001 of 2000"),
        ({"lost": 1}, "contradicts itself"),
        ({"asked": 1000, "cycles": 1000}, "2000 were asked for"),
        ({"sum": 5_999_999}, "sum 5999999 contradict each other"),
        ({"sum": 18_000_001}, "sum 18000001 contradict each other"),
        ({"min": 2_970}, "minimum 2970 and its histogram contradict each other"),
        ({"max": 8_970}, "maximum 8970 and its histogram contradict each other"),
        ({"histogram": {"3000": 2001}}, "2001 samples of 2000"),
        ({"histogram": {"3000": 1998, "3001": 1, "9000": 1}}, "not multiples of 30 ns"),
        ({"histogram": {"999990": 1}}, "range ends at 999990"),
        ({"resolution_in_ns": 1}, "not in steps of 30 ns"),
        ({"range": 30}, "not in steps of 30 ns up to 999990"),
        ({"cpu": -1}, "'cpu' is -1"),
        ({"spurious": "x"}, "not a whole number"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _parse({**HANDLED, **changes})


def test_a_refused_write_is_not_a_measurement() -> None:
    with pytest.raises(ParseError, match="exit code 1"):
        _parse(HANDLED, exit_code=1)


def test_the_command_line() -> None:
    node = "/dev/rtgate_irq_response"
    assert HARD.argv(VIRTUAL) == ("sh", "-c", f"echo hard 2000 1000 1000 >{node} && cat {node}")
    assert IrqThreaded(interval_us=500).argv(VIRTUAL)[2].startswith("echo threaded 4000 500 1000 >")
    assert HARD.expected(VIRTUAL) == Expected(
        threads=(), duration_s=2, work_s=3, seen=ThreadScope.SESSION, ends_with="interrupts.lost"
    )


def test_interrupts_that_take_longer_than_their_interval_are_waited_for() -> None:
    """From one to the next there are 47 us in all here, more than twice the interval."""
    setting = Setting(cpus=1, duration_s=60, virtual_time=True)
    expected = IrqThreaded(interval_us=20).expected(setting)
    assert (expected.duration_s, expected.work_s) == (60, 1560)


@pytest.mark.parametrize("duration_s", [2, 10, 60, 120, 3600])
def test_the_usual_interval_needs_no_longer_wait(duration_s: int) -> None:
    """Another deadline would be another plan, and other data on virtual time."""
    assert HARD.expected(Setting(cpus=1, duration_s=duration_s, virtual_time=True)).work_s < 2 * duration_s + 20


def test_parser_and_driver_have_the_same_steps_and_ranges() -> None:
    defines = re.findall(r"#define (?:TICK_NS|INTERVAL_MOST_US|RANGE_MOST_US) (\d+)", DRIVER.read_text())
    assert defines == [str(RESOLUTION_NS), str(INTERVAL_MOST_US), str(RANGE_MOST_US)]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *(("interval_us", value, "1 to 100000") for value in (-1, 0, 100_001)),
        *(("range_us", value, "1 to 10000") for value in (-1, 0, 10_001)),
    ],
)
def test_an_option_that_the_driver_refuses_is_refused_before_anything_boots(
    name: str, value: int, allowed: str
) -> None:
    assert IrqHard(interval_us=100_000, range_us=10_000).argv(VIRTUAL)[2].startswith("echo hard 20 100000 10000 >")
    with pytest.raises(ConfigError, match=f"^{name} of irq-threaded is {value} .allowed: {allowed}.$"):
        IrqThreaded(**{name: value})


@given(st.text(max_size=200))
def test_any_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        _parse(text)


_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([])
)


@examples(300)
@given(st.sampled_from(sorted(HANDLED)), _VALUES)
def test_any_value_is_a_result_or_a_parse_error(name: str, value: Any) -> None:
    try:
        measurements = _parse({**HANDLED, name: value})
    except ParseError:
        return
    assert all(one.histogram or (one.quantity and one.quantity.value >= 0) for one in measurements)


@examples(300)
@given(st.lists(st.integers(min_value=0, max_value=60_000), min_size=1, max_size=40))
def test_what_the_driver_counts_is_what_the_parser_reports(ticks: list[int]) -> None:
    """The driver's own arithmetic, with responses on both sides of its range."""
    inside = [tick * 30 for tick in ticks if tick < 33_333]
    document = {
        **HANDLED,
        "asked": len(ticks),
        "cycles": len(ticks),
        "sum": sum(ticks) * 30,
        "min": min(ticks) * 30,
        "max": max(ticks) * 30,
        "histogram": {str(value): inside.count(value) for value in sorted(set(inside))},
    }
    setting = Setting(cpus=1, duration_s=len(ticks) / 1000, virtual_time=True)
    text = json.dumps(document).encode()
    measurements = HARD.parse(Output(files={"tool.out": text}, exit_code=0, setting=setting))
    [histogram] = [one.histogram for one in measurements if one.histogram is not None]
    assert histogram.total == len(ticks)
    assert histogram.overflow == len(ticks) - len(inside)
    assert _values(measurements)["response.max"][0] == max(ticks) * 30


@pytest.mark.parametrize(("tool", "largest"), [(HARD, 22_020), (IrqThreaded(), 50_040)])
def test_a_captured_run_is_read(tool: IrqHard, largest: int) -> None:
    text = (CAPTURED / f"{tool.name}-virt-arm64.out").read_text()
    ten_seconds = Setting(cpus=1, duration_s=10, virtual_time=True)
    found = tool.parse(Output(files={"tool.out": text.encode()}, exit_code=0, setting=ten_seconds))
    histogram = next(one for one in found if one.histogram)
    assert histogram.histogram is not None
    assert sum(histogram.histogram.counts.values()) == 10_000
    assert _values(found)["response.max"] == (largest, Unit.VIRTUAL_NS)
