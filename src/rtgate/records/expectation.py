# SPDX-License-Identifier: MIT
"""What a measurement had to be, as its plan asked: by the tool, the tuning, the profile and the board's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtgate.tools import Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFunction:
    """A PCI function whose error counters should be there: its name, and its address or vendor:device."""

    name: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(Expected):
    """What was expected of one measurement: of the tool as `tools.Expected` says, and of the board.

    Attributes:
        options: those of the tool, and of the load, that are not its own ones, by name.
        command_line: kernel arguments of the tuning.
        priorities: SCHED_FIFO priority by the start of the names of the kernel's threads.
        irq_affinity: the CPUs to which the tuning moves interrupts; empty if it does not.
        counters: the functions whose error counters the board's file says are there.
        temperature_limit: degrees Celsius that no thermal zone may be above; None for no limit.
        firmware: regular expressions by what they pin (see `board.firmware`).
    """

    options: Mapping[str, bool | int | str] = field(default_factory=dict)
    command_line: str = ""
    priorities: Mapping[str, int] = field(default_factory=dict)
    irq_affinity: str = ""
    counters: tuple[CountedFunction, ...] = ()
    temperature_limit: int | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
