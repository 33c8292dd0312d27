# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest

from rtgate.board.boards import Board, board
from rtgate.workflow.sections import unfollowed


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
