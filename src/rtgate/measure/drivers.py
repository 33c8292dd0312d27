# SPDX-License-Identifier: MIT
"""What is known of a virtual board's kernel before it boots: whether it has drivers of the devices of a case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rtgate.board.boards import Board
from rtgate.tools import Driver


@dataclass(frozen=True, slots=True)
class Undriven:
    """What a kernel lacks to drive devices.

    Attributes:
        build: the build that has it; empty if none is known.
    """

    what: str
    build: str

    def reason(self, kernel: str) -> str:
        """Return why a case cannot run on a kernel of this name."""
        there = f"; the build {self.build} has it" if self.build else ""
        return f"{kernel} was built without {self.what}{there}"


def undriven(
    board: Board, configuration: Mapping[str, str], devices: Collection[str], driver: Driver | None
) -> Undriven | None:
    """Return what a kernel lacks, by its configuration; None if nothing, or if the kernel itself must show it."""
    if board.qemu is None or not devices or not configuration:
        return None
    if driver is not None and configuration.get(driver.symbol) != "y":
        return Undriven(f"the driver CONFIG_{driver.symbol}", driver.builds.get(board.arch, ""))
    if configuration.get("PCIEPORTBUS") != "y":
        return Undriven("PCI Express (CONFIG_PCIEPORTBUS)", board.qemu.drivers)
    return None
