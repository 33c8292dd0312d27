# SPDX-License-Identifier: MIT
"""Measuring programs. Each module owns a tool's options, command line, parser and exit-code meaning.

A plan runs the tool's command in the results directory, with its standard output in `tool.out` and its standard error
in `tool.err`; `tool.deadline` is there when the plan had to stop it. Tools of rt-tests that write JSON are read by
`rtgate.tools.rt_tests`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

from rtgate.board import tuning
from rtgate.board.instrument import Instrument
from rtgate.board.pcie import Function
from rtgate.board.storage import Storage
from rtgate.board.tuning import Write
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Quantity, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A measurement that proves that the tool did its work: every value of this name is at least `least`."""

    measurement: str
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a board's file demands of every measurement with this name and these labels, whatever other labels it has.

    Attributes:
        value: less is FAIL, more is a note.
        exact: more is FAIL, too.
        source: where the demand stands.
    """

    measurement: str
    labels: Mapping[str, str]
    value: float
    source: str
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a tool must be seen to do, for the validity of its measurements.

    Attributes:
        threads: its measuring threads; empty for a tool that has none with a real-time policy.
        duration_s: how long it measures, in target seconds; a run that was shorter is invalid.
        work_s: how long a fixed amount of work may take, in target seconds, before nobody waits for it any more; 0 for
            a tool that measures for a time.
        seen: where its threads are found.
        name: the start of the threads' names, for `ThreadScope.SYSTEM`.
        interval_us: the period of a measuring thread whose histogram must account for every period; 0 without one.
        counts: what it must have counted.
        clock: whether it measures with the wall clock, so that time synchronisation must stand still.
        steady: the measurement that must have become steady in the rounds before it, which are measured under its
            name after `round.`, with their number as the label `round`; empty for none.
        health: what the names of the measurements of a disk's health begin with; empty for a tool without a disk.
        bounds: what the board's file demands of its measurements.
        ends_with: the count with which the tool ends its run as soon as it is not 0: what such a run lacks is not told
            beside the failure. Empty for a tool that always measures to the end.
        cpus: the CPUs that its options keep the tool on; empty for those of the tuning, or all.
        processors: on how many different CPUs its threads are at every moment, because each is bound to one; 0 if the
            scheduler may move them, or if they cannot be told from its other threads.
    """

    threads: tuple[Threads, ...]
    duration_s: float
    work_s: float = 0
    seen: ThreadScope = ThreadScope.SESSION
    name: str = ""
    interval_us: int = 0
    counts: tuple[Count, ...] = ()
    clock: bool = False
    steady: str = ""
    health: str = ""
    bounds: tuple[Bound, ...] = ()
    ends_with: str = ""
    cpus: tuple[int, ...] = ()
    processors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a tool's options take from the board and the profile.

    Attributes:
        cpus: how many CPUs to measure on.
        cpu_list: which ones, like `2-3`; empty for all of the board.
        board_cpus: how many CPUs the board has; 0 for as many as are measured on, if nothing else is known.
        memory_mib: RAM of the board in MiB.
        duration_s: how long to measure, in target seconds.
        virtual_time: whether the target's clock counts instructions, so that nanoseconds mean something.
        storage: what the board's file says is free to overwrite; None for nothing.
        directory: the board's work directory, below which storage is mounted.
        beside: whether the tool runs beside another one, until that ends.
        pcie: the PCI Express functions that are expected on the board in this case, by name.
        instrument: what raises interrupts of the board from outside; None for nothing.
    """

    cpus: int
    duration_s: float
    virtual_time: bool
    memory_mib: int = 512
    cpu_list: str = ""
    board_cpus: int = 0
    storage: Storage | None = None
    directory: str = "/run/rtgate"
    beside: bool = False
    pcie: Mapping[str, Function] = field(default_factory=dict)
    instrument: Instrument | None = None

    @property
    def whole_s(self) -> int:
        """How long to measure, for programs that take whole seconds."""
        return math.ceil(self.duration_s)

    def at_least(self, seconds: int) -> int:
        """Return how long to measure, in whole seconds, if less than so many show nothing."""
        return max(seconds, self.whole_s)

    def periods(self, period_us: float) -> int:
        """Return how many periods last for as long as it measures: at least one."""
        return max(1, math.ceil(self.duration_s * 1_000_000 / period_us))

    def ends_by_time(self, loops_s: float) -> bool:
        """Return whether the duration, in whole seconds, can end a run whose loops take so long; 0 for no loops."""
        return not loops_s or loops_s > self.whole_s

    def run_s(self, loops_s: float) -> float:
        """Return how long such a run takes."""
        return self.whole_s if self.ends_by_time(loops_s) else loops_s


_MESSAGES = ("tool.err", "tool.out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool left behind: its files by name, its exit code, and the setting it was run with."""

    files: Mapping[str, bytes]
    exit_code: int
    setting: Setting

    @property
    def per_second(self) -> Unit:
        """The unit of what is counted in a second of this target."""
        return Unit.VIRTUAL_PER_S if self.setting.virtual_time else Unit.PER_S

    @property
    def megabytes_per_second(self) -> Unit:
        """The unit of 10^6 bytes in a second of this target."""
        return Unit.VIRTUAL_MB_S if self.setting.virtual_time else Unit.MB_S

    @property
    def microsecond(self) -> Unit:
        """The unit of a microsecond on this target."""
        return Unit.VIRTUAL_US if self.setting.virtual_time else Unit.US

    @property
    def nanosecond(self) -> Unit:
        """The unit of a nanosecond on this target."""
        return Unit.VIRTUAL_NS if self.setting.virtual_time else Unit.NS

    @property
    def message(self) -> str:
        """What the tool said, for messages."""
        return self._message(_MESSAGES)[:300]

    def last_message(self, names: tuple[str, ...] = _MESSAGES) -> str:
        """Return the last line of what the tool said, which in Python's messages is the one that tells.

        Args:
            names: the files that may hold it; the first one that holds something counts.
        """
        return f"{self._message(names).splitlines()[-1][:300]} (exit code {self.exit_code})"

    def _message(self, names: tuple[str, ...]) -> str:
        return next(filter(None, (self.text(name).strip() for name in names)), "no message")

    def text(self, name: str) -> str:
        """Return a file as text, empty if there is none; bytes that are no UTF-8 are kept as escapes."""
        return self.files.get(name, b"").decode("utf-8", errors="backslashreplace")


