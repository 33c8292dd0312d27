# SPDX-License-Identifier: MIT
"""A live board whose kernel may die: turned off and on again, so that what is left can be measured.

The fault stays with the case in which it happened, or in which it was found. Without a command that switches the power
the board is waited for once, because a kernel that panics may start again by itself (`panic=N`); after that the cases
that are left say so at once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace

from rtgate.console.faults import FATAL
from rtgate.errors import InfrastructureError
from rtgate.target.live import NO_SHELL, LiveTarget
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan

_DIED = {State.FAULT: "the kernel died", State.HANG: "the target hung"}
_POWER_S = 120.0  # a switched socket waits for a supply to run empty


@dataclass(frozen=True, slots=True)
class PowerCycle:
    """A shell command of this machine that turns a board off and on."""

    command: str

    def __call__(self) -> None:
        """Carry it out. Raises InfrastructureError: it failed, or does not end."""
        try:
            child = subprocess.run(
                ["sh", "-c", self.command],
                capture_output=True,
                timeout=_POWER_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InfrastructureError(f"the power-cycle command did not end within {_POWER_S:g} s") from None
        if child.returncode:
            output = (child.stderr or child.stdout).decode("utf-8", errors="replace").strip()[-200:]
            raise InfrastructureError(f"the power-cycle command ended with {child.returncode}: {output!r}")


@dataclass(slots=True, kw_only=True)
class PowerCycledTarget:
    """A target on which plans go on after a kernel's death.

    Attributes:
        live: carries out plans.
        cycle: turns the board off and on, or raises InfrastructureError; None where nobody can.
        dead: why nothing can be measured until the board has started again; empty for a board that works.
    """

    live: LiveTarget
    cycle: Callable[[], None] | None = None
    dead: str = ""
    _gone: bool = False

    def run(self, plan: Plan) -> Outcome:
        """Carry out a plan. Raises Interrupted as `LiveTarget.run`."""
        outcome = _blame_kernel(self._after_death(plan) if self.dead else self.live.run(plan))
        cause = _death(plan, outcome)
        if cause:
            self.dead = f"{cause}, earlier"
        return outcome

    def _after_death(self, plan: Plan) -> Outcome:
        if self._gone:
            return self._not_measured_outcome("the board did not come back")
        if self.cycle is not None:
            try:
                self.cycle()
            except InfrastructureError as error:
                return self._not_measured_outcome(str(error))
        outcome = replace(self.live, boots=True).run(plan)
        if outcome.state is State.NO_BOOT:
            # It may have stopped in its boot loader: the kernel is not to blame for that.
            self._gone = self.cycle is None
            after = "then" if self.cycle is None else "after a power cycle"
            return replace(outcome, state=State.LAB, message=f"{self.dead}; {after} {outcome.message}")
        self.dead = ""
        return outcome

    def _not_measured_outcome(self, why: str) -> Outcome:
        return Outcome(state=State.LAB, message=f"not measured: {self.dead}; {why}")


def _blame_kernel(outcome: Outcome) -> Outcome:
    """Return an outcome in which the kernel is blamed for a panic that was seen between two cases."""
    fatal = [fault for fault in outcome.faults if fault.kind in FATAL]
    if outcome.state is State.LAB and fatal:
        return replace(outcome, state=State.FAULT, message=f"the kernel died before the measurement: {fatal[0].line}")
    return outcome


def _death(plan: Plan, outcome: Outcome) -> str:
    """Return how the target died of a plan, or that it was found dead; empty if it lives."""
    if outcome.message.startswith(NO_SHELL):
        return f"{NO_SHELL} for {plan.case}"
    return f"{_DIED[outcome.state]} during {plan.case}" if outcome.state in _DIED else ""
