# SPDX-License-Identifier: MIT
"""Runs without a histogram; those with one are in `test_xenomai.py`, beside the other programs of Xenomai."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest

TOOL = XenomaiCyclictest(range_us=0, threads=4, affinity="none", clock="monotonic")
SETTING = Setting(cpus=4, duration_s=10, virtual_time=False)
# Made after the figures that the vendor's report prints for RK3568, Xenomai, idle, cut to ten seconds.
TEXT = """\
T: 0 (  612) P:99 I:1000 C:  10000 Min:      1 Act:    8 Avg:    7 Max:      68
T: 1 (  613) P:99 I:1500 C:   6667 Min:      2 Act:    8 Avg:    7 Max:      70
T: 2 (  614) P:99 I:2000 C:   5000 Min:      2 Act:    9 Avg:    8 Max:      66
T: 3 (  615) P:99 I:2500 C:   3990 Min:      2 Act:    6 Avg:    7 Max:      58
"""


def _parse(text: str, tool: XenomaiCyclictest = TOOL) -> dict[tuple[str, str], float]:
    found = tool.parse(Output(files={"tool.out": text.encode()}, exit_code=0, setting=SETTING))
    return {(one.name, next(iter(one.labels.values()))): one.quantity.value for one in found if one.quantity}


def test_a_line_of_each_thread_is_read() -> None:
    found = _parse(TEXT)
    assert [found["latency.max", str(thread)] for thread in range(4)] == [68, 70, 66, 58]
    assert [found["latency.min", str(thread)] for thread in range(4)] == [1, 2, 2, 2]
    assert [found["latency.avg", str(thread)] for thread in range(4)] == [7, 7, 8, 7]


def test_each_thread_has_a_period_of_its_own() -> None:
    found = _parse(TEXT)
    assert [found["wakeups", str(thread)] for thread in range(4)] == [10000, 6667, 5000, 3990]
    assert [found["wakeups.lost", str(thread)] for thread in range(4)] == [0, 0, 0, 10]


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.partition("\n")[2],  # a thread is missing
        TEXT.replace("C:  10000", "C:      0"),
        TEXT.replace("Avg:    7 Max:      68", "Avg:   99 Max:      68"),
        TEXT.replace("Min:      1", "Min:     -1"),
    ],
)
def test_what_is_damaged_or_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        _parse(text)


@given(st.integers(0, len(TEXT)), st.text(max_size=5))
def test_any_damage_is_read_or_refused(place: int, damage: str) -> None:
    with contextlib.suppress(ParseError):
        assert _parse(TEXT[:place] + damage + TEXT[place:])


def test_a_number_of_wake_ups_ends_a_run_before_the_duration_does() -> None:
    counted = replace(TOOL, loops=1000)
    assert counted.expected(SETTING).duration_s == 1
    assert not any(word.startswith("-D") for word in counted.argv(SETTING))
    endless = replace(TOOL, loops=1_000_000)
    assert endless.expected(SETTING).duration_s == 10
    assert "-D10" in endless.argv(SETTING)


def test_one_cpu_for_all_is_where_they_must_be_seen() -> None:
    bound = replace(TOOL, affinity="2")
    assert "-a2" in bound.argv(SETTING)
    assert bound.expected(SETTING).cpus == (2,)


@pytest.mark.parametrize("options", [{"clock": "realtime"}, {"affinity": "0-1"}])
def test_what_it_cannot_do_is_a_mistake(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        XenomaiCyclictest(**options)  # type: ignore[arg-type]
