# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rtgate.errors import ConfigError, InfrastructureError, ParseError, TargetError
from rtgate.explain import comparing
from rtgate.explain.comparing import (
    ComparedKernels,
    ExerciseOutcome,
    Pair,
    Side,
    compare,
    exercise,
    exercise_candidate,
    open_vmlinux,
    vmlinux,
)
from rtgate.explain.explanation import Exercise, IntervalCost, KernelTrace
from rtgate.explain.path import Profile
from rtgate.explain.replay import Ran, StoppedBootError
from rtgate.kernel.alignment import ChangedCode
from rtgate.kernel.differing import Differences


def test_a_kernel_without_its_elf_file_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the kernel's ELF file only"):
        vmlinux(tmp_path)
    (tmp_path / "vmlinux").touch()
    assert vmlinux(tmp_path) == tmp_path / "vmlinux"


def test_a_kernel_without_its_elf_file_is_named_by_its_arm(tmp_path: Path) -> None:
    """What boots is a run's own copy, which is gone when the message is read."""
    directory = tmp_path / "mine"
    directory.mkdir()
    with pytest.raises(ConfigError, match=r"^candidate \(mine/vmlinux\): no such file"):
        open_vmlinux("candidate", directory)
    (directory / "vmlinux").write_text("not ELF")
    with pytest.raises(ConfigError, match=r"^candidate \(mine/vmlinux\): not a kernel's ELF file, or damaged"):
        open_vmlinux("candidate", directory)


class Traces:
    """What traced boots show, by arm and seed, instead of real ones; notes which were asked for, of which kernels."""

    def __init__(self, shown: dict[tuple[str, int], dict[str, int] | Exception]) -> None:
        self.shown = shown
        self.asked: set[tuple[str, int]] = set()
        self.kernels: dict[str, object] = {}

    def __call__(self, order: Any) -> Ran:
        boot = (order.arm.name, order.seed)
        self.kernels[order.arm.name] = order.kernel
        self.asked.add(boot)
        shown = self.shown[boot]
        if isinstance(shown, Exception):
            raise shown
        return Ran(functions=shown)


def pairs(path: Path, seeds: int) -> list[Pair]:
    (path / "vmlinux").touch()
    case: Any = None

    def side(name: str, seed: int) -> Side:
        arm: Any = SimpleNamespace(name=name)
        return Side(arm=arm, directory=path, seed=seed)

    return [
        Pair(case=case, candidate=side("candidate", seed), baseline=side("baseline", seed))
        for seed in range(1, seeds + 1)
    ]


def ran(
    monkeypatch: pytest.MonkeyPatch, path: Path, differences: Differences, traces: Traces, seeds: int = 2
) -> list[ExerciseOutcome]:
    monkeypatch.setattr(comparing, "Vmlinux", lambda _: SimpleNamespace(with_names=dict))
    monkeypatch.setattr(comparing, "differing", lambda *_: differences)
    monkeypatch.setattr(comparing, "trace_functions", traces)
    monkeypatch.setattr(comparing, "changed_code", lambda *_: ())
    stop = threading.Event()
    try:
        found, each = exercise(pairs(path, seeds), stop, lambda _: None)
    except BaseException:
        assert stop.is_set()
        raise
    assert found.differences is differences
    return each


def test_what_both_kernels_have_is_looked_for_in_the_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    traces = Traces({("candidate", 1): {"f": 5, "other": 9}, ("candidate", 2): {"other": 9}})
    differences = Differences(changed=("f",), added=("g",), data=("table",), options={})
    first, second = ran(monkeypatch, tmp_path, differences, traces)
    assert first == Exercise(executed={"f": 5}, resting=("g",), data=("table",))
    assert second == Exercise(executed={}, resting=("f", "g"), data=("table",))
    assert traces.asked == {("candidate", 1), ("candidate", 2)}


def test_what_was_removed_can_only_have_run_on_the_baseline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    traces = Traces(
        {
            ("candidate", 1): {"f": 5},
            ("candidate", 2): {"f": 5},
            ("baseline", 1): {"f": 7, "gone": 3},
            ("baseline", 2): {"other": 1},
        }
    )
    differences = Differences(changed=("f",), removed=("gone",), options={})
    first, second = ran(monkeypatch, tmp_path, differences, traces)
    assert first == Exercise(executed={"f": 7, "gone": 3}, resting=())
    assert second == Exercise(executed={"f": 5}, resting=("gone",))


def test_the_baselines_functions_have_the_candidates_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    traces = Traces({("candidate", 1): {"new": 5}, ("baseline", 1): {"new": 7, "gone": 3}})
    differences = Differences(removed=("gone",), renames={"old": "new"}, options={})
    (only,) = ran(monkeypatch, tmp_path, differences, traces, seeds=1)
    assert only == Exercise(executed={"gone": 3}, resting=())
    assert traces.kernels["baseline"] == {"old": "new"}
    assert traces.kernels["candidate"] != {"old": "new"}


