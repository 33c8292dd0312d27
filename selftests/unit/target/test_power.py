# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rtgate.console.faults import scan
from rtgate.errors import InfrastructureError
from rtgate.target import power
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.power import PowerCycle, PowerCycledTarget
from rtgate.tools import loads

GOOD, PANIC, HANG = (Outcome(state=state, message=state.value) for state in (State.MEASURED, State.FAULT, State.HANG))
SILENT = Outcome(state=State.NO_BOOT, message="no shell came up")


@dataclass(frozen=True)
class Live:
    """Stands in for a live target: tells outcomes, and notes whether a boot was waited for."""

    outcomes: list[Outcome]
    waited: list[bool] = field(default_factory=list)
    boots: bool = False

    def run(self, _: Plan) -> Outcome:
        self.waited.append(self.boots)
        return self.outcomes.pop(0)


def _plan(case: str) -> Plan:
    load = loads.Load(name="idle", processes=0)
    return Plan(case=case, argv=("true",), load=load, seed=1, duration_s=1)


def _states(target: PowerCycledTarget, count: int) -> list[State]:
    return [target.run(_plan(f"latency/cyclictest:{number}")).state for number in range(count)]


def _revived(live: Live, command: str | None = None) -> PowerCycledTarget:
    found: Any = live
    return PowerCycledTarget(live=found, cycle=None if command is None else PowerCycle(command))


def test_a_good_board_is_left_alone(tmp_path: Path) -> None:
    live = Live([GOOD, GOOD])
    assert _states(_revived(live, f"touch {tmp_path}/cycled"), 2) == [State.MEASURED] * 2
    assert live.waited == [False, False]
    assert not (tmp_path / "cycled").exists()


@pytest.mark.parametrize("death", [PANIC, HANG])
def test_a_board_that_died_is_turned_off_and_on_once(tmp_path: Path, death: Outcome) -> None:
    live = Live([death, GOOD, GOOD])
    target = _revived(live, f"echo cycled >>{tmp_path}/log")
    assert _states(target, 3) == [death.state, State.MEASURED, State.MEASURED]
    assert live.waited == [False, True, False]
    assert (tmp_path / "log").read_text() == "cycled\n"


def test_a_board_that_was_found_dead_is_turned_off_and_on(tmp_path: Path) -> None:
    found_dead = Outcome(state=State.LAB, message="no shell came up: silence")
    live = Live([GOOD, found_dead, GOOD])
    target = _revived(live, f"echo cycled >>{tmp_path}/log")
    assert _states(target, 3) == [State.MEASURED, State.LAB, State.MEASURED]
    assert live.waited == [False, False, True]
    assert (tmp_path / "log").read_text() == "cycled\n"


def test_a_panic_between_two_cases_is_the_kernels() -> None:
    panic = scan("[   17.000000] Kernel panic - not syncing: Fatal exception\n")
    live = Live([GOOD, Outcome(state=State.LAB, message="no shell came up: it panicked", faults=panic), GOOD])
    target = _revived(live, "true")
    assert _states(target, 3) == [State.MEASURED, State.FAULT, State.MEASURED]


def test_a_kernel_that_dies_again_is_a_death_again(tmp_path: Path) -> None:
    target = _revived(Live([PANIC, HANG, GOOD]), f"echo cycled >>{tmp_path}/log")
    assert _states(target, 3) == [State.FAULT, State.HANG, State.MEASURED]
    assert (tmp_path / "log").read_text() == "cycled\ncycled\n"


def test_a_board_that_does_not_come_back_is_the_labs() -> None:
    live = Live([PANIC, SILENT, SILENT])
    target = _revived(live, "true")
    assert _states(target, 2) == [State.FAULT, State.LAB]
    found = target.run(_plan("latency/cyclictest:idle"))
    assert found.message == "the kernel died during latency/cyclictest:0, earlier; after a power cycle no shell came up"
    assert live.outcomes == []  # the power was switched again: it might have helped


def test_without_a_command_a_board_that_starts_by_itself_goes_on() -> None:
    live = Live([PANIC, GOOD, GOOD])
    assert _states(_revived(live), 3) == [State.FAULT, State.MEASURED, State.MEASURED]
    assert live.waited == [False, True, False]


def test_without_a_command_a_dead_board_is_waited_for_once() -> None:
    live = Live([HANG, SILENT])
    target = _revived(live)
    assert _states(target, 1) == [State.HANG]
    assert target.run(_plan("latency/cyclictest:idle")).message.endswith(", earlier; then no shell came up")
    assert _states(target, 2) == [State.LAB, State.LAB]
    assert live.waited == [False, True]
    found = target.run(_plan("latency/cyclictest:idle"))
    assert found.message.startswith("not measured: the target hung during latency/cyclictest:0, earlier")


def test_a_command_that_fails_is_the_labs() -> None:
    target = _revived(Live([PANIC]), "echo no such socket >&2; exit 3")
    assert _states(target, 2) == [State.FAULT, State.LAB]
    found = target.run(_plan("latency/cyclictest:idle"))
    assert found.message.endswith("the power-cycle command ended with 3: 'no such socket'")


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_POWER_S", 0.2)
    with pytest.raises(InfrastructureError, match=r"did not end within 0\.2 s"):
        PowerCycle("exec sleep 60")()
