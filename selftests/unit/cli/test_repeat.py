# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from selftests.fake_target import FakeTarget, arm, arms, measured_outcome

from rtgate.cli import main, repeat
from rtgate.errors import InfrastructureError
from rtgate.measure.case import Arm

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
