# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from rtgate.judge.compare.boot_figures import BootFigure, Part
from rtgate.judge.compare.detection import SIZES, Detection, detections
from rtgate.judge.compare.looks import Outcome
from rtgate.judge.compare.phases import Boots, Placebo, decide, first, shifts
from rtgate.tools.measurement import Better
from rtgate.units import Unit

PARTS = {"latency p50": Part.BODY, "latency p99.9": Part.TAIL, "latency maximum": Part.EXTREME}
KNOWN = dict.fromkeys(PARTS, Placebo(move=0.001, spike=1.9, kernels=38, boots=12))


def boots(seed: int, noise: float, count: int = 12, *, factor: float = 1.0, tail: float = 1.0) -> Boots:
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        value = 28_800 * factor * chance.lognormvariate(0, noise)
        sizes = (value, 1.4 * tail * value, 2 * tail * value)
        made.append(
            {
                name: BootFigure(name=name, part=part, value=size, unit=Unit.VIRTUAL_NS)
                for (name, part), size in zip(PARTS.items(), sizes, strict=True)
            }
        )
    return made


def level(old: Boots, new: Boots) -> float:
    return first(shifts(old, new, KNOWN))


def sizes(old: Boots, new: Boots) -> dict[str, float | None]:
    return {one.change: one.size for one in detections(old, new, KNOWN, level(old, new))}


def alarms(old: Boots, new: Boots) -> bool:
    return any(one.outcome is Outcome.REGRESSION for one in decide(shifts(old, new, KNOWN)))


def test_the_more_boots_differ_the_larger_a_change_must_be() -> None:
    found: Sequence[float] = [sizes(boots(1, noise), boots(2, noise))["every wake-up"] or 1 for noise in (0.001, 0.05)]
    assert found[0] <= 0.03
    assert found[1] >= 0.05


@pytest.mark.parametrize(
    ("noise", "which"), [(0.01, "every wake-up"), (0.03, "every wake-up"), (0.03, "the tail alone")]
)
def test_what_a_run_says_it_would_find_is_found_in_nine_of_ten_others(noise: float, which: str) -> None:
    """At the size that runs name others are called a regression in at least 75 %, and a step below less often."""
    runs = [(boots(100 + run, noise), boots(200 + run, noise)) for run in range(20)]
    found = below = total = 0
    for run, (old, new) in enumerate(runs):
        size = sizes(old, new)[which]
        assert size is not None
        step = SIZES[SIZES.index(size) - 2] if SIZES.index(size) > 1 else 0.0
        for other in range(5):
            total += 1
            for share in (size, step):
                change = {"factor": 1 + share} if which == "every wake-up" else {"tail": 1 + share}
                alarm = alarms(old, boots(1000 + 10 * run + other, noise, **change))  # type: ignore[arg-type]
                found += alarm and share == size
                below += alarm and share == step
    assert 0.75 * total <= found
    assert below < found


def test_a_run_of_few_boots_would_have_found_nothing() -> None:
    assert sizes(boots(1, 0.001, 3), boots(2, 0.001, 3)) == {"every wake-up": None, "the tail alone": None}


def test_a_candidate_that_is_better_hides_no_change_of_the_baseline() -> None:
    old, same, better = boots(1, 0.005), boots(2, 0.005), boots(2, 0.005, factor=0.9)
    assert sizes(old, better) == sizes(old, same)


def test_the_same_boots_give_the_same_answer() -> None:
    old, new = boots(1, 0.02), boots(2, 0.02)
    assert sizes(old, new) == sizes(old, new) == {"every wake-up": 0.05, "the tail alone": 0.075}


def test_numbers_have_no_tail_and_counts_are_no_change_by_a_share() -> None:
    def numbers(seed: int) -> Boots:
        chance = random.Random(seed)
        return [
            {
                "rate": BootFigure(
                    name="rate",
                    part=Part.NUMBER,
                    value=-1000 * chance.lognormvariate(0, 0.002),
                    unit=Unit.PER_S,
                    better=Better.HIGHER,
                ),
                "lost": BootFigure(name="lost", part=Part.NUMBER, value=7.0, unit=Unit.COUNT),
            }
            for _ in range(12)
        ]

    old, new = numbers(1), numbers(2)
    known = dict.fromkeys(old[0], Placebo(move=0.001, spike=1.5, kernels=38, boots=12))
    (found,) = detections(old, new, known, first(shifts(old, new, known)))
    assert found.change == "every figure"
    assert found.size is not None
    assert found.size <= 0.075
    assert detections(old, new, {}, 0.001) == []


def test_a_figure_that_is_zero_is_left_out() -> None:
    zero = [{"lost": BootFigure(name="lost", part=Part.NUMBER, value=0.0, unit=Unit.VIRTUAL_NS)} for _ in range(12)]
    assert detections(zero, zero, {"lost": KNOWN["latency p50"]}, 0.001) == []
    assert Detection(change="every figure", size=None).size is None
