# SPDX-License-Identifier: MIT
"""One instruction of a function, ready to be compared with those of another kernel: what each architecture makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from rtgate.kernel.vmlinux import Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    Attributes:
        address: where it begins.
        strict: what it does: addresses by what they point to, wherever in the function it jumps to.
        loose: the same, whatever registers it uses and wherever on the stack it keeps something; None if it is there
            only to align what follows.
        call: the name of what it calls, empty if a register or memory says that; None if it does not call.
        jumps_back: whether it jumps to an instruction of the function that stands before it.
        repeats: whether it repeats itself as often as a register says, as `rep stos` of x86.
    """

    address: int
    strict: Hashable
    loose: Hashable | None
    call: str | None = None
    jumps_back: bool = False
    repeats: bool = False


Reader = Callable[[Symbol], Sequence[Instruction]]
"""Returns the instructions of a function of one kernel."""
