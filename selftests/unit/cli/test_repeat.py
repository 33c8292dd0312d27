# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from selftests.fake_target import FakeTarget, arm, arms, measured_outcome
from selftests.unit.measure.test_case import CASE

from rtgate.cli import main, repeat
from rtgate.errors import InfrastructureError
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.target.outcome import Outcome
from rtgate.tools.signaltest import Signaltest
from rtgate.workflow.arms import ArmRequest

if TYPE_CHECKING:
    from selftests.unit.cli.conftest import Lab

COMMON = ("repeat", "--board", "virt-arm64", "--kernel", "kernel", "--profile", "smoke")


def test_boots_that_are_alike(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*COMMON, "--seeds", "1-2", "--times", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len([line for line in told if line.endswith(" measured")]) == 4
    assert told[-3].startswith("seed 1: identical in 2 boots: samples ")
    assert told[-2].startswith("seed 2: identical in 2 boots: samples ")
    assert told[-1] == "1 different histograms over 2 seeds"


def test_a_console_that_differs_is_a_difference(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.make("noise-1")
    assert main.main([*COMMON, "--times", "2"]) == 4
    assert "seed 1: DIFFERENT: 1 histograms and 2 consoles in 2 boots" in capsys.readouterr().out


def test_boots_that_did_not_measure_are_not_alike(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.make("die-2")
    assert main.main([*COMMON, "--seeds", "1-2", "--times", "2"]) == 4
    told = capsys.readouterr().out
    assert "seed 2: 2 of 2 boots were not measured: no boot" in told
    assert "seed 1: identical in 2 boots" in told


def test_boots_that_could_not_run_the_tool_prove_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.make("skip-1")
    assert main.main([*COMMON, "--times", "2"]) == 4
    assert "seed 1: 2 of 2 boots were not measured: skipped" in capsys.readouterr().out


def test_samples_that_differ(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    boots = iter([measured_outcome(), measured_outcome(cyclictest_json=_other())])
    monkeypatch.setattr(repeat, "make_arms", arms(arm(FakeTarget({None: lambda _: next(boots)}))))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert main.main([*COMMON, "--times", "2"]) == 4
    assert "seed 1: DIFFERENT: 2 histograms and 1 consoles in 2 boots" in capsys.readouterr().out


def test_a_case_is_booted_as_a_gate_with_this_profile_does(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[ArmRequest] = []
    cases: list[Case] = []

    def make_arms(request: ArmRequest, _: threading.Event) -> tuple[Arm, ...]:
        requests.append(request)
        return (arm(FakeTarget({None: measured_outcome()})),)

    def note_case(case: Case, used_arm: Arm, seed: int) -> tuple[Record, Outcome]:
        cases.append(case)
        return measure(CASE, used_arm, seed)

    monkeypatch.setattr(repeat, "make_arms", make_arms)
    monkeypatch.setattr(repeat, "measure", note_case)
    words = ("--case", "signal/signaltest:hackbench+isolated", "--profile", "oee-rk3568", "--times", "2")
    assert main.main([*COMMON, *words]) == 0
    options = Signaltest(taskset="2", threads=4, affinity=False, mlock=False, loops=1000000)
    assert cases == [Case(suite="signal", tool=options, load="hackbench", tuning="isolated")] * 2
    assert requests[0].tuning == "isolated"


def test_a_case_that_no_suite_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*COMMON, "--case", "signal/cyclictest:idle"]) == 2
    assert "no suite measures signal/cyclictest" in capsys.readouterr().err


def _other() -> bytes:
    return measured_outcome().files["cyclictest.json"].replace(b'"19664": 1', b'"19680": 1')


@pytest.mark.parametrize("times", ["1", "0"])
def test_one_boot_repeats_nothing(times: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*COMMON, "--times", times]) == 2
    assert "--times must be at least 2" in capsys.readouterr().err


def test_only_virtual_time_repeats_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(repeat, "make_arms", arms(arm(FakeTarget(), time="host")))
    assert main.main([*COMMON]) == 2
    assert "is not a virtual board: only virtual time repeats itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"), [(InfrastructureError("no room"), 3), (KeyboardInterrupt(), 130), (RuntimeError("a defect"), 4)]
)
def test_an_end_in_the_middle_ends_all_boots(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    stops: list[threading.Event] = []

    def make_arms(_: object, stop: threading.Event) -> tuple[Arm, ...]:
        stops.append(stop)
        return (arm(FakeTarget({None: error})),)

    monkeypatch.setattr(repeat, "make_arms", make_arms)
    assert main.main([*COMMON]) == code
    assert stops[0].is_set()
