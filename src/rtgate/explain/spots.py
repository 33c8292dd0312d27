# SPDX-License-Identifier: MIT
"""Names of the places where an arm64 kernel disables and enables interrupts and preemption."""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.explain.sections import Spot
from rtgate.kernel.preemption import Preemption
from rtgate.kernel.vmlinux import Vmlinux

# Each table has four groups of four entries (Arm Architecture Reference Manual, D1.3.1; arch/arm64/kernel/entry.S).
_LEVELS = ("el1t_64", "el1h_64", "el0t_64", "el0t_32")
_EXCEPTIONS = ("sync", "irq", "fiq", "error")
_ENTRY = 0x80  # bytes
_CALL = 4  # bytes of a call, behind which a return address points


@dataclass(frozen=True, slots=True)
class SpotNames:
    """Names in one kernel."""

    kernel: Vmlinux
    kept: Preemption

    def spot(self, address: int, caller: int) -> Spot:
        """Return the functions of an address, and of its caller's if it is in a helper (a return address, or 0)."""
        own = self._name(address)
        return Spot(self._name(caller - _CALL), own) if caller else Spot(own)

    def _name(self, address: int) -> str:
        """Return the name of a function; of an entry for exceptions, the function to which it leads."""
        for start, end in self.kept.vectors:
            if start <= address < end:
                level, exception = divmod((address - start) // _ENTRY % 16, 4)
                return f"{_LEVELS[level]}_{_EXCEPTIONS[exception]}"
        return self.kernel.function_at(address)
