# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.validity.steady import WINDOW, unsteady

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "fio" / "3.39" / "fio-read.json"


def test_rounds_that_do_not_move_are_steady() -> None:
    assert unsteady([100.0] * 5, 100) == ""
    assert unsteady([100, 109, 91, 100, 105, 95], 119) == ""


def test_only_the_last_rounds_count() -> None:
    """A disk whose cache was full after five rounds is judged by what came after."""
    assert unsteady([2500, 2500, 2500, 900, 400, 400, 400, 400, 400, 400], 400) == ""


@pytest.mark.parametrize(
    ("rounds", "measured", "reason"),
    [
        ([100] * 4, 100, "4 rounds were measured, and the last 5 must be steady"),
        ([], 100, "0 rounds were measured"),
        ([0] * 5, 0, "nothing was done in the last rounds"),
        ([100, 100, 85, 100, 106], 100, "lie 21% of their mean apart, more than 20%"),
        ([94, 97, 100, 103, 106], 100, "drift by 12% of their mean, more than 10%"),
        ([106, 103, 100, 97, 94], 100, "drift by 12% of their mean, more than 10%"),
        ([100] * 5, 79, "lies 21% away from the mean"),
        ([100] * 5, 121, "lies 21% away from the mean"),
        ([400] * 9 + [2500], 2500, "lie 256% of their mean apart"),
    ],
)
def test_what_moves_is_told_by_how_much(rounds: list[float], measured: float, reason: str) -> None:
    assert reason in unsteady(rounds, measured)


def test_captured_rounds_on_a_busy_machine_are_not_steady() -> None:
    jobs = json.loads(CAPTURE.read_text())["jobs"]
    rounds = [job["read"]["bw_bytes"] for job in jobs]
    assert unsteady(rounds[:10], rounds[10]) == "the last 5 rounds lie 271% of their mean apart, more than 20%"


@given(st.lists(st.floats(1, 1e12), min_size=WINDOW, max_size=20), st.floats(1, 1e12), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(rounds: list[float], measured: float, scale: float) -> None:
    scaled = unsteady([value * scale for value in rounds], measured * scale)
    assert bool(scaled) == bool(unsteady(rounds, measured)) or "20%" in scaled + unsteady(rounds, measured)


@given(st.lists(st.floats(1, 1e12), min_size=WINDOW, max_size=WINDOW))
def test_what_is_steady_keeps_to_the_rule(rounds: list[float]) -> None:
    mean = sum(rounds) / WINDOW
    if not unsteady(rounds, mean):
        assert max(rounds) - min(rounds) <= 0.2 * mean * (1 + 1e-9)
