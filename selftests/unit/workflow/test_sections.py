# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rtgate.board.boards import Board, board
from rtgate.explain.path import Profile
from rtgate.explain.replay import Replay
from rtgate.explain.section_changes import SiteChange
from rtgate.explain.sections import BootSections, Context, Kind, Section, Site, Spot
from rtgate.workflow import sections
from rtgate.workflow.sections import SectionBoots, unfollowed


def _slower(one: Board) -> Board:
    assert one.qemu is not None
    return replace(one, qemu=replace(one.qemu, shift=4))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (board("rk3568-evb1"), "rk3568-evb1 is not a virtual board of arm64 or x86_64"),
        (board("virt-riscv64"), "virt-riscv64 is not a virtual board of arm64 or x86_64"),
        (_slower(board("virt-arm64")), "virt-arm64 cannot be followed, but of boards with 8 ns per instruction"),
        (replace(board("virt-arm64"), cpus=9), "at most 8 CPUs"),
        (replace(board("virt-arm64"), command_line="irqchip.gicv3_pseudo_nmi=1"), "masks interrupts by priority"),
    ],
)
def test_boards_that_cannot_be_followed_are_refused(changed: Board, reason: str) -> None:
    assert reason in unfollowed(changed)


@pytest.mark.parametrize("name", ["virt-arm64", "virt-arm64-smp2", "virt-arm64-xenomai"])
def test_virtual_arm64_boards_can_be_followed(name: str) -> None:
    assert unfollowed(board(name)) == ""


def test_what_ran_in_a_section_is_looked_for_in_a_boot_that_repeats_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board with a disk may boot otherwise the second time: other code ran where the section had been."""
    expected: set[object] = set()

    def section_profiles(replay: Replay, *_: object) -> list[Profile]:
        expected.add(replay.expected)
        return [Profile()]

    monkeypatch.setattr(sections, "trace_sections", lambda replay, *_: (f"record of {replay.arm}", BootSections(())))
    monkeypatch.setattr(sections, "section_profiles", section_profiles)
    monkeypatch.setattr(sections, "differing", lambda *_: SimpleNamespace(functions=frozenset()))
    arms: Any = {"baseline": "the baseline", "candidate": "the candidate"}
    case: Any = None
    boots = SectionBoots(case=case, seeds=[7], arms=arms, kernels=arms, stop=threading.Event(), tell=lambda _: None)
    boots.follow()
    site = Site(Kind.IRQSOFF, Context.THREAD, Spot("f"), Spot("f"))
    section = Section(site, 1, 20, 20, 7, 9000, 9020, (0, 0, 0, 0, 1))
    boots.paths(SiteChange(site, section, section, section))
    assert expected == {"record of the baseline", "record of the candidate"}