_FIGURES = ("min", "avg", "max")


def kept_on(cpu_list: str) -> tuple[str, ...]:
    """Return what goes before a command that is to run on some CPUs, as in `2` or `0-1`; nothing for all of them."""
    if not cpu_list:
        return ()
    # A mask, since toybox's program takes nothing else.
    return ("taskset", f"{sum(1 << cpu for cpu in tuning.cpus(cpu_list)):x}")


def count(name: str, value: float, better: Better, labels: Mapping[str, str] | None = None) -> Measurement:
    """Return a measurement that counts something."""
    return Measurement(name=name, better=better, quantity=Quantity(value, Unit.COUNT), labels=labels or {})


def time(name: str, value: float, unit: Unit, labels: Mapping[str, str] | None = None) -> Measurement:
    """Return a measurement of time, of which less is better."""
    return Measurement(name=name, better=Better.LOWER, quantity=Quantity(value, unit), labels=labels or {})


def time_figures(
    name: str, figures: tuple[float, float, float], unit: Unit, labels: Mapping[str, str] | None = None
) -> tuple[Measurement, ...]:
    """Return minimum, average and maximum of a time as `NAME.min`, `NAME.avg` and `NAME.max`."""
    return tuple(time(f"{name}.{part}", value, unit, labels) for part, value in zip(_FIGURES, figures, strict=True))


def rate(name: str, bytes_per_s: float, unit: Unit, labels: Mapping[str, str] | None = None) -> Measurement:
    """Return a measurement of throughput, given in bytes per second of the target, in `unit`; more is better."""
    quantity = Quantity(bytes_per_s / unit.scale, unit)
    return Measurement(name=name, better=Better.HIGHER, quantity=quantity, labels=labels or {})


