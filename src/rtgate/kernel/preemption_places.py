# SPDX-License-Identifier: MIT
"""What is read from a kernel of either architecture about preemption: offsets, and where exceptions begin."""

from __future__ import annotations

from dataclasses import dataclass

FUNCTION = "irq_enter_rcu"
"""Its code shows the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Offsets as far as instructions show them; `kernel.preemption.Preemption` says of what."""

    count: int | None = None
    current: int | None = None
    softirq: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Where exceptions begin: at each block of instructions that begins from `start` on and before `end`.

    Attributes:
        interrupt: whether they are interrupts.
        name: the function to which an entry of a table leads; empty for one that is a function itself.
    """

    start: int
    end: int
    interrupt: bool
    name: str = ""
