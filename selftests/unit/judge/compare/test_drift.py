# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from selftests.unit.judge.compare.test_comparing import imaged
from selftests.unit.judge.conftest import record

from rtgate.judge.compare.drift import Drift, Gate, drifts
from rtgate.records.record import Record

BUDGET = 0.03
CASE = "latency/cyclictest:idle"


def boots(kernel: str, factor: float, arm: str, count: int = 12) -> list[Record]:
    """Return boots of a kernel, which one image and one seed always give alike."""
    made = []
    for seed in range(1, count + 1):
        chance = random.Random(f"{kernel} {seed}")
        values = sorted(int(factor * (28_800 + 16 * chance.randrange(8))) for _ in range(200))
        one = record({value: 10 * values.count(value) for value in values}, seed=seed, arm=arm)
        made.append(imaged(one, kernel))
    return made


def branch(factors: Sequence[float], name: str = "") -> list[Gate]:
    """Return the gates of a branch: each kernel is the next one's baseline. The first factor is of the start."""
    return [
        Gate(
            run=f"merge-{index}",
            kernel=f"commit {index}",
            baseline=boots(f"{name}{index - 1}", factors[index - 1], "baseline"),
            candidate=boots(f"{name}{index}", factors[index], "candidate"),
        )
        for index in range(1, len(factors))
    ]


def p50(gates: Sequence[Gate]) -> Drift:
    return next(one for one in drifts(CASE, gates) if one.figure == "latency p50")


def test_merges_that_each_add_a_little_come_to_more_than_the_budget() -> None:
    two = p50(branch([1.015**merge for merge in range(2)]))
    assert not two.beyond(BUDGET)
    five = p50(branch([1.015**merge for merge in range(6)]))
    assert five.beyond(BUDGET)
    assert math.expm1(five.total) == pytest.approx(1.015**5 - 1, abs=0.003)
    assert five.low < five.total < five.high
    assert {one.run for one in five.contributors} == {f"merge-{index}" for index in range(1, 6)}


def test_contributors_come_largest_first_and_none_that_only_moved_back() -> None:
    found = p50(branch([1.0, 1.01, 1.05, 1.03]))
    assert [one.run for one in found.contributors] == ["merge-2", "merge-1"]


@pytest.mark.long("a statistic over many branches; the other tests here have single ones")
def test_harmless_merges_do_not_add_up() -> None:
    """Each kernel is moved by chance, by up to the 1.4 % that placebos showed: none of 60 branches of ten drifts."""
    chance = random.Random(3)
    alarms = 0
    for number in range(60):
        factors = [1 + chance.uniform(-0.007, 0.007) for _ in range(11)]
        alarms += any(one.beyond(BUDGET) for one in drifts(CASE, branch(factors, f"{number} ")))
    assert alarms == 0


def test_gates_without_boots_enough_for_an_interval_add_nothing() -> None:
    few = Gate(run="a", kernel="b", baseline=boots("0", 1.0, "baseline", 2), candidate=boots("1", 1.1, "candidate", 2))
    assert not list(drifts(CASE, [few]))
    assert not list(drifts(CASE, []))
