# SPDX-License-Identifier: MIT
"""signaltest: how long a signal takes to go round a ring of real-time threads.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/signaltest/signaltest.c):

* Thread 0 signals thread 1, and so on, and the last one thread 0. Each thread measures from its sending to its next
  receiving, in whole microseconds.
* Thread 0 sleeps for 10 ms after every 16 rounds, and leaves that out of what it measures. All others have it in
  theirs: only the numbers of thread 0 are those of a signal.
* The JSON gives thread 0's CPU as the CPU of every thread.
* The exit code is 0 after a trace limit and after a signal, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import tuning
from rtgate.errors import ConfigError, NoWakeupsError, ParseError
from rtgate.tools import (
    Count,
    Expected,
    Output,
    Reports,
    Setting,
    Tool,
    count,
    kept_on,
    time_figures,
    times_reported,
)
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope

JSON = "signaltest.json"
_FIRST = 0
_ROUNDS_PER_S = 1600  # that the sleeps of thread 0 allow: 10 ms after every 16
_LEAST_PER_S = 160  # how long the rounds take is what is measured, and on boards that run CPUs in turns they are long


@dataclass(frozen=True, slots=True, kw_only=True)
class Signaltest(Tool):
    """Options of signaltest.

    Attributes:
        priority: SCHED_FIFO priority of all threads (signaltest gives each the same).
        threads: how many threads are in the ring; 0 for one per CPU, two on one CPU.
        affinity: ask for each thread on its CPU. signaltest does so unasked, within the CPUs that it may use.
        mlock: lock the memory.
        loops: rounds that end the run, if the profile's duration does not end it before; 0 for the duration.
        taskset: the CPUs that the whole ring is kept on, like `2`; empty for all.
    """

    priority: int = 99
    threads: int = 0
    affinity: bool = True
    mlock: bool = True
    loops: int = 0
    taskset: str = ""

    def __post_init__(self) -> None:
        """Check what is text. Raises ConfigError."""
        if self.taskset and not tuning.is_cpu_list(self.taskset):
            raise ConfigError(f"taskset of signaltest is {self.taskset!r} (allowed: a list of CPUs like 0,2-3)")

    name: ClassVar[str] = "signaltest"
    suites: ClassVar[tuple[str, ...]] = ("signal",)
    reports: ClassVar[Mapping[str, Reports]] = {
        **times_reported("roundtrip"),
        "samples": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a ring with one thread per CPU, bound to it, memory locked."""
        return (
            *kept_on(self.taskset),
            *("signaltest", "--quiet", *(("--mlockall",) if self.mlock else ()), f"--priority={self.priority}"),
            *(f"--threads={self._threads(setting)}", *(("--affinity",) if self.affinity else ())),
            *((f"--loops={self.loops}",) if self.loops else ()),
            *((f"--duration={setting.whole_s}",) if setting.ends_by_time(self._loops_s) else ()),
            f"--json={JSON}",
        )

    @property
    def _loops_s(self) -> float:
        """How long the loops take at least: their share of the sleeps; 0 without a number of them."""
        return self.loops / _ROUNDS_PER_S

    def _threads(self, setting: Setting) -> int:
        """Return how many threads are in the ring: two on one CPU, since signaltest wants two."""
        return self.threads or max(2, setting.cpus)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs.

        The sleeps alone allow nearly 1600 rounds per second. A tenth is asked for, and waited for where their number is
        given.
        """
        seconds, by_time = setting.run_s(self._loops_s), setting.ends_by_time(self._loops_s)
        # The ring stands still when its first thread has all its rounds; the others may lack one.
        least = _LEAST_PER_S * seconds if by_time else self.loops - 1
        return Expected(
            threads=(Threads(count=self._threads(setting), policy=SCHED_FIFO, priority=self.priority),),
            duration_s=seconds,
            work_s=0 if by_time else self.loops / _LEAST_PER_S,
            seen=ThreadScope.OWN,
            counts=(Count(measurement="samples", least=least),),
            cpus=tuning.cpus(self.taskset) if self.taskset else (),
            processors=min(self._threads(setting), setting.cpus) if self.affinity and not self.taskset else 0,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `roundtrip.min`, `.avg`, `.max` of thread 0, and `samples` of every thread.

        Raises:
            ParseError: it failed, was stopped, a thread was never signalled, or its JSON is missing, damaged, or
                contradicts itself.
        """
        check_end("signaltest", output)
        if "exceeded trace limit" in output.text("tool.out"):
            raise ParseError("signaltest broke off at its trace limit: the run is not complete")
        if "Could not set CPU affinity" in output.text("tool.err"):
            raise ParseError(f"signaltest's threads are not bound: {output.text('tool.err').strip()[:300]}")
        report = document("signaltest", output.text(JSON))
        threads = report.numbered_objects("thread", self._threads(output.setting))
        samples = tuple(_samples(number, thread) for number, thread in threads.items())
        return (*_roundtrip(threads[_FIRST], output), *samples)


def _roundtrip(thread: Document, output: Output) -> tuple[Measurement, ...]:
    return time_figures("roundtrip", thread.figures(), output.microsecond, {"thread": str(_FIRST)})


def _samples(number: int, thread: Document) -> Measurement:
    cycles = thread.integer("cycles")
    if cycles <= 0:
        raise NoWakeupsError(f"signaltest's thread {number} was never signalled (0 cycles)")
    return count("samples", cycles, Better.NEITHER, {"thread": str(number)})
