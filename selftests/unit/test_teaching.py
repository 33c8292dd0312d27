# SPDX-License-Identifier: MIT
"""What campaigns teach of harmless kernels: together, each image once, and never of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from selftests.campaigns.comparisons import EMULATOR, IDLE, MEASURED, UNPATCHED, all_campaigns, campaigns
from selftests.campaigns.kernels import Kernels, by_place, distinct, placebos_of
from selftests.campaigns.teaching import figures_of, placebos_yaml

from rtgate import site
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import load_placebos
from rtgate.judge.learn import harmless
from rtgate.judge.learn.harmless import Boots
from rtgate.records.record import Record


@cache
def idle() -> tuple[Kernels, ...]:
    """Return the idle kernels of all campaigns."""
    return tuple(by_place(campaigns())[IDLE])


def test_campaigns_teach_together() -> None:
    both = figures_of(idle())
    parts = [figures_of([kernels]) for kernels in idle()]
    assert len(parts) == sum(directory.parent == MEASURED for directory in campaigns()) > 1
    for name, placebo in both.items():
        assert placebo.move == max(part[name].move for part in parts)
        assert placebo.spike == max(part[name].spike for part in parts)
        # An image counts once: another root file system gives it other phases, and is no other image.
        assert placebo.kernels == max(part[name].kernels for part in parts)
    assert figures_of(idle()[::-1]) == both


def test_campaigns_teach_what_the_harsher_one_showed() -> None:
    one = Placebo(move=0.1, spike=1.5, kernels=30, boots=12, move_by=3.0)
    other = Placebo(move=0.2, spike=1.2, kernels=20, boots=8, spike_at=4.0)
    together = Placebo(move=0.2, spike=1.5, kernels=30, boots=8, move_by=3.0, spike_at=4.0)
    assert harmless.combine(one, other) == harmless.combine(other, one) == together


CHANGED: list[Callable[[Record], Record]] = [
    lambda one: replace(one, argv=("cyclictest", "--other")),
    lambda one: replace(one, environment=replace(one.environment, emulator="QEMU emulator version 9.0.2")),
    lambda one: replace(one, environment=replace(one.environment, kernel_release="6.18.3")),
]


@pytest.mark.parametrize("changed", CHANGED, ids=["command", "QEMU", "Linux"])
def test_campaigns_of_two_kinds_do_not_teach_together(changed: Callable[[Record], Record]) -> None:
    other = {name: Boots(name, tuple(map(changed, boots.records))) for name, boots in idle()[0].items()}
    with pytest.raises(ValueError, match="do not teach together"):
        figures_of([idle()[0], other])


def test_a_placebo_with_the_unpatched_kernel_s_data_is_no_further_kernel() -> None:
    kernels = idle()[0]
    twins = [name for name, boots in placebos_of(kernels).items() if boots.data == kernels[UNPATCHED].data]
    own = [name for name in placebos_of(kernels) if name not in twins]
    assert twins
    assert distinct({name: kernels[name] for name in (UNPATCHED, *twins)}) == 0
    assert distinct({name: kernels[name] for name in (UNPATCHED, *twins, own[0])}) == 1
    known = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards")).cases
    ((shipped, _),) = (one for key, one in known.items() if (key[0], key[2]) == IDLE)
    assert shipped.qemu == EMULATOR
    count = max(distinct(campaign) for campaign in idle())
    assert {figure.kernels for figure in shipped.figures.values()} == {count}


def test_what_a_placebo_showed_is_not_what_it_is_judged_by() -> None:
    """Neither in its own campaign nor in another, where it was the same source."""
    name = "dotted-word"  # has the largest spike of all in the median
    figure = "latency p50"
    for kernels in idle():
        assert name in placebos_of(kernels)
        assert name not in placebos_of(kernels, without=name)
    assert figures_of(idle(), name)[figure].spike < figures_of(idle())[figure].spike


def test_the_shipped_file_is_what_all_campaigns_teach() -> None:
    assert placebos_yaml(all_campaigns()) == (site.shipped_directory() / "placebos.yaml").read_text()
