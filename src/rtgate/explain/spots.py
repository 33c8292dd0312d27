# SPDX-License-Identifier: MIT
"""Names of the places where a kernel disables and enables interrupts and preemption."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rtgate.explain.sections import Spot
from rtgate.kernel.preemption import Preemption
from rtgate.kernel.vmlinux import CALL, Vmlinux


@dataclass(frozen=True)
class SpotNames:
    """Names in one kernel."""

    kernel: Vmlinux
    kept: Preemption

    @cached_property
    def _entries(self) -> dict[int, str]:
        return {entry.start: entry.name for entry in self.kept.entries if entry.name}

    def spot(self, address: int, caller: int) -> Spot:
        """Return the functions of an address, and of its caller's if it is in a helper (a return address, or 0)."""
        own = self._name(address)
        return Spot(self._name(caller - CALL), own) if caller else Spot(own)

    def _name(self, address: int) -> str:
        """Return the name of a function; of an entry for exceptions, the function to which it leads."""
        return self._entries.get(address) or self.kernel.function_at(address)
