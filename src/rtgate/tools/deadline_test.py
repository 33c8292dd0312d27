# SPDX-License-Identifier: MIT
"""deadline_test: do SCHED_DEADLINE threads that use half of their runtime meet every deadline?

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/sched_deadline/deadline_test.c):

* It measures for 10 s, whatever it is asked. It has no JSON.
* The exit code is 0 whatever was missed, and even if a thread failed; errors of the set-up give 255.
* A runtime below 2 ms needs the scheduler feature HRTICK_DL in debugfs, which kernels without CONFIG_SCHED_DEBUG do not
  have.
* First it counts, at SCHED_FIFO 99 on the last CPU, how many loops fill a time, and tries each thread's work once. That
  try is among the periods. If it takes too long, the program starts over, with longer deadlines than asked for and with
  the deadlines that the try missed still counted.
* Where debugfs is not mounted it takes its standard input for the trace marker: every period it writes to it, and
  2.10 prints an error if it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.cyclicdeadline import HRTICK, LEAST_RUNTIME_US
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_DEADLINE, Threads, ThreadScope

_SECONDS = 10
_SETUP_PERIODS = 1
_MOST_PERCENT = 90  # of a period that one thread's runtime may be
_THREAD = re.compile(
    r"^\[[0-9]+\]\n"
    r"missed deadlines  = (?P<deadlines>[0-9]{1,10})\n"
    r"missed periods    = (?P<periods>[0-9]{1,10})\n"
    r"Total adjustments = [0-9]+ us\n"
    r"(?:# adjustments = [0-9]+ avg: [0-9]+ us\n)?"
    r"deadline   : (?P<deadline>[0-9]{1,15}) us\n"
    r"runtime    : [0-9]+ us\n"
    r"nr_periods : (?P<tried>[0-9]{1,15})\n"
    r"max_time: (?P<max>[0-9]{1,15})us\tmin_time: (?P<min>[0-9]{1,15})us\tavg_time: (?P<avg>[0-9]{1,15})us\n"
    r"ctx switches vol:-?[0-9]+ nonvol:-?[0-9]+ migration:-?[0-9]+\n"
    r"highest prime: [0-9]+$",
    re.MULTILINE,
)
_TROUBLE = re.compile(r"(?:RT )?Thread (?:[0-9]+ )?failed: .*|Failed to perform task within runtime: .*")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineTest(Tool):
    """Options of deadline_test.

    The defaults keep every runtime at 2 ms or more, and leave room for a board whose CPUs differ in speed: the work is
    measured on the last CPU only.

    Attributes:
        interval_us: period and deadline of the first thread.
        step_us: how much longer the period of each further thread is.
        percent: how much of the CPUs' time all threads together may use.
        run_percent: how much of its runtime a thread uses.
        threads: how many; 0 for one per CPU, two on one CPU.
    """

    interval_us: int = 10_000
    step_us: int = 500
    percent: int = 50
    run_percent: int = 50
    threads: int = 0

    name: ClassVar[str] = "deadline_test"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    reports: ClassVar[Mapping[str, Reports]] = {
        "deadlines.missed": Reports.COUNT,
        "periods.missed": Reports.COUNT,
        "periods": Reports.COUNT,
        "runtime.min": Reports.TIME,
        "runtime.avg": Reports.TIME,
        "runtime.max": Reports.TIME,
    }

    def required(self) -> tuple[Need, ...]:
        """Return what the target must have: HRTICK_DL, if runs are short whatever the number of CPUs."""
        longest = self.interval_us * _MOST_PERCENT // 100
        return (HRTICK,) if longest < LEAST_RUNTIME_US else ()

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: one thread per CPU, two on one CPU, bound to no CPU.

        The shell gives it a standard input that it can write its trace markers to.
        """
        command = (
            f"exec deadline_test -t {self._threads(setting)} -i {self.interval_us} -s {self.step_us} "
            f"-p {self.percent} -P {self.run_percent} 0>/dev/null"
        )
        return ("sh", "-c", command)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        longest = self._deadline_us(self._threads(setting) - 1)
        return Expected(
            threads=(Threads(count=self._threads(setting), policy=SCHED_DEADLINE, priority=0),),
            duration_s=_SECONDS,
            seen=ThreadScope.OWN,
            counts=(Count(measurement="periods", least=0.95 * _SECONDS * 1_000_000 / longest),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per thread: `deadlines.missed`, `periods.missed`, `periods`, and `runtime.min`, `.avg`, `.max`.

        `periods` are those that came due: it ran in them, or missed them; a missed deadline takes the next one with it.

        Raises:
            ParseError: it could not be set up, was stopped, a thread failed, or its output is missing, damaged, or
                contradicts itself.
        """
        check_end("deadline_test", output)
        text, errors = output.text("tool.out"), output.text("tool.err").strip()
        trouble = _TROUBLE.search(text)
        if trouble:
            raise ParseError(f"deadline_test was not set up as asked: {trouble[0][:300]}: {errors[:300]}")
        threads = list(_THREAD.finditer(text))
        if len(threads) != self._threads(output.setting):
            raise ParseError(
                f"deadline_test reports {len(threads)} threads of {self._threads(output.setting)}: "
                f"{errors[:300] or text.strip()[-300:] or 'no output'}"
            )
        return tuple(
            measurement for number, thread in enumerate(threads) for measurement in self._thread(number, thread, output)
        )

    def _threads(self, setting: Setting) -> int:
        """Return how many threads run: two on one CPU, so that the scheduler has to choose between deadlines."""
        return self.threads or max(2, setting.cpus)

    def _deadline_us(self, number: int) -> int:
        return self.interval_us + number * self.step_us

    def _thread(self, number: int, thread: re.Match[str], output: Output) -> tuple[Measurement, ...]:
        figures = {name: int(value) for name, value in thread.groupdict().items()}
        if figures["deadline"] != self._deadline_us(number):
            raise ParseError(
                f"deadline_test's thread {number} ran with a deadline of {figures['deadline']} us, "
                f"not of {self._deadline_us(number)} us"
            )
        if not figures["min"] <= figures["avg"] <= figures["max"]:
            raise ParseError(
                f"deadline_test's minimum {figures['min']}, average {figures['avg']} and maximum {figures['max']} "
                f"contradict each other"
            )
        own_periods = figures["tried"] - _SETUP_PERIODS
        if own_periods <= 0:
            raise ParseError(f"deadline_test's thread {number} never ran in a period of its own")
        labels = {"thread": str(number)}
        return (
            count("deadlines.missed", figures["deadlines"], Better.LOWER, labels),
            count("periods.missed", figures["periods"], Better.LOWER, labels),
            count("periods", own_periods + figures["deadlines"] + figures["periods"], Better.NEITHER, labels),
            *(time(f"runtime.{name}", figures[name], output.microsecond, labels) for name in ("min", "avg", "max")),
        )