def frequency(name: str, per_s: float, unit: Unit, labels: Mapping[str, str] | None = None) -> Measurement:
    """Return a measurement of how often something happened in a second, of which more is better."""
    return Measurement(name=name, better=Better.HIGHER, quantity=Quantity(per_s, unit), labels=labels or {})


class Reports(Enum):
    """What a measurement's name stands for, so that a limit's unit can be checked before anything is measured.

    Attributes:
        FAILURES: a count of what a kernel must never do; one is FAIL without a limit.
        LATENESS: a count of what a kernel must never do and what a busy host can do to it, too: FAIL without a limit
            where time is the target's own, shown on host time.
    """

    TIME = "time"
    TIMES = "histogram of times"
    COUNT = "count"
    FAILURES = "count of failures"
    LATENESS = "count of failures to be in time"
    RATIO = "ratio"
    RATE = "rate"
    FREQUENCY = "frequency"
    TEMPERATURE = "temperature"


def times_reported(name: str) -> dict[str, Reports]:
    """Return what `time_figures` measures, for `Tool.reports`."""
    return {f"{name}.{part}": Reports.TIME for part in _FIGURES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver of ours that is part of a kernel's own image.

    Attributes:
        symbol: what its configuration says then, without `CONFIG_`.
        builds: the build of each architecture that has it.
    """

    symbol: str
    builds: Mapping[str, str]


class Tool(Protocol):
    """A measuring program with its options: each is a frozen dataclass derived from this one.

    Attributes:
        name: the tool's name, which cases, limits and records use.
        suites: the suites that it belongs to.
        reports: what it measures: the names that limits may use.
        image: the root filesystem image that has it.
        needs: what the target must have, whatever the options; a case whose needs are not met is SKIP.
        writes: settings of the target that the tool cannot do without.
        cleanup: commands of the POSIX shell that undo what the tool leaves in the kernel when it is killed, on any
            board; they run after each plan, but not on virtual time, and must do no harm after a tool that ended by
            itself.
        confined: whether its threads stay on the CPUs of `Setting.cpu_list`.
        bounded: whether following its boots on virtual time gives the bound of a wake-up (`records.bound`).
        companion: whether it can run beside another tool, as a load that measures; such a tool has no `writes`,
            `cleanup`, `undo`, `driver` and is not `instrumented`.
        devices: what it measures, by the names of `Setting.pcie`: a virtual board gets them in the case's boot, and a
            board that does not list them skips the case. `("all",)` is every one that the board lists.
        driver: what a virtual board's kernel needs for them beside PCI; None for nothing of ours.
        instrumented: whether it measures with the instrument of `Setting.instrument`; a board without one skips the
            case.
        ranges: the least and the most that a profile may ask for, by option, where `profiles` does not know it; None
            for no most.
    """

    name: ClassVar[str]
    suites: ClassVar[tuple[str, ...]]
    reports: ClassVar[Mapping[str, Reports]]
    image: ClassVar[str] = "core"
    needs: ClassVar[tuple[Need, ...]] = ()
    writes: ClassVar[tuple[Write, ...]] = ()
    cleanup: ClassVar[str] = ""
    confined: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    companion: ClassVar[bool] = False
    devices: ClassVar[tuple[str, ...]] = ()
    driver: ClassVar[Driver | None] = None
    instrumented: ClassVar[bool] = False
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {}

    def required(self) -> tuple[Need, ...]:
        """Return what the target must have for these options."""
        return self.needs

    def undo(self, setting: Setting) -> str:  # noqa: ARG002 - most tools leave the same on every board
        """Return the commands that undo what the tool leaves on this board when it is killed, as `cleanup`."""
        return self.cleanup

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line; output files are named relative to the results directory."""

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return the measurements. Raises ParseError."""


class DestructiveTool(Tool):
    """A tool that overwrites the board's storage."""

    @abstractmethod
    def fill(self, setting: Setting) -> tuple[str, ...]:
        """Return the command that writes the whole test file before it is measured."""

    @abstractmethod
    def file_bytes(self, setting: Setting) -> int:
        """Return the size of the test file in bytes."""
