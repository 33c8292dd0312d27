# SPDX-License-Identifier: MIT
from __future__ import annotations

import _thread
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selftests.fake_target import FakeTarget, arm, measured_outcome

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError, Interrupted
from rtgate.measure import run as run_module
from rtgate.measure.case import Arm, Case
from rtgate.measure.run import BootPool, Run, records_by_case
from rtgate.records import planned
from rtgate.records import record as records
from rtgate.records.record import Place, Record
from rtgate.target.outcome import Outcome
from rtgate.target.plan import Plan
from rtgate.tools.cyclictest import Cyclictest

CASE = Case(suite="latency", tool=Cyclictest(), load="idle")


def _run(directory: Path, *arms: Arm, seeds: tuple[int, ...] = (1, 2, 3)) -> Run:
    return Run(arms=arms, seeds=seeds, records=directory)


def _ignore(_: Record) -> None:
    pass


def test_every_boot_of_every_arm_is_a_record_and_is_told(tmp_path: Path) -> None:
    told: list[Record] = []
    run = _run(tmp_path, arm(FakeTarget(), "candidate"), arm(FakeTarget(), "baseline"))
    found = run.measure(CASE, told.append)
    expected = [(name, seed) for name in ("baseline", "candidate") for seed in (1, 2, 3)]
    assert [(one.arm, one.seed) for one in found] == expected
    assert sorted((one.arm, one.seed) for one in told) == expected
    assert all(one.directory and (one.directory / "raw" / "cyclictest.json").is_file() for one in found)
    assert [replace(one, directory=None) for one in records.read_all(tmp_path)] == [
        replace(one, directory=None) for one in found
    ]


def test_after_the_stop_no_boot_begins(tmp_path: Path) -> None:
    target = FakeTarget()
    run = _run(tmp_path, arm(target))
    run.stop.set()
    with pytest.raises(Interrupted):
        run.measure(CASE, _ignore)
    assert not target.plans


def test_what_was_planned_is_written_down_before_anything_runs(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def act(plan: Plan) -> Outcome:
        place = Place(records=tmp_path, board="virt-arm64", arm="candidate", case=CASE.name)
        seen.append(planned.missing(place, []))
        raise InfrastructureError("no QEMU")

    with pytest.raises(InfrastructureError):
        _run(tmp_path, arm(FakeTarget({None: act})), seeds=(3, 1)).measure(CASE, _ignore)
    assert seen[0] == ("seed 1", "seed 3")


def test_without_seeds_the_profile_s_are_measured(tmp_path: Path) -> None:
    virtual, host = FakeTarget(), FakeTarget()
    Run(arms=(arm(virtual),), records=tmp_path / "a").measure(CASE, _ignore)
    assert sorted(plan.seed for plan in virtual.plans) == [1, 2]
    Run(arms=(arm(host, time="host"),), records=tmp_path / "b").measure(CASE, _ignore)
    assert [plan.seed for plan in host.plans] == [1]


OTHER = replace(CASE, load="hackbench")


def test_boots_of_two_cases_run_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(2)))
    both = threading.Barrier(2, timeout=20)

    def act(_: Plan) -> Outcome:
        both.wait()
        return measured_outcome()

    told: list[str] = []
    beside = BootPool(_run(tmp_path, arm(FakeTarget({None: act})), seeds=(1,)))
    for case in (CASE, OTHER):
        beside.begin(case)
    for case in (CASE, OTHER):
        (found,) = beside.end(case, lambda record: told.append(record.case))
        assert found.case == case.name
    beside.close()
    assert sorted(told) == sorted([CASE.name, OTHER.name])


def test_a_case_that_the_machine_could_not_measure_is_told_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(2)))

    def act(plan: Plan) -> Outcome:
        if plan.case == OTHER.name:
            raise InfrastructureError("no room")
        return measured_outcome()

    beside = BootPool(_run(tmp_path, arm(FakeTarget({None: act})), seeds=(1, 2)))
    for case in (CASE, OTHER):
        beside.begin(case)
    assert [one.seed for one in beside.end(CASE, _ignore)] == [1, 2]
    with pytest.raises(InfrastructureError, match="no room"):
        beside.end(OTHER, _ignore)
    beside.close()


def test_a_live_board_boots_one_at_a_time_the_arms_in_turns(tmp_path: Path) -> None:
    log: list[str] = []
    busy = threading.Lock()

    def noted(name: str) -> FakeTarget:
        def act(plan: Plan) -> Outcome:
            assert busy.acquire(blocking=False)
            log.append(f"{name}{plan.seed}")
            busy.release()
            return measured_outcome()

        return FakeTarget({None: act})

    run = _run(tmp_path, arm(noted("b"), "baseline", time="host"), arm(noted("c"), time="host"), seeds=(1, 2))
    assert run.jobs == 1
    run.measure(CASE, _ignore)
    assert log == ["b1", "c1", "c2", "b2"]
    assert {(one.arm, one.pair) for one in records.read_all(tmp_path)} == {
        (name, number) for name in ("baseline", "candidate") for number in (1, 2)
    }


