# SPDX-License-Identifier: MIT
"""Programs of Xenomai 3 that measure and test its Cobalt core.

They measure Cobalt only because they are linked with its library, so each is looked for where Xenomai installs it.

Facts of Xenomai 3.0 to 3.3 that this module depends on (testsuite/latency/latency.c,
testsuite/switchtest/switchtest.c, lib/cobalt/thread.c):

* A thread of Cobalt has the same policy and priority for Linux, so they are in /proc/PID/stat.
* Cobalt sets timers early by the time in /proc/xenomai/latency, so that a thread may wake up too soon. latency then
  shows values below zero; cyclictest, which takes them for unsigned, shows values near 2^64. Here that time is 0.
* latency and switchtest end with 0 when a signal stops them, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board.tuning import Write
from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time_figures, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_FIFO, Threads

PROGRAMS = ("env", "PATH=/usr/xenomai/bin:/usr/bin:/usr/sbin:/bin:/sbin")
COBALT = (Need(test="[ -e /proc/xenomai/version ]", reason="no Cobalt core (/proc/xenomai is missing)"),)
ON_TIME = (Write(path="/proc/xenomai/latency", value="0", reads="^0$"),)
REPORTS = {"latency": Reports.TIMES, **times_reported("latency"), "wakeups": Reports.COUNT}
WHOLE = "[0-9]{1,18}"
_MICROSECONDS = r" *(-?[0-9]{1,15}\.[0-9]{3})"


def _single_match(pattern: re.Pattern[str], output: Output) -> re.Match[str]:
    """Return the only match of what a complete run of latency prints once. Raises ParseError."""
    matches = list(pattern.finditer(output.text("tool.out")))
    if len(matches) != 1:
        raise ParseError(f"latency printed {len(matches)} results instead of one: {output.message}")
    return matches[0]


def latencies(
    histogram: Histogram, numbers: tuple[float, float, float], labels: Mapping[str, str]
) -> tuple[Measurement, ...]:
    """Return the histogram, and minimum, average and maximum in its unit."""
    return (
        Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
        *time_figures("latency", numbers, histogram.unit, labels),
        count("wakeups", histogram.total, Better.NEITHER, labels),
    )


CELL_NS = 100
"""Of a cell. In wide ones a mean moves by up to a cell where the samples hardly move.

