# SPDX-License-Identifier: MIT
"""The latency that a kernel could have had in a boot: a bound made of its longest parts, whether they met or not.

`rtgate.tools.wakeup_bound` says which parts, and after whom.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.tools.wakeup_bound import Parts

MEASUREMENT = "latency.bound"
"""What limits and verdicts call it."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The longest of the sections that postpone the scheduler in one way; zero and empty if there are none.

    Attributes:
        place: where it began and ended.
    """

    instructions: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The longest wake-up that the parts of one boot could make up; in instructions.

    Attributes:
        seed: that of the boot.
        postponed: the longest section outside the scheduler (D_POID).
        switching: the longest section with a switch of threads (D_PSD, D_ST).
        entry: the longest way from an enabled scheduler into it (D_PAIE).
        way: the longest way from the switch to the end of the measured wake-up.
        interrupts: what interrupts take within the bound (I_IRQ).
        interrupt_count: how many they are.
        measured: the longest wake-up that was measured, without threads above the measured one that ran in it.
    """

    seed: int
    postponed: Delay
    switching: Delay
    entry: int
    way: int
    interrupts: int
    interrupt_count: int
    measured: int

    @property
    def first(self) -> Delay:
        """What a wake-up waits for before the switch to its own thread: the longer of both."""
        return max(self.switching, self.postponed, key=lambda delay: delay.instructions)

    @property
    def instructions(self) -> int:
        """The bound itself."""
        parts = Parts(
            postponed=self.postponed.instructions,
            switching=self.switching.instructions,
            entry=self.entry,
            way=self.way,
        )
        return parts.length + self.interrupts

    @property
    def holds(self) -> bool:
        """Whether no wake-up was longer; if one was, rtgate does not understand the kernel."""
        return self.measured <= self.instructions

    @property
    def mistake(self) -> str:
        """What is said where it does not hold."""
        return (
            f"a wake-up of {self.measured:,} instructions is longer than its bound of {self.instructions:,} "
            f"(seed {self.seed}): rtgate misunderstands this kernel, please report it"
        )

    @property
    def parts(self) -> str:
        """What it is made of, as the end of a sentence."""
        return (
            f"{self.first.instructions:,} instructions of it in {self.first.place}, {self.switching.instructions:,} in "
            f"{self.switching.place}, {self.interrupts:,} in interrupts"
        )
