# SPDX-License-Identifier: MIT
"""cyclicdeadline: how late a SCHED_DEADLINE thread is given the CPU in each of its periods.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/sched_deadline/cyclicdeadline.c):

* A thread's runtime is 60 % of its period as long as there are no more threads than CPUs. Below 2 ms of it the program
  wants the scheduler feature HRTICK_DL in debugfs, which kernels without CONFIG_SCHED_DEBUG do not have.
* Each thread runs once while the program sets itself up. That run is among the cycles and in the histogram.
* A minimum of 0 counts as not yet set, so the next sample replaces it: the minimum may be above the average. The
  histogram knows better.
* A thread that could not become SCHED_DEADLINE is only warned about: the JSON then holds the set-up run alone, with
  latencies near 0, and the exit code is 0. It is 0 after a break value and after a signal, too.
* The histogram came with 2.7. Its overflows are not in the JSON: they are the cycles minus the sum of the buckets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.periods import Periods
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_DEADLINE, Threads, ThreadScope

JSON = "cyclicdeadline.json"
_FAILED = re.compile(r"Thread [0-9]+ failed:")
_SETUP_CYCLES = 1
_RUNTIME_PERCENT = 60
LEAST_RUNTIME_US = 2000
_HISTOGRAM = Need(
    test="cyclicdeadline --help 2>&1 | grep -q -e --histogram",
    reason="needs cyclicdeadline with --histogram (rt-tests 2.7 or newer)",
)
# Both deadline tools write HRTICK_DL into the file, which a kernel has below one of two names (kernel/sched/debug.c).
HRTICK = Need(
    test="grep -qs HRTICK_DL /sys/kernel/debug/sched/features /sys/kernel/debug/sched_features",
    reason="runs of less than 2 ms need the scheduler feature HRTICK_DL in debugfs (CONFIG_SCHED_DEBUG)",
    file_system="debugfs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclicdeadline(Tool):
    """Options of cyclicdeadline.

    Attributes:
        interval_us: period and deadline of the first thread; below 3334 us the program needs HRTICK_DL.
        range_us: values from here on are counted as overflow; 0 for no histogram, for rt-tests before 2.7.
        threads: how many; 0 for one per CPU.
        step_us: how much longer the period of each further thread is.
    """

    interval_us: int = 4000
    range_us: int = 1000
    threads: int = 0
    step_us: int = 0

    name: ClassVar[str] = "cyclicdeadline"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        **times_reported("latency"),
        "wakeups": Reports.COUNT,
        "wakeups.lost": Reports.COUNT,
    }

    def required(self) -> tuple[Need, ...]:
        """Return what the target must have: `--histogram` if it is used, and HRTICK_DL for short runs."""
        short = self.interval_us * _RUNTIME_PERCENT // 100 < LEAST_RUNTIME_US
        return (*((_HISTOGRAM,) if self.range_us else ()), *((HRTICK,) if short else ()))

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, all with the same period, bound to no CPU, unless told.

        The text form of the histogram goes nowhere; the JSON has what is in it.
        """
        histogram = (f"--histogram={self.range_us}", "--histfile=/dev/null") if self.range_us else ()
        return (
            *("cyclicdeadline", "--quiet", f"--threads={self._threads(setting)}", f"--interval={self.interval_us}"),
            *(f"--step={self.step_us}", f"--duration={setting.whole_s}", f"--json={JSON}"),
            *histogram,
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs; without a histogram, or a common period, the wake-ups are counted."""
        counts = (self._periods(setting).count(self._threads(setting)),)
        alike = self.range_us and (not self.step_us or self._threads(setting) == 1)
        return Expected(
            threads=(Threads(count=self._threads(setting), policy=SCHED_DEADLINE, priority=0),),
            duration_s=setting.whole_s,
            seen=ThreadScope.OWN,
            interval_us=self.interval_us if alike else 0,
            counts=() if alike else counts,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per thread: `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `wakeups.lost`.

        Without a histogram there is neither `latency` nor `latency.min`.

        Raises:
            ParseError: it failed, was stopped, a thread did not run, or its JSON is missing, damaged, or contradicts
                itself.
        """
        check_end("cyclicdeadline", output)
        message = output.text("tool.err")
        if _FAILED.search(message):  # the exit code is 0 all the same
            raise ParseError(f"cyclicdeadline did not measure: {message.strip()[:300]}")
        report = document("cyclicdeadline", output.text(JSON))
        if report.integer("resolution_in_ns") != 0:
            raise ParseError("cyclicdeadline's JSON is not in microseconds")
        threads = report.numbered_objects("thread", self._threads(output.setting))
        return tuple(
            measurement for number, thread in threads.items() for measurement in self._thread(number, thread, output)
        )

    def _threads(self, setting: Setting) -> int:
        return self.threads or setting.cpus

    def _periods(self, setting: Setting) -> Periods:
        return Periods(interval_us=self.interval_us, distance_us=self.step_us, loops=0, setting=setting)

    def _thread(self, number: int, thread: Document, output: Output) -> tuple[Measurement, ...]:
        wakeups = thread.integer("cycles") - _SETUP_CYCLES
        if wakeups <= 0:
            raise ParseError(f"cyclicdeadline's thread {number} never ran in a period of its own")
        unit, labels, due = output.microsecond, {"thread": str(number)}, self._periods(output.setting).wakeups(number)
        high, mean = thread.integer("max"), thread.number("avg")
        if not 0 <= mean <= high:
            raise ParseError(f"cyclicdeadline's average {mean} and maximum {high} contradict each other")
        return (
            *(self._distribution(thread, output, labels) if self.range_us else ()),
            time("latency.avg", mean, unit, labels),
            time("latency.max", high, unit, labels),
            count("wakeups", wakeups, Better.NEITHER, labels),
            count("wakeups.lost", max(0, due - wakeups), Better.LOWER, labels),
        )

    def _distribution(self, thread: Document, output: Output, labels: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Return the histogram and the minimum."""
        histogram = self._histogram(thread, output)
        values = [value for value, samples in histogram.counts.items() if samples]
        low, high = min(values, default=thread.integer("min")), thread.integer("max")
        agree = high >= histogram.limit if histogram.overflow else high == max(values)
        if not agree:
            raise ParseError(f"cyclicdeadline's maximum {high} and its histogram contradict each other")
        if low > thread.number("avg"):
            raise ParseError(f"cyclicdeadline's minimum {low} and average {thread.number('avg')} contradict each other")
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            time("latency.min", low, histogram.unit, labels),
        )

    def _histogram(self, thread: Document, output: Output) -> Histogram:
        if "histogram" not in thread:
            raise ParseError("cyclicdeadline wrote no histogram: rt-tests before 2.7 has none (range_us=0)")
        return thread.histogram(output.microsecond, self.range_us)
