# SPDX-License-Identifier: MIT
from __future__ import annotations

import random

import pytest

from rtgate.judge.compare.paired import Prior
from rtgate.judge.learn.qualification import smallest_change, standing


# Boots per arm by `2 s^2 (z_a + z_b)^2 / ln(ratio)^2`, rounded up.
@pytest.mark.parametrize(("boot_sd", "boots", "ratio"), [(0.35, 20, 1.5), (0.35, 7, 2.0), (0.5, 6, 3.0)])
def test_the_smallest_change_is_that_of_the_formula(boot_sd: float, boots: int, ratio: float) -> None:
    known = Prior(2 * boot_sd**2, 30)
    assert smallest_change(known, boots) <= ratio < smallest_change(known, boots - 1)


def series(count: int, sd: float, step: float = 0.0) -> list[float]:
    chance = random.Random(count)
    return [3 + chance.gauss(0, sd) + (step if number >= count // 2 else 0) for number in range(count)]


def test_a_quiet_board_is_qualified() -> None:
    found = standing("case", 24, {"winsorised mean": series(24, 0.01)}, {"winsorised mean": Prior(2e-4, 12)})
    assert found.qualified
    assert found.noise[0].boot_sd == pytest.approx(0.01)
    assert found.noise[0].wanted == 1.08


@pytest.mark.parametrize(
    ("boots", "values", "prior", "problem"),
    [
        (24, series(24, 0.2), Prior(0.08, 12), "winsorised mean: 12 pairs show x1.34, and x1.08 must not be missed"),
        (8, series(8, 0.01), Prior(2e-4, 4), "4 pairs of boots are too few: it takes 10"),
        (30, series(24, 0.01), Prior(2e-4, 12), "6 of 30 boots were not valid"),
        (24, series(24, 0.01, 0.2), Prior(2e-4, 12), "winsorised mean changed at boot 13 and stayed: the board drifts"),
    ],
)
def test_what_keeps_a_board_from_judging(boots: int, values: list[float], prior: Prior, problem: str) -> None:
    found = standing("case", boots, {"winsorised mean": values}, {"winsorised mean": prior})
    assert found.problems == (problem,)
    assert not found.qualified


def test_nothing_measured_is_not_qualified() -> None:
    assert not standing("case", 0, {}, {}).qualified
