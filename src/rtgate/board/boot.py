# SPDX-License-Identifier: MIT
"""What tells one boot from another: whose kernel it was, which clock measured it, and how far it came."""

from __future__ import annotations

from enum import StrEnum


class ArmName(StrEnum):
    """Which kernel of a comparison a boot is of."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class TimeBase(StrEnum):
    """The clock that a board measures with."""

    VIRTUAL = "virtual"  # QEMU counts instructions
    HOST = "host"  # a virtual machine on the clock of the machine below it
    REAL = "real"  # hardware
    UNKNOWN = ""  # nothing ran


class State(StrEnum):
    """How far a boot came, and so whose turn it is."""

    MEASURED = "measured"  # the plan ended and its results are here
    SKIPPED = "skipped"  # nobody: the target lacks what the tool needs, and the plan said so
    LOST = "device lost"  # the kernel, the link or the lab: a device of the board's file is not there
    NO_BOOT = "no boot"  # the kernel: it never came to the plan
    FAULT = "kernel fault"  # the kernel: it died during the plan
    HANG = "hang"  # the kernel: a deadline passed in silence
    UNREADABLE = "unreadable"  # we, or the line: the results cannot be read
    UNREPEATED = "not repeated"  # we: an equal boot printed something else
    LAB = "lab"  # the lab: QEMU, power, disk, console
