# SPDX-License-Identifier: MIT
"""cyclictest: how late a periodic real-time thread wakes up, per CPU.

Facts of rt-tests 2.4 to 2.10 that this module depends on: cyclictest's JSON (`rt_write_json` in src/lib/rt-utils.c)
does not escape strings, writes `-nan` as the average of no samples, has keys that end in a colon, and leaves out
histogram overflows: they are the cycles minus the sum of the buckets. Its exit code is 0 even when a break value
stopped the run, when a signal did, and after a wrong option. `-n` of older versions is one: since 2.0 it sleeps with
clock_nanosleep unless told otherwise. When one thread has its `--loops`, all end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import tuning
from rtgate.errors import ConfigError, NoWakeupsError, ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, kept_on, time_figures, times_reported
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.periods import DISTANCE_US, Periods
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, SCHED_RR, Threads, ThreadScope
from rtgate.units import Unit

JSON = "cyclictest.json"
_AFFINITIES = ("each", "none")
_CLOCKS = ("monotonic", "realtime")  # by cyclictest's numbers
_NOWHERE = -1  # the CPU of a thread that is not bound, as its JSON has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclictest(Tool):
    """Options of cyclictest.

    Attributes:
        interval_us: period of each thread, of the first one without a histogram.
        priority: SCHED_FIFO priority of all threads (cyclictest gives each the same).
        range_us: values from here on are counted as overflow; 0 for no histogram.
        virtual_range_us: the same on virtual time, where each bucket is a nanosecond and costs time to print; 0 for
            what other boards are asked for, in microseconds.
        threads: how many; 0 for one per CPU.
        affinity: `each` for thread N on CPU N, `none` to leave it to cyclictest, which did the same in 2.4, and binds
            none in 2.10; or a list of CPUs.
        distance_us: how much longer the period of each further thread is; a histogram makes all equal.
        loops: wake-ups of a thread that end the run, if the profile's duration does not end it before; 0 for the
            duration.
        clock: `monotonic` or `realtime`, which is the wall clock; empty for the default, `monotonic`.
        policy: `fifo` or `rr`; empty for the default, `fifo`.
        smp: ask for a thread on each CPU with `--smp`.
        mlock: lock the memory.
        taskset: the CPUs that the whole program is kept on, like `2`; empty for all.
    """

    interval_us: int = 1000
    priority: int = 99
    range_us: int = 1000
    virtual_range_us: int = 150
    threads: int = 0
    affinity: str = "each"
    distance_us: int = DISTANCE_US
    loops: int = 0
    clock: str = ""
    policy: str = ""
    smp: bool = False
    mlock: bool = True
    taskset: str = ""

    def __post_init__(self) -> None:
        """Check what is text. Raises ConfigError."""
        for name, choices in (("clock", ("", *_CLOCKS)), ("policy", ("", "fifo", "rr"))):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{name} of cyclictest is {getattr(self, name)!r} (allowed: {_format_words(choices)})"
                )
        for name, words in (("affinity", _AFFINITIES), ("taskset", ("",))):
            text = getattr(self, name)
            if text not in words and not tuning.is_cpu_list(text):
                raise ConfigError(
                    f"{name} of cyclictest is {text!r} (allowed: {_format_words(words)}, or a list of CPUs like 0,2-3)"
                )

    name: ClassVar[str] = "cyclictest"
    confined: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    suites: ClassVar[tuple[str, ...]] = ("latency", "nvme", "pcie")
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        **times_reported("latency"),
        "wakeups": Reports.COUNT,
        "wakeups.lost": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, bound to it, memory locked, unless the options say otherwise.

        `--histogram` makes the intervals equal. Its text form goes nowhere: the JSON has what is in it, and both would
        take almost twice as long on a serial line.

        On virtual time nanoseconds are exact (an instruction takes 8), so the histogram has one bucket each.
        """
        return (
            *kept_on(self.taskset),
            *("cyclictest", "--quiet", *(("--mlockall",) if self.mlock else ()), f"--priority={self.priority}"),
            *(("--smp",) if self.smp else (f"--threads={self._threads(setting)}", *self._affinity(setting))),
            f"--interval={self.interval_us}",
            *((f"--distance={self.distance_us}",) if self.distance_us != DISTANCE_US else ()),
            *((f"--clock={_CLOCKS.index(self.clock)}",) if self.clock else ()),
            *((f"--policy={self.policy}",) if self.policy else ()),
            *((f"--loops={self.loops}",) if self.loops else ()),
            *((f"--duration={setting.whole_s}",) if self._periods(setting).ends_by_time else ()),
            f"--json={JSON}",
            *self._histogram(setting),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs; without a histogram the wake-ups are counted."""
        periods, threads = self._periods(setting), self._threads(setting)
        policy = SCHED_RR if self.policy == "rr" else SCHED_FIFO
        return Expected(
            threads=(Threads(count=threads, policy=policy, priority=self.priority),),
            duration_s=periods.run_s,
            seen=ThreadScope.OWN,
            interval_us=self.interval_us if self._range(setting) else 0,
            counts=() if self._range(setting) else (periods.count(threads),),
            clock=self.clock == "realtime",
            cpus=tuning.cpus(self._places) if self._places else (),
            processors=self._processors(setting),
        )

    def _processors(self, setting: Setting) -> int:
        """Return on how many CPUs the threads are bound, each to one; 0 where cyclictest decides."""
        if self.taskset or (self.affinity == "none" and not self.smp):
            return 0
        listed = self.affinity not in _AFFINITIES and not self.smp
        return min(self._threads(setting), len(tuning.cpus(self.affinity)) if listed else setting.cpus)

    @property
    def _binds(self) -> bool:
        """Whether the options bind each thread to a CPU."""
        return self.smp or self.affinity != "none"

    @property
    def _places(self) -> str:
        """The CPUs that the options name; empty for none."""
        return self.taskset if self.affinity in _AFFINITIES else self.affinity

    def _threads(self, setting: Setting) -> int:
        return setting.cpus if self.smp else self.threads or setting.cpus

    def _affinity(self, setting: Setting) -> tuple[str, ...]:
        if self.affinity == "none":
            return ()
        cpu_list = setting.cpu_list if self.affinity == "each" else self.affinity
        return (f"--affinity={cpu_list}" if cpu_list else "--affinity",)

    def _histogram(self, setting: Setting) -> tuple[str, ...]:
        if setting.virtual_time and self.virtual_range_us:
            return (f"--histogram={self.virtual_range_us * 1000}", "--histfile=/dev/null", "--nsecs")
        return (f"--histogram={self.range_us}", "--histfile=/dev/null") if self.range_us else ()

    def _range(self, setting: Setting) -> int:
        """Return the histogram's range in microseconds; 0 for no histogram."""
        return self.virtual_range_us or self.range_us if setting.virtual_time else self.range_us

    def _periods(self, setting: Setting) -> Periods:
        distance_us = 0 if self._range(setting) else self.distance_us
        return Periods(interval_us=self.interval_us, distance_us=distance_us, loops=self.loops, setting=setting)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency` (histogram), `latency.min`, `.avg`, `.max`, `wakeups`, `wakeups.lost`.

        Without a histogram there is no `latency`. Threads that share CPUs are told apart by their number, too; those
        that are not bound by nothing else.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself.
        """
        check_end("cyclictest", output)
        report = document("cyclictest", output.text(JSON))
        nanoseconds = report.integer("resolution_in_ns") == 1
        threads = report.numbered_objects("thread", self._threads(output.setting))
        cpus = [cpu for thread in threads.values() if (cpu := thread.integer("cpu")) != _NOWHERE or self._binds]
        places = len(tuning.cpus(self._places)) if self._places else output.setting.cpus
        shared = self._threads(output.setting) > places
        if _NOWHERE in cpus or (len(set(cpus)) != len(cpus) and not shared):
            raise ParseError(f"cyclictest had threads on the CPUs {', '.join(map(str, cpus))}, not one on each")
        reader = _Threads(
            unit=output.nanosecond if nanoseconds else output.microsecond,
            limit=self._range(output.setting) * (1000 if nanoseconds else 1),
            shared=shared,
        )
        periods = self._periods(output.setting)
        return tuple(
            measurement
            for number, thread in threads.items()
            for measurement in reader.read(thread, number, periods.wakeups(number))
        )


@dataclass(frozen=True, slots=True)
class _Threads:
    """Reads the `thread` objects of one document, which share unit and histogram range."""

    unit: Unit
    limit: int
    shared: bool

    def read(self, thread: Document, number: int, due: int) -> tuple[Measurement, ...]:
        cycles = thread.integer("cycles")
        if cycles <= 0:
            raise NoWakeupsError(f"cyclictest reports a thread that never woke up (0 of {due} cycles)")
        cpu = thread.integer("cpu")
        cpu_label = {"cpu": str(cpu)} if cpu != _NOWHERE else {}
        labels = {**cpu_label, **({"thread": str(number)} if self.shared or not cpu_label else {})}
        return (
            *(self._distribution(thread, labels) if self.limit else ()),
            *time_figures("latency", thread.figures(), self.unit, labels),
            count("wakeups", cycles, Better.NEITHER, labels),
            count("wakeups.lost", max(0, due - cycles), Better.LOWER, labels),
        )

    def _distribution(self, thread: Document, labels: Mapping[str, str]) -> tuple[Measurement]:
        histogram = thread.histogram(self.unit, self.limit)
        return (Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),)


def _format_words(words: tuple[str, ...]) -> str:
    return ", ".join(word or "nothing" for word in words)
