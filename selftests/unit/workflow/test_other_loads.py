# SPDX-License-Identifier: MIT
"""Which loads are tried for a change that did not run, and what is said of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtgate.board import boards
from rtgate.board.boot import ArmName, TimeBase
from rtgate.errors import ConfigError, KernelFaultError, ParseError, TargetError
from rtgate.explain.comparing import ComparedKernels, ExerciseOutcome, Pair, Side
from rtgate.explain.explanation import Exercise
from rtgate.explain.replay import StoppedBootError
from rtgate.kernel.differing import Differences
from rtgate.measure.case import Arm, Case
from rtgate.measure.profiles import profile
from rtgate.records.explained import CaseExplanation, Change
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.signaltest import Signaltest
from rtgate.workflow import other_loads
from rtgate.workflow.arms import unknown_kernel
from rtgate.workflow.other_loads import TracedRun, with_other_loads

NOTHING: Any = None
ExerciseError = ConfigError | ParseError | StoppedBootError
HERE, THERE = Path("idle"), Path("hackbench")


def case(load: str, suite: str = "latency", tool: Any = None) -> Case:
    return Case(suite=suite, tool=tool or Cyclictest(), load=load)


def change(function: str, times: int, *, boots: bool = False) -> Change:
    missed = () if times else (f"{function}+0x0",)
    return Change(function=function, instructions=1, times=times, missed=missed, boots=boots)


def seen(*changes: Change) -> CaseExplanation:
    return CaseExplanation(
        baseline_image="a", candidate_image="b", seed=1, executed={}, resting=(), changes=tuple(changes)
    )


def side(board: str = "virt-arm64") -> Side:
    arm = Arm(
        name=ArmName.CANDIDATE,
        board=boards.board(board),
        kernel=unknown_kernel("preempt_rt"),
        profile=profile("compare"),
        time=TimeBase.VIRTUAL,
        target=NOTHING,
    )
    return Side(arm=arm, directory=Path("kernel"), seed=3, record=NOTHING)


def run(explanations: dict[Path, CaseExplanation], *loads: str, name: str = "compare") -> TracedRun:
    pairs = [Pair(case=case(load), candidate=side(), baseline=side()) for load in loads]
    signals = Pair(case=case("network", "signal", Signaltest()), candidate=side("virt-arm64-smp2"), baseline=side())
    kernels = ComparedKernels(candidate=NOTHING, differences=Differences(options={}), code=())
    return TracedRun.of([*pairs, signals], name, kernels, explanations)


class Machine:
    """Instead of suites and boots: offers cases by profile, and has outcomes by load."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offers = {
            "compare": [case("idle"), case("hackbench"), case("idle", "signal", Signaltest())],
            "paths": [case("disk"), case("network"), case("hackbench")],
        }
        self.outcomes: dict[str, ExerciseOutcome] = {}
        self.tried: list[str] = []
        self.profiles: list[str] = []
        self.lengths: set[float] = set()
        self.asks: dict[str, dict[str, int | str]] = {}
        monkeypatch.setattr(other_loads, "cases", self._cases)
        monkeypatch.setattr(other_loads, "exercise_candidate", self._boot)

    def _cases(self, _suites: Any, name: str, tuning: str, *, board: str) -> Sequence[Case]:
        assert (tuning, board) == ("default", "virt-arm64")
        self.profiles.append(name)
        if name not in self.offers:
            raise ConfigError("the suites have no cases to measure")
        return self.offers[name]

    def _boot(self, _kernels: Any, boots: Sequence[tuple[Side, Case]], _stop: Any) -> list[ExerciseOutcome]:
        for boot, boot_case in boots:
            assert (boot.seed, boot.record, boot_case.suite) == (3, None, "latency")
            self.lengths.add(boot.arm.profile.of("cyclictest", "latency", boot_case.load).duration_s)
            self.asks[boot_case.load] = boot.arm.profile.asks("cyclictest", "latency", boot_case.load)
            self.tried.append(boot_case.load)
        return [self.outcomes.get(boot_case.load, Exercise(changes=(change("f", 0),))) for _, boot_case in boots]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def told(traced: TracedRun) -> dict[Path, CaseExplanation]:
    return with_other_loads(traced, threading.Event())


def test_loads_that_the_run_left_out_and_those_of_profiles_that_name_some_are_tried_briefly(machine: Machine) -> None:
    machine.outcomes["network"] = Exercise(executed={"f": 4}, changes=(change("f", 4),))
    explanations = told(run({HERE: seen(change("f", 0))}, "idle"))
    assert machine.profiles == ["compare", "paths"]  # of all that are shipped
    assert machine.tried == ["hackbench", "disk", "network"]
    assert machine.lengths == {2.0}
    (explanation,) = explanations.values()
    assert explanation.other_loads == {"hackbench": "compare", "disk": "paths", "network": "paths"}
    assert explanation.reached_by == {"f": ("network",)}
    assert explanation.changes == (change("f", 0),)