def test_an_explanation_names_the_baselines_functions_as_the_candidate_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the new name would have gained what the old one had, and be named for it."""
    kernels: dict[str, object] = {}

    def explain_boot(order: Any, _: object) -> KernelTrace:
        kernels[order.arm.name] = order.kernel
        cost = IntervalCost(latency_ns=800, idle_ns=0, unaccounted_ns=0, profile=Profile(own={"new": 100.0}, total=100))
        numbers = {"seed": 1, "intervals": 1, "agreeing": 1}
        return KernelTrace(**numbers, what="wake-up", proof="", worst=cost, typical=cost, executed={"new": 100})

    monkeypatch.setattr(comparing, "Vmlinux", lambda _: SimpleNamespace(with_names=dict))
    monkeypatch.setattr(comparing, "differing", lambda *_: Differences(renames={"old": "new"}, options={}))
    monkeypatch.setattr(comparing, "explain_boot", explain_boot)
    (pair,) = pairs(tmp_path, 1)
    made = compare(pair.case, pair.candidate, pair.baseline, threading.Event(), lambda _: None)
    assert (made.explanation.culprits, made.exercise) == ((), Exercise())
    assert kernels["baseline"] == {"old": "new"}
    assert kernels["candidate"] != {"old": "new"}


@pytest.mark.parametrize("arm", ["candidate", "baseline"])
@pytest.mark.parametrize("error", [ParseError("the boot did not repeat itself"), StoppedBootError("no sign of life")])
def test_a_case_that_cannot_be_traced_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arm: str, error: Exception
) -> None:
    shown: dict[tuple[str, int], dict[str, int] | Exception] = {
        (name, seed): {"f": 1} for name in ("candidate", "baseline") for seed in (1, 2)
    }
    traces = Traces({**shown, (arm, 1): error})
    first, second = ran(monkeypatch, tmp_path, Differences(changed=("f",), removed=("gone",), options={}), traces)
    assert first is error
    assert isinstance(second, Exercise)


def test_a_machine_that_cannot_trace_is_an_error_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    traces = Traces({("candidate", 1): InfrastructureError("no plugins"), ("candidate", 2): {"f": 1}})
    with pytest.raises(InfrastructureError):
        ran(monkeypatch, tmp_path, Differences(changed=("f",), options={}), traces)


def test_boots_of_the_candidate_alone_are_looked_at_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    died = TargetError("the traced boot was not measured: kernel fault: Oops")
    traces = Traces({("candidate", 1): {"f": 5, "other": 9}, ("candidate", 2): died, ("candidate", 3): {"other": 1}})
    monkeypatch.setattr(comparing, "trace_functions", traces)
    vmlinux: Any = None
    kernels = ComparedKernels(
        candidate=vmlinux, differences=Differences(changed=("f",), removed=("gone",), options={}), code=()
    )
    boots = [(pair.candidate, pair.case) for pair in pairs(tmp_path, 3)]
    first, second, third = exercise_candidate(kernels, boots, threading.Event())
    assert first == Exercise(executed={"f": 5}, resting=("gone",))
    assert second is died
    assert third == Exercise(executed={}, resting=("f", "gone"))
    assert traces.asked == set(traces.shown)


def test_a_busy_machine_leaves_out_boots_that_would_begin_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = 1000.0

    def slow(order: Any) -> Ran:
        nonlocal clock
        clock += 40
        return Ran(functions={"f": order.seed})

    monkeypatch.setattr(comparing, "trace_functions", slow)
    monkeypatch.setattr(comparing, "time", SimpleNamespace(monotonic=lambda: clock))
    monkeypatch.setattr(comparing, "os", SimpleNamespace(sched_getaffinity=lambda _: {0}))
    vmlinux: Any = None
    kernels = ComparedKernels(candidate=vmlinux, differences=Differences(changed=("f",), options={}), code=())
    boots = [(pair.candidate, pair.case) for pair in pairs(tmp_path, 3)]
    first, second, third = exercise_candidate(kernels, boots, threading.Event())
    assert (first, second) == (Exercise(executed={"f": 1}), Exercise(executed={"f": 2}))
    assert isinstance(third, StoppedBootError)
    assert str(third) == "not tried, as the boots before it took 60 s"


def test_source_lines_are_looked_up_for_few_functions_and_damage_costs_them_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    (pair,) = pairs(tmp_path, 1)
    code = [ChangedCode(function="f", places={1: "f+0x1"})]
    monkeypatch.setattr(comparing, "source_lines", lambda _, places: dict.fromkeys(places, "a.c:3"))
    (located,) = comparing._with_lines(code, pair.candidate, said.append)
    assert located.places == {1: "f+0x1 in a.c:3"}
    many = code * (comparing._LINES + 1)
    assert list(comparing._with_lines(many, pair.candidate, said.append)) == many
    monkeypatch.setattr(comparing, "source_lines", Mock(side_effect=ConfigError("damaged")))
    assert comparing._with_lines(code, pair.candidate, said.append) == code
    assert said == ["damaged"]
