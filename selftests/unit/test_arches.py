# SPDX-License-Identifier: MIT
"""The table of architectures, and what else has to know each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.enums import ENUM_E_MACHINE

from rtgate import process, site
from rtgate.arches import ARCHES
from rtgate.board import boards
from rtgate.rootfs import elf
from rtgate.target import virtual_clock

ELF = {"arm64": "EM_AARCH64", "x86_64": "EM_X86_64", "riscv64": "EM_RISCV"}


@pytest.mark.parametrize("name", ARCHES)
def test_an_architecture_is_known_wherever_code_depends_on_it(name: str) -> None:
    arch = ARCHES[name]
    assert arch.elf == ENUM_E_MACHINE[ELF[name]]
    assert elf.machine(elf.stand_in(arch.elf, "libx.so", [("f", "")])) == arch.elf
    assert name in virtual_clock.CLOCKS
    assert process.PACKAGES[arch.compiler] == arch.packages[0]


@pytest.mark.parametrize("name", ARCHES)
def test_each_architecture_has_a_virtual_board_and_its_builds(name: str) -> None:
    board = boards.board(f"virt-{name}")
    assert (board.arch, board.build) == (name, f"virt-{name}-preempt_rt")
    assert board.qemu is not None
    assert board.qemu.binary == ARCHES[name].qemu_program
    assert f"virt-{name}-generic" in site.names("kernel-configs")


@pytest.mark.parametrize("name", ARCHES)
def test_bootstrap_installs_what_an_architecture_needs(name: str) -> None:
    arch = ARCHES[name]
    needs = Path(__file__, "../../../ci/bootstrap").resolve().read_text()
    assert f"{arch.qemu_program} {arch.qemu_package}" in needs
    assert f"{arch.compiler} {arch.packages[0]}" in needs


@pytest.mark.parametrize("fact", ["kbuild", "directory", "magic", "gnu", "debian", "elf", "qemu"])
def test_no_two_architectures_have_the_same(fact: str) -> None:
    assert len({getattr(arch, fact) for arch in ARCHES.values()}) == len(ARCHES)