def test_what_ran_in_any_case_of_the_run_is_not_looked_for(machine: Machine) -> None:
    explanations = {HERE: seen(change("f", 0), change("g", 0)), THERE: seen(change("f", 0), change("g", 9))}
    machine.outcomes["disk"] = Exercise(changes=(change("f", 0), change("g", 4)))
    told_of = told(run(explanations, "idle", "hackbench"))
    assert machine.tried == ["disk", "network"]
    assert {directory: explanation.reached_by for directory, explanation in told_of.items()} == {
        HERE: {"f": ()},
        THERE: {"f": ()},
    }


@pytest.mark.parametrize(
    "changes",
    [(), (change("f", 4),), (change("setup", 0, boots=True),), (change("f", 4), change("setup", 0, boots=True))],
)
def test_nothing_boots_where_no_load_could_say_more(machine: Machine, changes: tuple[Change, ...]) -> None:
    assert told(run({HERE: seen(*changes)}, "idle")) == {}
    assert (machine.tried, machine.profiles) == ([], [])


def test_a_change_of_booting_is_not_looked_for_beside_another(machine: Machine) -> None:
    changes = (change("f", 0), change("setup", 0, boots=True))
    machine.outcomes["disk"] = Exercise(changes=(change("f", 2), changes[1]))
    (explanation,) = told(run({HERE: seen(*changes)}, "idle")).values()
    assert explanation.reached_by == {"f": ("disk",)}


def test_new_code_that_was_passed_by_is_reached_where_it_runs(machine: Machine) -> None:
    passed = Change(function="f", instructions=5, times=900, missed=("f+0x8",), slow=("f+0x8",))
    machine.outcomes["disk"] = Exercise(changes=(passed,))
    machine.outcomes["network"] = Exercise(changes=(replace(passed, missed=(), slow=()),))
    (explanation,) = told(run({HERE: seen(passed)}, "idle", "hackbench")).values()
    assert explanation.reached_by == {"f": ("network",)}


@pytest.mark.parametrize("kind", [ConfigError, ParseError, StoppedBootError])
def test_a_load_that_cannot_be_tried_is_said_and_proves_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str], kind: type[ExerciseError]
) -> None:
    error = kind("the traced boot was not measured: tool failed")
    machine.outcomes["network"] = error
    (explanation,) = told(run({HERE: seen(change("f", 0))}, "idle", "hackbench")).values()
    assert (explanation.other_loads, explanation.untried_loads) == ({"disk": "paths"}, ("network",))
    assert (explanation.failed_loads, explanation.reached_by) == ({}, {"f": ()})
    assert "whether network reaches it is not known: the traced boot was not measured: tool failed" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("others_die", [False, True])
def test_a_load_beside_which_the_candidate_dies_is_kept(
    machine: Machine, capsys: pytest.CaptureFixture[str], others_die: bool
) -> None:
    machine.outcomes["network"] = TargetError("the traced boot was not measured: kernel fault: Oops")
    if others_die:
        machine.outcomes["disk"] = KernelFaultError("Oops")
    (explanation,) = told(run({HERE: seen(change("f", 0))}, "idle", "hackbench")).values()
    failed = {"disk": "paths", "network": "paths"} if others_die else {"network": "paths"}
    assert (explanation.failed_loads, explanation.untried_loads) == (failed, ())
    assert explanation.other_loads == ({} if others_die else {"disk": "paths"})
    assert "died or hung beside network: the traced boot was not measured: kernel fault" in capsys.readouterr().err


def test_a_profile_without_cases_here_is_said_and_the_others_are_tried(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine.offers["paths"]
    (explanation,) = told(run({HERE: seen(change("f", 0))}, "idle")).values()
    assert (explanation.other_loads, explanation.untried_loads) == (
        {"hackbench": "compare"},
        ("disk", "network", "syscalls"),  # which the shipped one names
    )
    assert machine.tried == ["hackbench"]
    assert "loads of the profile paths are not tried: the suites have no cases" in capsys.readouterr().err
    machine.tried.clear()
    assert told(run({HERE: seen(change("f", 0))}, "idle", "hackbench")) == {}
    assert machine.tried == []


def test_a_load_has_the_options_that_its_profile_has_on_this_board(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "profiles.yaml").write_text(
        """
        pressed:
          description: fewer workers on one board
          duration: 5s
          seeds: 1-8
          boots: 6
          loads: {stress-ng: {cpu: 4}, network: {}}
          boards:
            virt-arm64:
              loads: {stress-ng: {cpu: 2}}
        """,
        encoding="utf-8",
    )
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    del machine.offers["paths"]
    machine.offers["pressed"] = [case("stress-ng")]
    (explanation,) = told(run({HERE: seen(change("f", 0))}, "idle", "hackbench")).values()
    assert explanation.other_loads == {"stress-ng": "pressed"}
    assert machine.asks == {"stress-ng": {"stress-ng cpu": 2}}
    assert machine.lengths == {2.0}
