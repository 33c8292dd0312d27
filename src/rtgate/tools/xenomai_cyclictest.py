# SPDX-License-Identifier: MIT
"""The cyclictest that comes with Xenomai 3: how late a periodic thread of its Cobalt core wakes up, per CPU.

Facts of Xenomai 3.0 to 3.3 (demo/posix/cyclictest/cyclictest.c): it is an old cyclictest, without JSON, that still
takes `-n`. It prints the line of each thread at the end, and with a histogram what belongs to it instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import tuning
from rtgate.board.tuning import Write
from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time_figures
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.periods import DISTANCE_US, Periods
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_FIFO, Threads
from rtgate.tools.xenomai import COBALT, ON_TIME, REPORTS, WHOLE, latencies

# It is a demonstration in Xenomai; Rockchip's images have it elsewhere. Nowhere else: only one that is linked with
# Cobalt's library measures Cobalt.
_PATH = "PATH=/usr/xenomai/demo:/usr/demo"
_DEMOS = ("env", _PATH)
_LINKED = Need(
    test=f'grep -qi cobalt "$({_PATH} command -v cyclictest)"',
    reason="its cyclictest is not there, or not linked with Cobalt's library: it would measure Linux",
)
_ROW = re.compile(rf"^({WHOLE}) ((?:{WHOLE}\t)*{WHOLE})$", re.MULTILINE)
_SUMMARY = re.compile(
    rf"^T: ?(?P<thread>[0-9]{{1,4}}) \( *[0-9]+\) P: ?[0-9]+ I:[0-9]+ C: *(?P<cycles>{WHOLE}) Min: *(?P<min>{WHOLE}) "
    rf"Act: *{WHOLE} Avg: *(?P<avg>{WHOLE}) Max: *(?P<max>{WHOLE}) *$",
    re.MULTILINE,
)
_LINES = ("Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows")
_LINE = re.compile(rf"^# ({'|'.join(_LINES)}):((?: [0-9]{{1,20}})+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiCyclictest(Tool):
    """Options of the cyclictest that comes with Xenomai, an old one without JSON.

    Attributes:
        interval_us: period of each thread.
        priority: SCHED_FIFO priority of all threads.
        range_us: values from here on are counted as overflow; 0 for no histogram.
        threads: how many; 0 for one per CPU.
        affinity: `each` for thread N on CPU N, `none` for no binding, or one CPU for all.
        distance_us: how much longer the period of each further thread is; a histogram makes all equal.
        loops: wake-ups of a thread that end the run, if the profile's duration does not end it before; 0 for the
            duration.
        clock: `monotonic`, or empty for the default, which is the same.
    """

    interval_us: int = 1000
    priority: int = 99
    range_us: int = 1000
    threads: int = 0
    affinity: str = "each"
    distance_us: int = DISTANCE_US
    loops: int = 0
    clock: str = ""

    def __post_init__(self) -> None:
        """Check what is text. Raises ConfigError."""
        if self.clock not in {"", "monotonic"}:
            raise ConfigError(f"clock of xenomai-cyclictest is {self.clock!r} (allowed: nothing, monotonic)")
        if self.affinity not in {"each", "none"} and not self.affinity.isdecimal():
            raise ConfigError(f"affinity of xenomai-cyclictest is {self.affinity!r} (allowed: each, none, a CPU)")

    name: ClassVar[str] = "xenomai-cyclictest"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    needs: ClassVar[tuple[Need, ...]] = (*COBALT, _LINKED)
    writes: ClassVar[tuple[Write, ...]] = ON_TIME
    reports: ClassVar[Mapping[str, Reports]] = REPORTS | {"wakeups.lost": Reports.COUNT}

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, bound to it; the histogram makes their intervals equal."""
        return (
            *(*_DEMOS, "cyclictest", "-q", "-m", "-n", f"-p{self.priority}", f"-t{self._threads(setting)}"),
            *{"each": ("-a",), "none": ()}.get(self.affinity, (f"-a{self.affinity}",)),
            *(*(("-c0",) if self.clock else ()), f"-i{self.interval_us}"),
            *((f"-d{self.distance_us}",) if self.distance_us != DISTANCE_US else ()),
            *((f"-h{self.range_us}",) if self.range_us else ()),
            *((f"-l{self.loops}",) if self.loops else ()),
            *((f"-D{setting.whole_s}",) if self._periods(setting).ends_by_time else ()),
        )

    def _threads(self, setting: Setting) -> int:
        return self.threads or setting.cpus

    def _periods(self, setting: Setting) -> Periods:
        distance_us = 0 if self.range_us else self.distance_us
        return Periods(interval_us=self.interval_us, distance_us=distance_us, loops=self.loops, setting=setting)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs; without a histogram the wake-ups are counted."""
        periods, threads = self._periods(setting), self._threads(setting)
        return Expected(
            threads=(Threads(count=threads, policy=SCHED_FIFO, priority=self.priority),),
            duration_s=periods.run_s,
            interval_us=self.interval_us if self.range_us else 0,
            counts=() if self.range_us else (periods.count(threads),),
            cpus=tuning.cpus(self.affinity) if self.affinity.isdecimal() else (),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `wakeups.lost`.

        Without a histogram there is no `latency`. Threads that are not bound are told apart by their number.

        Raises:
            ParseError: it failed, was stopped, or its output is missing, damaged, or contradicts itself.
        """
        check_end("Xenomai's cyclictest", output)
        text = output.text("tool.out")
        thread_count = self._threads(output.setting)
        return (
            self._histograms(text, thread_count, output)
            if self.range_us
            else self._summaries(text, thread_count, output)
        )

    def _histograms(self, text: str, thread_count: int, output: Output) -> tuple[Measurement, ...]:
        lines = {name: [int(word) for word in values.split()] for name, values in _LINE.findall(text)}
        rows = [(int(value), [int(word) for word in counts.split("\t")]) for value, counts in _ROW.findall(text)]
        widths = {len(values) for values in (*lines.values(), *(counts for _, counts in rows))}
        if set(lines) != set(_LINES) or [value for value, _ in rows] != list(range(self.range_us)):
            raise ParseError(f"Xenomai's cyclictest printed no whole histogram: {output.message}")
        if widths != {thread_count}:
            raise ParseError(f"Xenomai's cyclictest measured with {widths} threads, not {thread_count}")
        measurements: list[Measurement] = []
        for cpu in range(thread_count):
            counts = {value: row[cpu] for value, row in rows if row[cpu]}
            measurements += self._thread(cpu, counts, [lines[name][cpu] for name in _LINES], output)
        return tuple(measurements)

    def _summaries(self, text: str, thread_count: int, output: Output) -> tuple[Measurement, ...]:
        """Return what stands in the last line of each thread, which a run without a histogram leaves."""
        lines = {int(line["thread"]): line for line in _SUMMARY.finditer(text)}
        if list(lines) != list(range(thread_count)):
            raise ParseError(
                f"Xenomai's cyclictest printed no line for each of {thread_count} threads: {output.message}"
            )
        return tuple(
            measurement for number, line in lines.items() for measurement in self._summary(number, line, output)
        )

    def _summary(self, number: int, line: re.Match[str], output: Output) -> tuple[Measurement, ...]:
        cycles, low, mean, high = (int(line[name]) for name in ("cycles", "min", "avg", "max"))
        if cycles <= 0 or not low <= mean <= high < 2**63:
            raise ParseError(f"Xenomai's cyclictest contradicts itself: {line[0]}")
        labels = {"cpu": str(number)} if self.affinity == "each" else {"thread": str(number)}
        return (
            *time_figures("latency", (low, mean, high), output.microsecond, labels),
            count("wakeups", cycles, Better.NEITHER, labels),
            self._lost_wakeups(number, cycles, labels, output),
        )

    def _thread(self, cpu: int, counts: dict[int, int], numbers: list[int], output: Output) -> tuple[Measurement, ...]:
        inside, low, mean, high, overflow = numbers
        if max(numbers) >= 2**63:
            raise ParseError("Xenomai's cyclictest woke up too early: /proc/xenomai/latency was not 0")
        histogram = Histogram(unit=output.microsecond, counts=counts, overflow=overflow, limit=self.range_us)
        top = max(counts, default=-1) if overflow == 0 else max(high, self.range_us)
        if inside != sum(counts.values()) or not low <= mean <= high == top:
            raise ParseError(
                f"Xenomai's cyclictest contradicts itself on CPU {cpu}: {sum(counts.values())} of {inside} samples and "
                f"{overflow} beyond {self.range_us} us, minimum {low}, average {mean}, maximum {high}"
            )
        labels = {"cpu": str(cpu)} if self.affinity == "each" else {"thread": str(cpu)}
        return (
            *latencies(histogram, (low, mean, high), labels),
            self._lost_wakeups(cpu, histogram.total, labels, output),
        )

    def _lost_wakeups(self, number: int, wakeups: int, labels: Mapping[str, str], output: Output) -> Measurement:
        losses = max(0, self._periods(output.setting).wakeups(number) - wakeups)
        return count("wakeups.lost", losses, Better.LOWER, labels)