def test_virtual_boots_use_all_cores_that_rtgate_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(4)))
    both = threading.Barrier(4, timeout=20)

    def act(_: Plan) -> Outcome:
        both.wait()
        return measured_outcome()

    run = _run(tmp_path, arm(FakeTarget({None: act})), seeds=(1, 2, 3, 4))
    assert run.jobs == 4
    assert len(run.measure(CASE, _ignore)) == 4


def test_a_machine_that_fails_ends_the_other_boots_and_leaves_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(2)))
    target = FakeTarget()
    run = _run(tmp_path, arm(target), seeds=(1, 2, 3, 4, 5))
    both = threading.Barrier(2, timeout=20)

    def waits(_: Plan) -> Outcome:
        both.wait()
        assert run.stop.wait(20)
        raise Interrupted("stopped")

    def fails(_: Plan) -> Outcome:
        both.wait()
        raise InfrastructureError("no QEMU")

    target.script = {1: waits, 2: fails}
    with pytest.raises(InfrastructureError, match="no QEMU"):
        run.measure(CASE, _ignore)
    assert {one.seed for one in records.read_all(tmp_path)} <= {3, 4, 5}


def test_a_case_can_be_measured_after_one_that_the_machine_could_not(tmp_path: Path) -> None:
    target = FakeTarget({None: InfrastructureError("no room")})
    run = _run(tmp_path, arm(target))
    with pytest.raises(InfrastructureError):
        run.measure(CASE, _ignore)
    target.script = {None: lambda _: measured_outcome() if not run.stop.is_set() else _stopped()}
    assert len(run.measure(CASE, _ignore)) == 3


def _stopped() -> Outcome:
    raise Interrupted("stopped")


def test_ctrl_c_leaves_no_half_written_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(2)))
    target = FakeTarget()
    run = _run(tmp_path, arm(target), seeds=(1, 2, 3, 4))
    told, ended = threading.Event(), threading.Event()

    def under_way(_: Plan) -> Outcome:
        assert told.wait(20)
        _thread.interrupt_main()
        assert run.stop.wait(20)
        ended.set()
        raise Interrupted("stopped")

    target.script = {2: under_way}
    with pytest.raises(KeyboardInterrupt):
        run.measure(CASE, lambda _: told.set())
    assert ended.is_set()
    left = [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert left == []
    found = list(records.read_all(tmp_path))
    assert 2 not in {one.seed for one in found}
    assert all(one.state == "measured" for one in found)
    assert not run.stop.is_set()  # the next case may be measured


def test_ctrl_c_while_boots_are_begun_ends_those_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may press it before the last boot is in the queue."""
    target, running, ended = FakeTarget(), threading.Event(), threading.Event()
    run = _run(tmp_path, arm(target), seeds=(1, 2))

    def under_way(_: Plan) -> Outcome:
        running.set()
        if run.stop.wait(3):
            ended.set()
        raise Interrupted("stopped")

    class Pressed(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            if running.is_set():
                raise KeyboardInterrupt
            future = super().submit(fn, *args, **kwargs)
            assert running.wait(20)
            return future

    target.script = {None: under_way}
    monkeypatch.setattr(run_module, "ThreadPoolExecutor", Pressed)
    with pytest.raises(KeyboardInterrupt):
        run.measure(CASE, _ignore)
    assert ended.is_set()
    assert [plan.seed for plan in target.plans] == [1]


def test_ctrl_c_while_telling_ends_the_run(tmp_path: Path) -> None:
    def pressed(_: Record) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, arm(FakeTarget())).measure(CASE, pressed)
    assert all(one.state == "measured" for one in records.read_all(tmp_path))


def test_without_room_nothing_is_booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path) -> None:
        raise InfrastructureError("has 3 MiB left")

    monkeypatch.setattr(files, "require_free_space", full)
    target = FakeTarget()
    with pytest.raises(InfrastructureError, match="3 MiB"):
        _run(tmp_path, arm(target)).measure(CASE, _ignore)
    assert target.plans == []


def test_stored_records_by_case_and_board(tmp_path: Path) -> None:
    for load in ("idle", "hackbench"):
        for board in ("virt-arm64", "virt-x86_64"):
            one = arm(FakeTarget(), board=board)
            _run(tmp_path, one, seeds=(1,)).measure(replace(CASE, load=load), _ignore)
    found = records_by_case(tmp_path, None)
    assert {case: [one.board for one in made] for case, made in found.items()} == {
        f"latency/cyclictest:{load}": ["virt-arm64", "virt-x86_64"] for load in ("hackbench", "idle")
    }
    assert {one.board for made in records_by_case(tmp_path, "virt-x86_64").values() for one in made} == {"virt-x86_64"}
    assert records_by_case(tmp_path, "rk3568") == {}


def test_a_damaged_record_among_the_stored_is_an_error(tmp_path: Path) -> None:
    (one,) = _run(tmp_path, arm(FakeTarget()), seeds=(1,)).measure(CASE, _ignore)
    assert one.directory is not None
    (one.directory / "record.json").write_text("{")
    with pytest.raises(ConfigError, match="damaged record"):
        records_by_case(tmp_path, None)
