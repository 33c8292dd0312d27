# SPDX-License-Identifier: MIT
"""What bounds a wake-up, from the longest of its parts; in any unit, the same for all.

de Oliveira, Casini, de Oliveira, Cucinotta, "Demystifying the Real-Time Linux Scheduling Latency" (ECRTS 2020, LIPIcs
165, 9): the scheduling latency is at most the least L with

    L = max(D_ST, D_POID) + D_PAIE + D_PSD + I_NMI(L) + I_IRQ(L)

Here D_ST and D_PSD are both taken as the longest section that switches, and the way of the measured thread from the
switch to the reading of its clock comes on top, as a tool's latency has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The longest of each, without the interrupts in it.

    Attributes:
        postponed: a section outside the scheduler (D_POID).
        switching: a section with a switch of threads (D_PSD, D_ST).
        entry: the way from an enabled scheduler into it (D_PAIE).
        way: from the switch to the end of the measured wake-up.
    """

    postponed: int
    switching: int
    entry: int
    way: int

    @property
    def length(self) -> int:
        """The bound of a wake-up that no interrupt delays."""
        return max(self.switching, self.postponed) + self.entry + self.switching + self.way


def interference(length: int, most: Callable[[int], tuple[int, int]]) -> tuple[int, int]:
    """Return what interrupts take at most of a bound, and how many they are.

    Args:
        length: the bound without them.
        most: returns the most that interrupts took of a time of this length, and their number. It grows with the
            length, and more slowly in the end: a busy time without an end has no bound.
    """
    delay, count = 0, 0
    while (worst := most(length + delay))[0] > delay:
        delay, count = worst
    return delay, count
