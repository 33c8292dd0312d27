# SPDX-License-Identifier: MIT
"""Errors, one branch per person who must act.

::

    RtgateError
      ConfigError          whoever wrote the file or typed the command     exit 2
      InfrastructureError  the lab: power, serial, QEMU, disk, network     exit 3
        DeadlineError      a wait on the lab ended
        TransportError     a console closed or could not be opened
      TargetError          the kernel under test                           exit 1
        KernelFaultError   it panicked, oopsed, stalled
        HangError          it stopped answering
        BuildError         it does not compile
          BuildLimitError  it took too much time or disk, and was stopped
      ChangedError         whoever replaced a kernel, QEMU or a record     exit 4
      ParseError           a tool's output nobody understands              exit 4
        UnfinishedError    it was stopped, and says that it was at work
        NoWakeupsError     a measuring thread never ran
      Interrupted          the user pressed Ctrl-C                         exit 130
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class RtgateError(Exception):
    """The root of all errors that rtgate raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; line and column count from 1."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class ConfigError(RtgateError):
    """A file or an argument is wrong: its author must change it. The message names the place and what is allowed."""

    exit_code = 2

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.location = location


class InfrastructureError(RtgateError):
    """The lab failed (power, serial line, QEMU, disk, network): never the kernel's fault."""

    exit_code = 3


class DeadlineError(InfrastructureError):
    """A wait on the lab or on this machine took longer than it may."""


class TransportError(InfrastructureError):
    """A console could not be opened, or it closed."""


class TargetError(RtgateError):
    """The kernel under test misbehaved."""

    exit_code = 1


class KernelFaultError(TargetError):
    """The kernel reported a fault of its own: panic, oops, stall."""


class HangError(TargetError):
    """The kernel stopped answering before a deadline of the plan."""


class BuildError(TargetError):
    """The kernel under test does not compile; the message holds the compiler's first error, and where `log` is."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(f"{message} (log: {log})" if log else message)
        self.first_error = message
        self.log = log


class BuildLimitError(BuildError):
    """Its build took more time or disk than it may, and was stopped half-way."""


class ChangedError(RtgateError):
    """What is measured, what it is measured with, or what was measured is not what it was: the run proves nothing."""

    suites_code = 6  # what pytest ends with; its own codes are 0 to 5


class ParseError(RtgateError):
    """A tool's output could not be understood: a new version of it, or a mistake of ours."""

    exit_code = 4


class UnfinishedError(ParseError):
    """A tool was stopped before it had done its work, and its output shows that it had got on with it."""


class NoWakeupsError(ParseError):
    """A measuring thread never ran: this kernel's fault or rtgate's, or that of a busy host below the kernel."""


class Interrupted(RtgateError):  # noqa: N818 - it is not a mistake of anybody
    """The user asked to stop."""

    exit_code = 130
