# SPDX-License-Identifier: MIT
from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate import durations
from rtgate.durations import Deadline
from rtgate.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("90 s", 90), ("10min", 600), ("12 h", 43200), ("1.5 d", 129600)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "12", "45m", "-1h", "12 hours", "1e3s", "5 virtual s"])
def test_what_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="examples: 90 s, 10 min"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["0s", "0.5 s", "31d"])
def test_a_duration_has_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: 1 s to 30 d"):
        durations.parse(text)


def test_an_option_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"^--budget: '45m' is not a duration"):
        durations.option("--budget", "45m")


@given(st.integers(min_value=1, max_value=30 * 86400))
def test_what_is_written_is_read_again(seconds: int) -> None:
    assert durations.parse(durations.format_s(seconds)) == seconds


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
