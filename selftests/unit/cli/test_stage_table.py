# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.cli.stage_table import show_stages
from rtgate.explain.sections import BootSections
from rtgate.explain.stages import Stage, WakeUpStages
from rtgate.records.bound import Bound, Delay

OLD = WakeUpStages(
    count=1000,
    others=0,
    stages=(Stage("wake-up", 609_800, 630), Stage("switch", 231_400, 265)),
    whole=Stage("whole", 841_200, 895),
)
NEW = WakeUpStages(
    count=2000,
    others=3,
    stages=(Stage("wake-up", 1_441_600, 741), Stage("switch", 462_760, 265)),
    whole=Stage("whole", 1_904_360, 1006),
)


BOUND = Bound(seed=1, postponed=Delay(), switching=Delay(), entry=1, way=2, interrupts=0, interrupt_count=0, measured=7)


def lines_of(
    capsys: pytest.CaptureFixture[str], bound: Bound | None = None, **kernels: WakeUpStages | None
) -> list[str]:
    show_stages({arm: BootSections((), stages=stages, bound=bound) for arm, stages in kernels.items()})
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_each_stage_has_its_mean_and_its_longest(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, candidate=NEW) == [
        "stage of a wake-up mean virtual us longest virtual us",
        "wake-up 720.8 5.8 741 5.9",
        "switch 231.4 1.9 265 2.1",
        "whole 952.2 7.6 1,006 8.0",
        "candidate: 2,000 of 2,003 wake-ups went this way",
        "",
    ]


def test_of_two_kernels_the_change_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, candidate=NEW, baseline=OLD) == [
        "stage of a wake-up mean, baseline candidate change virtual us longest, baseline candidate change virtual us",
        "wake-up 609.8 720.8 +111.0 +0.9 630 741 +111 +0.9",
        "switch 231.4 231.4 +0.0 +0.0 265 265 +0 +0.0",  # -0.02, and nobody asks why nothing is negative
        "whole 841.2 952.2 +111.0 +0.9 895 1,006 +111 +0.9",
        "baseline: 1,000 of 1,000 wake-ups went this way",
        "candidate: 2,000 of 2,003 wake-ups went this way",
        "",
    ]


@pytest.mark.parametrize(
    ("kernels", "arms"),
    [
        ({"candidate": None}, "candidate"),
        ({"candidate": NEW, "baseline": None}, "baseline"),
        ({"candidate": None, "baseline": None}, "baseline and in the candidate"),
    ],
)
def test_a_kernel_with_a_bound_and_without_stages_is_named(
    capsys: pytest.CaptureFixture[str], kernels: dict[str, WakeUpStages | None], arms: str
) -> None:
    why = "no wake-up went the usual way, or a function is inlined"
    assert lines_of(capsys, bound=BOUND, **kernels) == [f"no stages of wake-ups: in the {arms} {why}", ""]


def test_without_a_bound_of_wake_ups_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, candidate=None) == []
    assert lines_of(capsys, candidate=NEW, baseline=None) == []
