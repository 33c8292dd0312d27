# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import pytest

from rtgate.board import boards
from rtgate.console.shell import Waits
from rtgate.errors import DeadlineError, HangError, InfrastructureError
from rtgate.lava.in_job import cooling
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.tools import loads

BOARD = boards.board("virt-arm64")
PLAN = Plan(case="latency/cyclictest:idle", argv=("true",), load=loads.load("idle", BOARD), seed=1, duration_s=1)


class Shell:
    left = 0

    def leave(self) -> None:
        self.left += 1


@dataclass
class Live:
    """A live target whose sensors say what a test wrote down."""

    degrees: list[str]
    shell: Shell = field(default_factory=Shell)
    waits: Waits = field(default_factory=Waits)
    stop: threading.Event = field(default_factory=threading.Event)
    dead: Exception | None = None

    def open_console(self, _stack: ExitStack, _plan: Plan, _log: bytearray) -> Shell:
        return self.shell

    def ready(self, _: Shell) -> None:
        if self.dead:
            raise self.dead


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    made = Live([])

    class Session:
        def __init__(self, *_: object) -> None: ...

        def output_of(self, _: str) -> tuple[int, bytes]:
            return 0, (made.degrees.pop(0) if len(made.degrees) > 1 else made.degrees[0]).encode()

    monkeypatch.setattr(cooling, "Session", Session)
    monkeypatch.setattr(cooling, "_EVERY_S", 0.01)
    return made


def test_it_waits_until_the_board_is_cool(live: Live) -> None:
    live.degrees = ["71000\r\n", "60000\r\n", "54900\r\n"]
    cooling.cool(cast("LiveTarget", live), PLAN, 55)
    assert (live.degrees, live.shell.left) == (["54900\r\n"], 1)


def test_a_board_without_sensors_is_measured_as_it_is(live: Live) -> None:
    live.degrees = [""]
    cooling.cool(cast("LiveTarget", live), PLAN, 55)


def test_a_board_that_stays_hot_is_the_labs(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooling, "LONGEST_S", 0.05)
    live.degrees = ["71000\n"]
    with pytest.raises(InfrastructureError, match="71 C after"):
        cooling.cool(cast("LiveTarget", live), PLAN, 55)


@pytest.mark.parametrize("error", [HangError("no shell"), DeadlineError("silence")])
def test_a_board_that_does_not_answer_is_left_to_those_who_measure(live: Live, error: Exception) -> None:
    live.dead = error
    if isinstance(error, DeadlineError):
        with pytest.raises(InfrastructureError):
            cooling.cool(cast("LiveTarget", live), PLAN, 55)
    else:
        cooling.cool(cast("LiveTarget", live), PLAN, 55)