With 1000 ns, latency's default, a harmless kernel's rose by 3.5 % of 18 us.
"""
# In the order of their numbers for the option -t.
_CONTEXTS = {"user": "periodic user-mode task", "kernel": "in-kernel periodic task", "irq": "in-kernel timer handler"}
_FIGURES = rf"{_MICROSECONDS}\|{_MICROSECONDS}\|{_MICROSECONDS}\| *({WHOLE})\| *({WHOLE})"
_RTD = re.compile(rf"^RTD\|{_FIGURES}\|", re.MULTILINE)
_RTS = re.compile(
    rf"^RTS\|{_FIGURES}\| *({WHOLE}):([0-9]{{2}}):([0-9]{{2}})/({WHOLE}):([0-9]{{2}}):([0-9]{{2}}) *$", re.MULTILINE
)
_CELL = re.compile(rf"^HSD\| +avg\| *({WHOLE}) *- *{WHOLE} *\| *({WHOLE}) *$", re.MULTILINE)
_CELLS = re.compile(rf"^HSS\| +avg\| *({WHOLE})\|.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiLatency(Tool):
    """latency: how late a task in user space wakes up.

    Attributes:
        period_us: how often the task wakes up.
        priority: its priority, of Cobalt and of Linux.
        cpu: the CPU that a task in user space is bound to.
        range_us: values from here on are counted as overflow.
    """

    period_us: int = 1000
    priority: int = 99
    cpu: int = 0
    range_us: int = 1000

    context: ClassVar[str] = "user"
    name: ClassVar[str] = "xenomai-latency"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    needs: ClassVar[tuple[Need, ...]] = COBALT
    writes: ClassVar[tuple[Write, ...]] = ON_TIME
    reports: ClassVar[Mapping[str, Reports]] = REPORTS | {"overruns": Reports.COUNT, "modeswitches": Reports.COUNT}

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a histogram of equal cells, whose last one holds what is beyond."""
        return (
            *(*PROGRAMS, "latency", "-h", "-B", f"{CELL_NS}", "-H", f"{self._cells + 1}"),
            *("-t", f"{[*_CONTEXTS].index(self.context)}"),
            *("-p", f"{self.period_us}", "-P", f"{self.priority}"),
            *(("-c", f"{self.cpu}") if self.context == "user" else ()),
            *("-T", f"{setting.whole_s}"),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs; a task in the kernel is not among Linux's threads."""
        seconds = setting.whole_s
        task = Threads(count=1, policy=SCHED_FIFO, priority=self.priority)
        return Expected(
            threads=(task,) if self.context == "user" else (),
            duration_s=seconds,
            counts=(Count(measurement="wakeups", least=0.95 * seconds * 1_000_000 / self.period_us),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `overruns`, `modeswitches`.

        The histogram is of all samples by their size, whatever their sign. The numbers in the summary are of whole
        seconds: a longer latency in the last, broken second is in the histogram only, and counts as the maximum.

        Raises:
            ParseError: it failed, stopped early, measured something else, or its output is missing, damaged, or
                contradicts itself.
        """
        check_end("latency", output)
        text = output.text("tool.out")
        self._check_parameters(text)
        summary = _single_match(_RTS, output)
        low, mean, high = (float(number) for number in summary.groups()[:3])
        overruns, switches, *clock = (int(number) for number in summary.groups()[3:])
        _check_clock(clock[:3], clock[3:], output.setting.whole_s)
        seconds = [float(row[2]) for row in _RTD.findall(text)]
        if not low <= mean <= high or max(seconds, default=high) > high:
            raise ParseError(f"latency contradicts itself: {summary[0]}, up to {max(seconds, default=0)} in a second")
        histogram = self._histogram(text, output)
        top = (histogram.limit if histogram.overflow else max(histogram.counts)) / 1000
        high = top if top > max(high, -low) else high
        # Of the kernel's own contexts nobody says on which CPU they are (testsuite/latency/latency.c, option -c).
        labels = {**({"cpu": str(self.cpu)} if self.context == "user" else {}), "context": self.context}
        return (
            *latencies(histogram, (round(low * 1000), round(mean * 1000), round(high * 1000)), labels),
            count("overruns", overruns, Better.LOWER, labels),
            count("modeswitches", switches, Better.LOWER, labels),
        )

    def _check_parameters(self, text: str) -> None:
        lines = (f"== Sampling period: {self.period_us} us", f"== Test mode: {_CONTEXTS[self.context]}")
        missing_lines = [line for line in lines if line not in text.splitlines()]
        if missing_lines:
            raise ParseError(f"latency did not say {missing_lines[0]!r}: {text.strip()[:300] or 'it printed nothing'}")

    @property
    def _cells(self) -> int:
        return self.range_us * 1000 // CELL_NS

    def _histogram(self, text: str, output: Output) -> Histogram:
        """Return the samples by size in nanoseconds, as multiples of a cell."""
        counts: dict[int, int] = {}
        for cell, samples in _CELL.findall(text):
            value = int(cell) * CELL_NS
            if value in counts or int(cell) > self._cells:
                raise ParseError(f"latency's histogram is damaged at cell {cell}")
            counts[value] = int(samples)
        total = int(_single_match(_CELLS, output)[1])
        if total == 0 or sum(counts.values()) != total:
            raise ParseError(f"latency's histogram holds {sum(counts.values())} samples of {total}")
        limit = self._cells * CELL_NS
        overflow = counts.pop(limit, 0)
        return Histogram(unit=output.nanosecond, counts=counts, overflow=overflow, limit=limit)


def _check_clock(duration: list[int], limit: list[int], asked_s: int) -> None:
    """Check hours, minutes and seconds that latency measured for, and that it was asked for. Raises ParseError."""
    duration_s, limit_s = (3600 * hours + 60 * minutes + seconds for hours, minutes, seconds in (duration, limit))
    if limit_s != asked_s or duration_s < asked_s:
        raise ParseError(f"latency measured for {duration_s} s of {limit_s} s, and {asked_s} s were asked for")


_TIMERBENCH = Need(test="[ -c /dev/rtdm/timerbench ]", reason="the kernel lacks XENO_DRIVERS_TIMERBENCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiLatencyKernel(XenomaiLatency):
    """latency -t 1: how late a task in the kernel wakes up, which no switch to user space delays."""

    context: ClassVar[str] = "kernel"
    name: ClassVar[str] = "xenomai-latency-kernel"
    needs: ClassVar[tuple[Need, ...]] = (*COBALT, _TIMERBENCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiLatencyIrq(XenomaiLatency):
    """latency -t 2: how late the handler of Cobalt's timer runs, with no task at all."""

    context: ClassVar[str] = "irq"
    name: ClassVar[str] = "xenomai-latency-irq"
    needs: ClassVar[tuple[Need, ...]] = (*COBALT, _TIMERBENCH)


_SWITCHES = re.compile(rf"^RTD\|(?: *({WHOLE})\|)? *({WHOLE})\| *({WHOLE}) *$", re.MULTILINE)
_SLEEPERS = re.compile(r" (?:sleeper|switcher)(?:_[a-z]+)*([0-9]*)-[0-9]+\b")
_BROKEN = re.compile(
    r"^(?:Error after context switch from task|No context switches during one second|fpu stress task failure|"
    r"Switch to (?:primary|secondary) mode failed).*",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiSwitchtest(Tool):
    """switchtest: do context switches between threads of all kinds keep each one's registers?

    It has no options here: threads of each kind on every CPU of Cobalt.
    """

    name: ClassVar[str] = "xenomai-switchtest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = COBALT
    reports: ClassVar[Mapping[str, Reports]] = {"failures": Reports.FAILURES, "switches": Reports.COUNT}

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        return (*PROGRAMS, "switchtest", "-T", f"{setting.whole_s}")

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: without a floating-point unit six real-time threads per CPU."""
        return Expected(
            threads=(Threads(count=6 * setting.cpus, policy=SCHED_FIFO, priority=1),),
            duration_s=setting.whole_s,
            ends_with="failures",
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `failures`, 0 or 1 (it ends with the first), and, without one, per CPU how often it `switches`.

        Raises:
            ParseError: it could not be set up, was stopped, or its output is missing, damaged, or contradicts itself.
        """
        failure = _BROKEN.search(output.text("tool.err"))
        check_end("switchtest", output, codes=(1,) if failure else (0,))
        if failure:
            return (count("failures", 1, Better.LOWER),)
        switches = _switches(output.text("tool.out"))
        _check_switches(switches, output)
        return (
            count("failures", 0, Better.LOWER),
            *(count("switches", number, Better.HIGHER, {"cpu": cpu}) for cpu, number in switches.items()),
        )


def _switches(text: str) -> dict[str, int]:
    """Return the context switches by CPU; without SMP there is one, which has no number. Raises ParseError."""
    totals: dict[str, int] = {}
    for cpu, more, total in _SWITCHES.findall(text):
        name = str(int(cpu or "0"))
        if totals.get(name, 0) + int(more) != int(total):
            raise ParseError(f"switchtest's count on CPU {name} went from {totals.get(name, 0)} by {more} to {total}")
        totals[name] = int(total)
    return totals


def _check_switches(switches: Mapping[str, int], output: Output) -> None:
    threads = next((line for line in output.text("tool.out").splitlines() if line.startswith("== Threads:")), "")
    cpus = {str(int(cpu or "0")) for cpu in _SLEEPERS.findall(threads)}
    idle = sorted(cpu for cpu in cpus if not switches.get(cpu))
    if not cpus or idle or set(switches) != cpus:
        raise ParseError(f"switchtest counted no context switches on CPU {', '.join(idle) or '?'}: {output.message}")
