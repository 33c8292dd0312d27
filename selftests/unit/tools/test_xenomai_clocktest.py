# SPDX-License-Identifier: MIT
"""clocktest: captured output of a virtual board (selftests/data/xenomai/3.3.1/SOURCES.md), and faults in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Setting
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.tools.xenomai_clocktest import XenomaiClocktest
from rtgate.units import Quantity, Unit

VIRTUAL = Setting(cpus=1, duration_s=10, virtual_time=True)
CAPTURED = (Path(__file__).resolve().parents[2] / "data/xenomai/3.3.1/xenomai-clocktest.out").read_text()
HEAD = "".join(CAPTURED.splitlines(keepends=True)[:3])


def row(cpu: int = 0, drift: float = 0, warps: int = 0, furthest: float = 0, up: int = 1) -> str:
    """Return a row as clocktest's format string makes it."""
    return f"\x1b[{up}A" * (cpu == 0) + f"{cpu:3d} {1.8:20.1f} {drift:16.3f} {warps:10d} {furthest:14.1f}\n"


def _parse(out: str, err: str = "", code: int = 0, cpus: int = 1) -> Mapping[tuple[str, str], Quantity]:
    files, setting = {"tool.out": out.encode(), "tool.err": err.encode()}, replace(VIRTUAL, cpus=cpus)
    output = Output(files=files, exit_code=code, setting=setting)
    found = XenomaiClocktest().parse(output)
    assert {one.name for one in found} == {*XenomaiClocktest.reports}
    return {(one.name, one.labels["cpu"]): one.quantity for one in found if one.quantity}


def test_what_a_virtual_board_printed() -> None:
    assert _parse(CAPTURED) == {
        ("warps", "0"): Quantity(0, Unit.COUNT),
        ("warp.furthest", "0"): Quantity(0, Unit.VIRTUAL_US),
        ("drift", "0"): Quantity(0, Unit.RATIO),
        ("rounds", "0"): Quantity(40, Unit.COUNT),
    }


def test_the_last_table_counts_for_each_cpu() -> None:
    table = row(0, 0.5, 0, 0, up=2) + row(1, 0.5, 1, 2.5)
    found = _parse(HEAD + table + row(0, -12.5, 3, 7.5, up=2) + row(1, 1.25, 1, 2.5), cpus=2)
    assert (found["warps", "0"].value, found["warps", "1"].value) == (3, 1)
    assert (found["warp.furthest", "0"].value, found["warp.furthest", "1"].value) == (7.5, 2.5)
    assert (found["drift", "0"].value, found["drift", "1"].value) == (12.5e-6, 1.25e-6)
    assert found["rounds", "1"].value == 2


@pytest.mark.parametrize(
    ("out", "err", "code", "reason"),
    [
        ("", "", 0, "no table of CLOCK_REALTIME: no message"),
        ("", "clocktest: bad built-in clock id\n", 1, "exit code 1: clocktest: bad"),
        (HEAD, "", 0, "no table"),
        (row(), "", 0, "no table"),
        (HEAD.replace("REALTIME (0)", "MONOTONIC (1)") + row(), "", 0, "no table of CLOCK_REALTIME"),
        (HEAD + row() + row(1) + row(), "", 0, "last table is not whole, with a row for 1 CPUs"),
        (HEAD + row() + row(warps=1, furthest=2.5)[:-3], "", 0, "last table is not whole"),
        (HEAD + row() + row(warps=1).replace(".0\n", "x0\n"), "", 0, "a line that is not a row"),
        (HEAD + "clocktest: warning\n" + row(), "", 0, "a line that is not a row"),
        (HEAD + row(furthest=float("inf")), "", 0, "a line that is not a row"),
        (HEAD + row(warps=2, furthest=1) + row(warps=1, furthest=1), "", 0, "contradicts itself on CPU 0: .* warps 1"),
        (HEAD + row(furthest=1), "", 0, "contradicts itself"),
        (HEAD + row(drift=float("nan")), "", 0, "contradicts itself on CPU 0: drift nan"),
    ],
)
def test_what_says_nothing_certain_is_refused(out: str, err: str, code: int, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(out, err, code)


def test_the_command_line_and_what_it_must_be_seen_to_do() -> None:
    path = "PATH=/usr/xenomai/bin:/usr/bin:/usr/sbin:/bin:/sbin"
    assert XenomaiClocktest().argv(VIRTUAL) == ("env", path, "clocktest", "-T", "10")
    assert [need.test for need in XenomaiClocktest.needs] == ["[ -e /proc/xenomai/version ]"]
    assert XenomaiClocktest().expected(VIRTUAL) == Expected(
        threads=(Threads(count=1, policy=SCHED_FIFO, priority=1),),
        duration_s=10,
        seen=ThreadScope.SESSION,
        counts=(Count(measurement="rounds", least=36),),
        clock=True,
    )


def test_a_warp_of_a_few_nanoseconds_is_one() -> None:
    assert _parse(HEAD + row() + row(warps=1))["warps", "0"].value == 1


def test_the_alarm_may_come_before_the_next_table() -> None:
    assert _parse(CAPTURED + "\x1b[1A") == _parse(CAPTURED)


def test_a_cpu_without_a_row_is_missed() -> None:
    with pytest.raises(ParseError, match="a row for 2 CPUs"):
        _parse(CAPTURED, cpus=2)


WARPED = CAPTURED + row(warps=3, furthest=12.5)


@examples(200)
@given(start=st.integers(len(CAPTURED) - 80, len(WARPED)), length=st.integers(1, 40))
def test_what_is_cut_out_hides_no_warp(start: int, length: int) -> None:
    rest = WARPED[:start] + WARPED[start + length :]
    try:
        found = _parse(rest)
    except ParseError:
        return
    assert found["warps", "0"].value > 0 or rest == CAPTURED


@examples(200)
@given(start=st.integers(0, len(CAPTURED)), length=st.integers(0, 40), new=st.text("\x1b[A -.0123\n", max_size=8))
def test_damaged_text_is_read_or_refused(start: int, length: int, new: str) -> None:
    try:
        found = _parse(CAPTURED[:start] + new + CAPTURED[start + length :])
    except ParseError:
        return
    assert all(one.value >= 0 for one in found.values())
