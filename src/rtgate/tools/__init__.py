# SPDX-License-Identifier: MIT
"""Measuring programs. Each module owns a tool's options, command line, parser and exit-code meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rtgate.measurement import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a tool must be seen to do, for the validity of its measurements.

    Attributes:
        command: the name of its threads in `/proc/PID/task/*/stat`, without the brackets.
        threads: how many measuring threads there must be beside the main one.
        policy: their scheduling policy, as in `/proc/PID/stat` field 41 (1 is SCHED_FIFO).
        priority: their real-time priority, field 40.
        interval_us: the period of a measuring thread, 0 for tools without one.
        duration_s: how long it measures.
    """

    command: str
    threads: int
    policy: int
    priority: int
    interval_us: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a tool's options take from the board and the profile.

    Attributes:
        cpus: CPUs of the board.
        duration_s: how long to measure, in target seconds.
        virtual_time: whether the target's clock counts instructions, so that nanoseconds mean something.
    """

    cpus: int
    duration_s: float
    virtual_time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool left behind: its files by name, its exit code, and the setting it was run with."""

    files: Mapping[str, bytes]
    exit_code: int
    setting: Setting

    def text(self, name: str) -> str:
        """Return a file as text, empty if there is none; bytes that are no UTF-8 are kept as escapes."""
        return self.files.get(name, b"").decode("utf-8", errors="backslashreplace")


class Tool(Protocol):
    """What every tool's options offer."""

    @property
    def name(self) -> str:
        """The tool's name."""

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line; output files are named relative to the results directory."""

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return the measurements. Raises ParseError."""
