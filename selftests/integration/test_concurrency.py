# SPDX-License-Identifier: MIT
"""A short run of `bench/concurrency.py`: gates beside each other, some of them killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from selftests.concurrency import KINDS, World


@pytest.mark.long(
    "five gates with a fake QEMU; unit tests have one that is interrupted, and two that want the same build or report"
)
def test_a_gate_that_is_killed_leaves_nothing_to_those_beside_it(tmp_path: Path) -> None:
    world = World.make(tmp_path / "world")
    world.learn(KINDS[:2])
    assert world.round(random.Random(19), [KINDS[0], KINDS[1], KINDS[0]], kill=1) == []


@pytest.mark.long("eight gates at once, three of them killed; two commits at once are in unit/kernel/test_checkout.py")
def test_gates_beside_each_other_say_what_each_says_alone(tmp_path: Path) -> None:
    world = World.make(tmp_path / "world")
    world.learn()
    chosen = random.Random(19)
    assert world.round(chosen, [*KINDS, *KINDS], kill=3) == []
    assert world.round(chosen, [KINDS[0], KINDS[1]], kill=0) == []
