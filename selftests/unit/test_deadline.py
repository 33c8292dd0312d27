# SPDX-License-Identifier: MIT
from __future__ import annotations

import time

import pytest

from rtgate.deadline import Deadline


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


def test_time_runs_out(now: list[float]) -> None:
    deadline = Deadline.after(5)
    assert (deadline.remaining, deadline.expired, deadline.allowed) == (5, False, 5)
    now[0] += 4
    assert (deadline.remaining, deadline.expired) == (1, False)
    now[0] += 1
    assert (deadline.remaining, deadline.expired) == (0, True)
    now[0] += 100
    assert (deadline.remaining, deadline.expired, deadline.allowed) == (0, True, 5)


def test_a_step_may_take_no_longer_than_the_whole(now: list[float]) -> None:
    deadline = Deadline.after(5)
    assert deadline.sooner(3) == 3
    now[0] += 4
    assert deadline.sooner(3) == 1
    now[0] += 4
    assert deadline.sooner(3) == 0


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_over_at_once(now: list[float], seconds: float) -> None:
    assert Deadline.after(seconds).expired
