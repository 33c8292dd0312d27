# SPDX-License-Identifier: MIT
"""cyclictest: how late a periodic real-time thread wakes up, per CPU.

Facts of rt-tests 2.4 to 2.10 that this module depends on: cyclictest's JSON (`rt_write_json` in src/lib/rt-utils.c)
does not escape strings, writes `-nan` as the average of no samples, has keys that end in a colon, and leaves out
histogram overflows: they are the cycles minus the sum of the buckets. Its exit code is 0 even when a break value
stopped the run, and when a signal did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.measurement import Better, Measurement
from rtgate.threads import SCHED_FIFO, Seen, Threads
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.rt_tests import Document, document, ended
from rtgate.units import Unit

JSON = "cyclictest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclictest(Tool):
    """Options of cyclictest.

    Attributes:
        interval_us: period of each thread.
        priority: SCHED_FIFO priority of all threads (cyclictest gives each the same).
        range_us: values from here on are counted as overflow.
        virtual_range_us: the same on virtual time, where each bucket is a nanosecond and costs time to print.
    """

    interval_us: int = 1000
    priority: int = 99
    range_us: int = 1000
    virtual_range_us: int = 150

    name: ClassVar[str] = "cyclictest"
    confined: ClassVar[bool] = True
    suites: ClassVar[tuple[str, ...]] = ("latency", "nvme")
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        "latency.min": Reports.TIME,
        "latency.avg": Reports.TIME,
        "latency.max": Reports.TIME,
        "wakeups": Reports.COUNT,
        "wakeups.lost": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, bound to it, memory locked.

        `--histogram` makes the intervals equal. Its text form goes nowhere: the JSON has what is in it, and both would
        take almost twice as long on a serial line.

        On virtual time nanoseconds are exact (an instruction takes 8), so the histogram has one bucket each.
        """
        exact = (f"--histogram={self.virtual_range_us * 1000}", "--histfile=/dev/null", "--nsecs")
        coarse = (f"--histogram={self.range_us}", "--histfile=/dev/null")
        return (
            *("cyclictest", "--quiet", "--mlockall", f"--priority={self.priority}"),
            *(f"--threads={setting.cpus}", _affinity(setting), f"--interval={self.interval_us}"),
            *(f"--duration={math.ceil(setting.duration_s)}", f"--json={JSON}"),
            *(exact if setting.virtual_time else coarse),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        return Expected(
            threads=(Threads(count=setting.cpus, policy=SCHED_FIFO, priority=self.priority),),
            duration_s=math.ceil(setting.duration_s),
            seen=Seen.OWN,
            interval_us=self.interval_us,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `wakeups.lost`.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        ended("cyclictest", output)
        if "# Break value:" in output.text("tool.out"):
            raise ParseError("cyclictest broke off at its break value: the run is not complete")
        found = document("cyclictest", output.text(JSON))
        nanoseconds = found.integer("resolution_in_ns") == 1
        reader = _Threads(
            unit=_unit(nanoseconds, output.setting), limit=self._limit(nanoseconds, output.setting), tool=self
        )
        threads = found.numbered("thread").values()
        cpus = [thread.integer("cpu") for thread in threads]
        if len(set(cpus)) != len(cpus):
            raise ParseError(f"cyclictest had threads on the CPUs {', '.join(map(str, cpus))}, not one on each")
        return tuple(measurement for thread in threads for measurement in reader.read(thread, output.setting))

    def _limit(self, nanoseconds: bool, setting: Setting) -> int:  # noqa: FBT001 - the JSON's own flag
        microseconds = self.virtual_range_us if setting.virtual_time else self.range_us
        return microseconds * (1000 if nanoseconds else 1)


@dataclass(frozen=True, slots=True)
class _Threads:
    """Reads the `thread` objects of one document, which share unit and histogram range."""

    unit: Unit
    limit: int
    tool: Cyclictest

    def read(self, thread: Document, setting: Setting) -> tuple[Measurement, ...]:
        cycles = thread.integer("cycles")
        if cycles <= 0:
            raise ParseError("cyclictest reports a thread that never woke up (0 cycles)")
        labels = {"cpu": str(thread.integer("cpu"))}
        histogram = thread.histogram(self.unit, self.limit)
        low, high, mean = thread.integer("min"), thread.integer("max"), thread.number("avg")
        if not low <= mean <= high:
            raise ParseError(f"cyclictest's minimum {low}, average {mean} and maximum {high} contradict each other")
        asked = int(math.ceil(setting.duration_s) * 1_000_000 / self.tool.interval_us)
        numbers = (("latency.min", low), ("latency.avg", mean), ("latency.max", high))
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            *(time(name, value, self.unit, labels) for name, value in numbers),
            count("wakeups", cycles, Better.NEITHER, labels),
            count("wakeups.lost", max(0, asked - cycles), Better.LOWER, labels),
        )


def _affinity(setting: Setting) -> str:
    return f"--affinity={setting.cpu_list}" if setting.cpu_list else "--affinity"


def _unit(nanoseconds: bool, setting: Setting) -> Unit:  # noqa: FBT001 - the JSON's own flag
    if setting.virtual_time:
        return Unit.VIRTUAL_NS if nanoseconds else Unit.VIRTUAL_US
    return Unit.NS if nanoseconds else Unit.US
