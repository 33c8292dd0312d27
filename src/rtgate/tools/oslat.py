# SPDX-License-Identifier: MIT
"""oslat: for how long does anything interrupt a program that never sleeps? Measured per CPU by a busy loop.

Each sample is the time from one reading of the CPU's counter to the next, which is a fraction of a microsecond unless
something came in between: an interrupt, a thread of the kernel, another program.

On a board with several CPUs the first one is not measured: oslat's main thread, the plan and all that is not bound live
there. On a single CPU there is no such place, and this is what was found on an emulated one with Linux 6.12
PREEMPT_RT: a loop with a real-time priority keeps the timer of oslat's own end from being served, which runs in a
SCHED_FIFO 1 thread, so that 1 s becomes 1.95 s, and everything else gets its turn by the fair server only. So the loop
runs there as SCHED_OTHER. What wakes up beside it is measured too, so the plan looks at it only in the first half of
the second that oslat runs to get warm: looked at later, its maximum was that of the plan's shell.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/oslat/oslat.c):

* It runs for one second more than asked for, before it measures.
* A bucket's key is its upper end in whole microseconds: 1 holds what took less than 1 us. The last bucket holds
  everything beyond, too, and the JSON does not say so.
* The minimum and the maximum are rounded up to whole microseconds until 2.4, and down since 2.5.
* The average of every thread holds the overflow of the first one. It is not read here.
* The counter's frequency is cut to whole MHz: at 62.5 MHz all times come out 0.8 % too long.
* An architecture without a known counter gets a notice and exit code 0; a trace limit (not used here) exit code 1 and
  no JSON; a signal exit code 0 and a shorter `duration`.
* Without CONFIG_NUMA in the kernel it refuses to run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import tuning
from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, SCHED_OTHER, Threads
from rtgate.units import Unit

JSON = "oslat.json"
_WARM_S = 1
_SHORT_S = 2  # a busy loop on virtual time costs the host more than an idle board
_TOLERANCE = 0.01  # of the duration: the counter's frequency is cut, and the threads start within a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Oslat(Tool):
    """Options of oslat.

    Attributes:
        priority: SCHED_FIFO priority of the loops, if there is more than one CPU. 1 lets every other real-time thread
            interrupt them, so that it is seen; 0 for none.
        buckets: microseconds that the histogram covers; the last one is for all that took longer. 5 to 1024.
        everywhere: measure on the first CPU, too, which the main thread then shares.
        least_s: the shortest run, in seconds.
    """

    priority: int = 1
    buckets: int = 1000
    everywhere: bool = False
    least_s: int = _SHORT_S

    name: ClassVar[str] = "oslat"
    confined: ClassVar[bool] = True
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"priority": (0, 99), "buckets": (5, 1024)}
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        "latency.min": Reports.TIME,
        "latency.max": Reports.TIME,
        "samples": Reports.COUNT,
    }
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test="[ -d /sys/devices/system/node ]", reason="needs a kernel with CONFIG_NUMA: oslat's library asks it"),
    )

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a loop on each measured CPU, memory locked (oslat does that unasked)."""
        cpus = self._cpus(setting)
        return (
            *("oslat", "--quiet", "--zero-omit", f"--bucket-size={self.buckets}"),
            *(f"--cpu-list={','.join(map(str, cpus))}", f"--cpu-main-thread={_main_cpu(cpus, setting)}"),
            *(() if _is_alone(setting) or not self.priority else (f"--rtprio={self.priority}",)),
            *(f"--duration={self._seconds(setting)}", f"--json={JSON}"),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs; on a single CPU, while it gets warm."""
        if _is_alone(setting):
            return Expected(threads=(), duration_s=_WARM_S / 2)
        policy = SCHED_FIFO if self.priority else SCHED_OTHER
        return Expected(
            threads=(Threads(count=len(self._cpus(setting)), policy=policy, priority=self.priority),),
            duration_s=_WARM_S + self._seconds(setting),
            processors=len(self._cpus(setting)) if self.priority else 0,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency` (histogram), `latency.min`, `latency.max`, `samples`.

        Raises:
            ParseError: it failed, was stopped, does not know the CPU, measured for too short a time or on other CPUs,
                or its JSON is missing, damaged, or contradicts itself.
        """
        check_end("oslat", output)
        if "not yet supported" in output.text("tool.out"):
            raise ParseError(f"oslat does not know this CPU: {output.text('tool.out').strip()[:300]}")
        threads = document("oslat", output.text(JSON)).numbered_objects("thread")
        cpus = [thread.integer("cpu") for thread in threads.values()]
        if cpus != list(self._cpus(output.setting)):
            raise ParseError(f"oslat measured on the CPUs {cpus}, not on {list(self._cpus(output.setting))}")
        return tuple(measurement for thread in threads.values() for measurement in self._thread(thread, output))

    def _cpus(self, setting: Setting) -> tuple[int, ...]:
        """Return the CPUs to measure on."""
        if setting.cpu_list:
            return tuning.cpus(setting.cpu_list)
        return tuple(range(0 if _is_alone(setting) or self.everywhere else 1, setting.cpus))

    def _seconds(self, setting: Setting) -> int:
        short = setting.virtual_time or _is_alone(setting)
        return max(self.least_s, math.ceil(min(setting.duration_s, _SHORT_S) if short else setting.duration_s))

    def _thread(self, thread: Document, output: Output) -> tuple[Measurement, ...]:
        seconds, duration = self._seconds(output.setting), thread.number("duration")
        if duration < seconds * (1 - _TOLERANCE):
            raise ParseError(f"oslat measured for {duration} s of the {seconds} s asked for")
        histogram = self._histogram(thread, output.microsecond)
        labels = {"cpu": str(thread.integer("cpu"))}
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            time("latency.min", thread.integer("min"), histogram.unit, labels),
            time("latency.max", thread.integer("max"), histogram.unit, labels),
            count("samples", histogram.total, Better.NEITHER, labels),
        )

    def _histogram(self, thread: Document, unit: Unit) -> Histogram:
        """Return the histogram by the lower ends of its buckets. Raises ParseError."""
        buckets = {upper: samples for upper, samples in thread.counts().items() if samples}
        if not buckets or min(buckets) < 1 or max(buckets) > self.buckets:
            raise ParseError(f"oslat's histogram is empty, or has other buckets than 1 to {self.buckets} us")
        for name, upper in (("min", min(buckets)), ("max", max(buckets))):
            value = thread.integer(name)
            # Rounded up or down; beyond the last bucket there is no upper end.
            if not (upper - 1 <= value <= upper or (upper == self.buckets and value > upper)):
                raise ParseError(f"oslat's {name} {value} contradicts its histogram, where it is below {upper} us")
        overflow = buckets.pop(self.buckets, 0)
        counts = {upper - 1: samples for upper, samples in buckets.items()}
        return Histogram(unit=unit, counts=counts, overflow=overflow, limit=self.buckets - 1)


def _is_alone(setting: Setting) -> bool:
    """Return whether there is no other CPU for all that is not measured."""
    return setting.cpus == 1 and not setting.cpu_list


def _main_cpu(cpus: tuple[int, ...], setting: Setting) -> int:
    """Return the CPU for the main thread: the first of the board that is not measured on; 0 if there is none."""
    return next((cpu for cpu in range(setting.board_cpus or setting.cpus) if cpu not in cpus), 0)
