# SPDX-License-Identifier: MIT
"""What LAVA's table of results says of a case by its limits; no data is never pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.judge.conftest import BOARD, number, record

from rtgate.board import boards
from rtgate.board.boot import TimeBase
from rtgate.console.faults import Fault, FaultKind
from rtgate.judge.thresholds import load_thresholds
from rtgate.lava.in_job.judging import CaseJudge
from rtgate.records.record import Record
from rtgate.units import Unit
from rtgate.workflow.limit_profiles import LimitProfiles

NAME = "latency.cyclictest.idle"
MAX = f"{NAME}.latency.max.cpu0"

Results = Callable[..., tuple[dict[str, str], str]]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Return what gives LAVA's results by name, and what is said, where `latency.max` has a limit."""

    def of(*records: Record, limit: str = "") -> tuple[dict[str, str], str]:
        path = tmp_path / "rtgate-limits.yaml"
        entry = f"{{measurement: latency.max, kind: max, limit: {limit}, source: measured}}"
        limits = f"{{preempt_rt: {{latency/cyclictest:idle: [{entry}]}}}}" if limit else "{}"
        path.write_text(f"{BOARD}: {limits}\n")
        judge = CaseJudge(boards.board(BOARD), load_thresholds([path], {BOARD: True}, LimitProfiles().case))
        lines = [line for one in records for line in judge.lines(one)]
        found = [re.search(r"TEST_CASE_ID=(\S+) RESULT=(\w+)", line) for line in lines]
        said = "\n".join(line for line in lines if line.startswith("rtgate: "))
        return {one[1]: one[2] for one in found if one}, said

    return of


def test_a_limit_that_was_kept(results: Results) -> None:
    found, said = results(record(), limit="100 virtual us")
    assert (found[NAME], found[MAX]) == ("pass", "pass")
    assert found[f"{NAME}.latency.avg.cpu0"] == "unknown"  # no limit speaks of it
    assert said == ""


def test_a_limit_that_was_exceeded(results: Results) -> None:
    found, said = results(record(), limit="1 virtual us")
    assert (found[NAME], found[MAX]) == ("fail", "fail")
    assert found[f"{NAME}.latency.avg.cpu0"] == "unknown"
    assert said.startswith("rtgate: latency/cyclictest:idle: FAIL (preliminary): latency.max 30.0 virtual us")
    assert "limit 1.0 virtual us" in said


def test_only_the_cpu_that_exceeded_it_fails(results: Results) -> None:
    other = number("latency.max", 50, Unit.VIRTUAL_US, 1)
    found, _ = results(replace(record(), measurements=(*record().measurements, other)), limit="40 virtual us")
    assert (found[NAME], found[MAX], found[MAX.replace("cpu0", "cpu1")]) == ("fail", "pass", "fail")


def test_without_limits_nothing_passes(results: Results) -> None:
    found, said = results(record())
    assert len(found) > 3
    assert set(found.values()) == {"unknown"}
    assert "has no limit for" in said


@pytest.mark.parametrize(
    ("state", "result"),
    [("skipped", "unknown"), ("no boot", "fail"), ("kernel fault", "fail"), ("hang", "fail"), ("lab", "unknown")],
)
def test_what_was_not_measured_is_no_pass(results: Results, state: str, result: str) -> None:
    """A case that is skipped and has limits is missed."""
    found, said = results(record(state=state, message="why"), limit="1 virtual s")
    assert found == {NAME: result}
    assert "(preliminary): boot" in said or "(preliminary): seed" in said


def test_a_case_without_limits_may_be_skipped(results: Results) -> None:
    assert results(record(state="skipped", message="no disk")) == ({NAME: "skip"}, "")


def test_an_invalid_measurement_keeps_no_limit(results: Results) -> None:
    found, said = results(replace(record(), discrepancies=("raw output says more",)), limit="100 virtual us")
    assert (found[NAME], found[MAX]) == ("unknown", "unknown")
    assert "ERROR (preliminary)" in said


def test_a_kernel_fault_fails_a_case_within_its_limits(results: Results) -> None:
    fault = Fault(kind=FaultKind("warning"), line="WARNING: CPU: 0 PID: 1 at kernel/x.c:1", text="")
    found, said = results(record(faults=(fault,)), limit="100 virtual us")
    assert found[NAME] == "fail"
    assert found[MAX] == "unknown"
    assert "WARNING: CPU: 0" in said


@pytest.mark.parametrize("limit", ["1 virtual s", "1 virtual us"])
def test_host_time_judges_no_latency(results: Results, limit: str) -> None:
    on_host = replace(record(), environment=replace(record().environment, time=TimeBase.HOST))
    found, said = results(on_host, limit=limit)
    assert (found[NAME], found[MAX]) == ("unknown", "unknown")
    assert "DONE (preliminary)" in said
