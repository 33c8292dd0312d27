# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm, facts, files, measured_outcome

from rtgate.board import suspend
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.tools.cyclictest import Cyclictest

CASE = Case(suite="latency", tool=Cyclictest(), load="hackbench")
SUCCESS = "/sys/power/suspend_stats/success"


@pytest.mark.parametrize(
    "line",
    [
        "[  105.123456] PM: suspend entry (deep)",
        "[  105.123456][  T812] PM: suspend entry (s2idle)",
        "<6>[    5.1] PM: hibernation: hibernation entry",
        "[    5.1] PM: hibernation entry",
        "[    9.0] Freezing user space processes ... (elapsed 0.001 seconds) done.",
        "Freezing user space processes",
    ],
)
def test_lines_that_tell_of_a_suspend(line: str) -> None:
    (found,) = suspend.suspend_lines(f"[    0.0] Linux version 6.12\n{line}\n[  106.0] usb 1-1: reset\n")
    assert line.endswith(found)
    assert found[0].isalpha()


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] PM: Adding info for No Bus:vcs3",
        "[    1.0] cgroup: Freezing user space processes",
        "[    1.0] tool: PM: suspend entry (deep)",
        "[    1.0] PM: suspend of devices complete after 3.456 msecs",
    ],
)
def test_lines_that_tell_of_none(line: str) -> None:
    assert suspend.suspend_lines(line) == ()


def test_a_real_boot_tells_of_none() -> None:
    assert suspend.suspend_lines(files()["dmesg"].decode()) == ()


@given(st.text())
def test_any_log_is_read(log: str) -> None:
    assert all(len(line) < 200 for line in suspend.suspend_lines(log))


def _recorded(time: str, **changes: bytes | None) -> Record:
    return measure(CASE, arm(FakeTarget({None: measured_outcome(**changes)}), time=time), 1)[0]


def test_counts_are_readings_of_live_boards() -> None:
    assert set(suspend.WATCHED) <= set(plan(CASE, arm(FakeTarget(), time="host"), 1).watched)
    around = {f"facts.{when}": facts(f"facts.{when}", {SUCCESS: b"4\n"}) for when in ("start", "end")}
    found = _recorded("real", **around).evidence
    assert (found.readings[SUCCESS], SUCCESS in found.settings) == (("4", "4"), False)


def test_the_log_is_looked_through_on_every_board() -> None:
    assert _recorded("virtual").evidence.suspends == ()
    assert _recorded("virtual", dmesg=b"").evidence.suspends is None
    why_not_exercised = files()["dmesg"] + b"[   5.1] PM: suspend entry (s2idle)\n"
    assert _recorded("virtual", dmesg=why_not_exercised).evidence.suspends == ("PM: suspend entry (s2idle)",)
