# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from selftests.fake_target import facts, measured_outcome

from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.console.faults import scan
from rtgate.errors import InfrastructureError
from rtgate.lava.in_job import target as target_module
from rtgate.lava.in_job.target import JobTarget, refuse_nfs_latencies, time_of
from rtgate.lava.job import environment
from rtgate.measure.profiles import profile
from rtgate.target.live import LiveTarget
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools import loads

BOARD = boards.board("virt-arm64")
TOLD = {"LAVA_CONNECTION_COMMAND": "telnet h 1", "RTGATE_BOOT": "2", "LAVA_JOB_ID": "7"}


def plan(case: str = "latency/cyclictest:idle") -> Plan:
    return Plan(case=case, argv=("true",), load=loads.load("idle", BOARD), seed=1, duration_s=1)


@dataclass(frozen=True)
class Live:
    """A live target that does what a test wrote down."""

    outcomes: list[Outcome]
    boots: bool = False
    board: Board = BOARD
    ran: list[bool] = field(default_factory=list)

    def run(self, _: Plan) -> Outcome:
        self.ran.append(self.boots)
        return self.outcomes.pop(0)


def target(live: Live, **told: str) -> JobTarget:
    return JobTarget(cast("LiveTarget", live), environment.read({**TOLD, **told}), profile("smoke"))


FAULT = Outcome(state=State.FAULT, message="the kernel died")
RESET = {"LAVA_HARD_RESET_COMMAND": "true", "RTGATE_POWER_CYCLE": "1"}


def test_a_record_says_which_boot_of_which_job_it_is() -> None:
    assert target(Live([measured_outcome()])).run(plan()).machine == {"console": "lava", "boot": "2", "job": "7"}


@pytest.mark.parametrize("state", [State.FAULT, State.HANG])
def test_after_a_death_nothing_is_measured_and_the_kernel_is_blamed_once(state: State) -> None:
    live = Live([Outcome(state=state, message="")])
    one = target(live)
    assert one.run(plan()).state is state
    for _ in range(2):
        outcome = one.run(plan("signal/signaltest:idle"))
        assert outcome.state is State.LAB
        assert "latency/cyclictest:idle, earlier; a reset would not boot this kernel" in outcome.message
    assert len(live.ran) == 1


def test_a_panic_between_two_cases_is_the_kernels() -> None:
    panic = scan("[   17.000000] Kernel panic - not syncing: Fatal exception\n")
    live = Live([measured_outcome(), Outcome(state=State.LAB, message="no shell came up: it panicked", faults=panic)])
    one = target(live)
    one.run(plan())
    outcome = one.run(plan("signal/signaltest:idle"))
    assert outcome.state is State.FAULT
    assert "Kernel panic" in outcome.message
    assert one.run(plan()).state is State.LAB
    assert len(live.ran) == 2


def test_a_board_without_a_shell_is_not_asked_by_every_case() -> None:
    live = Live([Outcome(state=State.LAB, message="no shell came up: silence")])
    one = target(live)
    outcomes = [one.run(plan()) for _ in range(3)]
    assert {outcome.state for outcome in outcomes} == {State.LAB}
    assert "no shell came up for latency/cyclictest:idle" in outcomes[2].message
    assert len(live.ran) == 1


def test_a_board_that_boots_by_itself_is_reset_and_measured_on() -> None:
    live = Live([FAULT, measured_outcome(), measured_outcome()])
    one = target(live, **RESET)
    states = [one.run(plan()).state for _ in range(3)]
    assert states == [State.FAULT, State.MEASURED, State.MEASURED]
    assert live.ran == [False, True, False]


def test_a_reset_that_brings_no_shell_is_the_labs() -> None:
    live = Live([FAULT, Outcome(state=State.NO_BOOT, message="no shell came up")])
    one = target(live, **RESET)
    one.run(plan())
    outcome = one.run(plan())
    assert outcome.state is State.LAB
    assert "after a power cycle no shell came up" in outcome.message


def test_a_reset_that_fails_is_the_labs() -> None:
    one = target(Live([FAULT]), LAVA_HARD_RESET_COMMAND="false", RTGATE_POWER_CYCLE="1")
    one.run(plan())
    assert "ended with 1" in one.run(plan()).message


@pytest.mark.parametrize("told", [{}, RESET])
def test_a_board_that_stays_hot_is_not_measured(monkeypatch: pytest.MonkeyPatch, told: dict[str, str]) -> None:
    asked: list[float] = []

    def cool(_live: object, _plan: Plan, limit_c: float) -> None:
        asked.append(limit_c)
        raise InfrastructureError("the board is at 71 C")

    monkeypatch.setattr(target_module, "cool", cool)
    one = target(Live([], board=replace(BOARD, cool_to=55)), **told)
    outcomes = [one.run(plan()) for _ in range(2)]
    assert [outcome.state for outcome in outcomes] == [State.LAB, State.LAB]
    assert [outcome.message for outcome in outcomes] == ["not measured: the board is at 71 C"] * 2
    assert outcomes[0].machine == {"console": "lava", "boot": "2", "job": "7"}
    assert asked == [55]


NFS = facts("facts", {"/proc/cmdline": b"console=ttyS2 root=/dev/nfs rw nfsroot=10.0.0.1:/x\n"})


def test_latency_on_a_root_over_nfs_is_refused() -> None:
    over_nfs = measured_outcome(facts=NFS)
    assert refuse_nfs_latencies(plan(), measured_outcome(), profile("smoke")).state is State.MEASURED
    outcome = refuse_nfs_latencies(plan(), over_nfs, profile("smoke"))
    assert outcome.state is State.LAB
    assert "nfs: true" in outcome.message
    assert refuse_nfs_latencies(plan("signal/signaltest:idle"), over_nfs, profile("smoke")).state is State.MEASURED
    assert refuse_nfs_latencies(plan(), over_nfs, replace(profile("smoke"), nfs=True)).state is State.MEASURED


def test_a_virtual_machine_in_a_lab_has_the_time_of_its_host() -> None:
    assert time_of(BOARD) == "host"
    assert time_of(replace(BOARD, qemu=None)) == "host"
    assert time_of(replace(BOARD, qemu=None, soc="RK3568")) == "real"


def test_the_board_of_a_job_is_behind_its_console() -> None:
    job = environment.read(TOLD)
    made = JobTarget.of(BOARD, job, profile("smoke"), threading.Event())
    assert (made.live.boots, made.live.machine) == (False, {"console": "tcp:h:1"})
    real = JobTarget.of(replace(BOARD, qemu=None, soc="RK3568"), job, profile("smoke"), threading.Event())
    assert made.live.waits.hang > real.live.waits.hang
    brisk = replace(BOARD, console=replace(BOARD.console, silence_s=15.0))
    waits = JobTarget.of(brisk, job, profile("smoke"), threading.Event()).live.waits
    assert (waits.hang, waits.spare, waits.target) == (15.0, 15.0, made.live.waits.target)
