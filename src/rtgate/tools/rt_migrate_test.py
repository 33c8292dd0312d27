# SPDX-License-Identifier: MIT
"""rt-migrate-test: do real-time tasks of higher priority get a CPU before those of lower priority?

There is one task more than there are CPUs, each with a SCHED_FIFO priority of its own. Again and again all of them are
woken at once and compute for 20 ms, and the one with the highest priority moves to the next CPU. The latency of a task
is the time from the waking to its first instruction.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/rt-migrate-test/rt-migrate-test.c):

* A round takes 200 ms and what waking takes, never less, whatever `--run-time` and `--sleep-time` say: nothing reads
  them.
* Only with `--check` it fails, at the first round in which a task started more than `--maxerr` (1 ms) later than one
  of lower priority. It ends there, with ` Failed!`, exit code 255 and `return_code` 1. Errors of the set-up give 255 as
  well.
* `--duration` ends like Ctrl-C: exit code 1 after ` Passed!`. A number of rounds ends with 0.
* The time is `gettimeofday`.
* A task that could not get its priority goes on with another; a warning says so, of the first task and the main thread
  only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time_figures
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, Threads

JSON = "rt-migrate-test.json"
# `nproc` counts those that tasks can move between: isolated ones are none of them.
_TWO_CPUS = Need(test='[ "$(nproc)" -gt 1 ]', reason="needs two CPUs: on one, no task can move to another", cpus=2)
_ROUND_S = 0.2
_FAILED = 255
_VERDICT = re.compile(r"^ (Passed|Failed)!$", re.MULTILINE)
_ROUND = re.compile(r"^ len: ", re.MULTILINE)
_MOST_PRIORITY = 99  # of SCHED_FIFO
_FEWEST_TASKS = 3  # where their number is that of the CPUs: it takes two of those
_TURNS_US = 100_000  # the time that all tasks have in a round
_LATEST_US = 10**15  # a clock that was set back gives more: the tool subtracts without signs


@dataclass(frozen=True, slots=True, kw_only=True)
class RtMigrateTest(Tool):
    """Options of rt-migrate-test.

    Attributes:
        priority: SCHED_FIFO priority of the lowest task; each further task has one more, and the main thread one more
            than the highest.
        late_us: how much later than a task of lower priority a task may start. On virtual time it is 100 ms: CPUs take
            turns there, and one that computes keeps the other from starting a task for up to 41 ms.
        tasks: how many tasks; 0 for one more than there are CPUs.
        rounds: how many rounds; 0 for as many as the profile's duration has time for.
        check: let it judge each round. Without, nothing can fail, and there are no `failures`.
    """

    priority: int = 2
    late_us: int = 1000
    tasks: int = 0
    rounds: int = 0
    check: bool = True

    def __post_init__(self) -> None:
        """Check that the main thread has a priority above all tasks. Raises ConfigError."""
        most = _MOST_PRIORITY - (self.tasks or _FEWEST_TASKS)
        if self.priority > most:
            raise ConfigError(
                f"priority of rt-migrate-test is {self.priority} (allowed: at most {most}: each task has one more, and "
                f"the main thread at most {_MOST_PRIORITY})"
            )

    name: ClassVar[str] = "rt-migrate-test"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    reports: ClassVar[Mapping[str, Reports]] = {
        "failures": Reports.LATENESS,
        "latency.min": Reports.TIME,
        "latency.avg": Reports.TIME,
        "latency.max": Reports.TIME,
        "rounds": Reports.COUNT,
    }

    def required(self) -> tuple[Need, ...]:
        """Return what the target must have: two CPUs, unless it is a single task that is looked at."""
        return () if self.tasks == 1 and not self.check else (_TWO_CPUS,)

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a number of rounds, because `--duration` ends with exit code 1."""
        late_us = _TURNS_US if setting.virtual_time else self.late_us
        return (
            *("rt-migrate-test", "--quiet", *(("--check",) if self.check else ()), f"--prio={self.priority}"),
            *((f"--maxerr={late_us}",) if self.check else ()),
            *(f"--loops={self._rounds(setting)}", f"--json={JSON}", str(self._tasks(setting))),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: each task at a priority of its own, and the main thread above them.

        The tool warns about the first task only, if it could not set a priority. A run that fails may be over before
        anybody looks: then its `failures` stand and its figures do not.
        """
        highest = self.priority + self._tasks(setting)
        return Expected(
            threads=tuple(
                Threads(count=1, policy=SCHED_FIFO, priority=priority) for priority in range(self.priority, highest + 1)
            ),
            duration_s=self._rounds(setting) * _ROUND_S,
            counts=(Count(measurement="rounds", least=self._rounds(setting)),),
            clock=True,
            ends_with="failures" if self.check else "",
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `failures` (0 or 1), `rounds`, and per task `latency.min`, `latency.avg`, `latency.max`.

        Without `check` there are no `failures`.

        Raises:
            ParseError: it could not be set up, was stopped, or its text and JSON are missing, damaged, incomplete, or
                contradict each other or the command line.
        """
        failed, rounds = self._verdict(output)
        report = document(self.name, output.text(JSON))
        if report.integer("return_code") != int(failed):
            raise ParseError(f"rt-migrate-test's return_code contradicts its exit code {output.exit_code}")
        tasks = report.numbered_objects("thread")
        priorities = [task.integer("prio") for task in tasks.values()]
        plan = [self.priority + number for number in range(self._tasks(output.setting))]
        if list(tasks) != list(range(len(tasks))) or priorities != plan:
            raise ParseError(f"rt-migrate-test ran tasks with the priorities {priorities}, not {plan}")
        return (
            *((count("failures", int(failed), Better.LOWER),) if self.check else ()),
            count("rounds", rounds, Better.NEITHER),
            *(
                measurement
                for number, task in tasks.items()
                for measurement in _latencies(number, task, rounds, output)
            ),
        )

    def _verdict(self, output: Output) -> tuple[bool, int]:
        """Return whether it failed, and in how many rounds it measured, going by its text. Raises ParseError."""
        check_end(self.name, output, (0, _FAILED))
        text, message = output.text("tool.out"), output.text("tool.err").strip()
        if "Warning, can't set" in message:
            raise ParseError(f"rt-migrate-test ran without its priorities: {message[:300]}")
        verdicts = _VERDICT.findall(text)
        if len(verdicts) != int(self.check) or ("Failed" in verdicts) != (output.exit_code == _FAILED):
            raise ParseError(
                f"rt-migrate-test ended with exit code {output.exit_code} and the verdict "
                f"{' and '.join(verdicts) or 'none'}: {message[:300] or 'no message'}"
            )
        failed, rounds, total = "Failed" in verdicts, len(_ROUND.findall(text)), self._rounds(output.setting)
        if not (1 <= rounds <= total if failed else rounds == total):
            raise ParseError(f"rt-migrate-test reports {rounds} rounds of {total}")
        return failed, rounds

    def _rounds(self, setting: Setting) -> int:
        return self.rounds or max(1, round(setting.duration_s / _ROUND_S))

    def _tasks(self, setting: Setting) -> int:
        """Return how many tasks run: one has to wait, so that priorities matter."""
        return self.tasks or setting.cpus + 1


def _latencies(number: int, task: Document, rounds: int, output: Output) -> tuple[Measurement, ...]:
    low, mean, high = task.integer("min"), task.integer("avg"), task.integer("max")
    if high >= _LATEST_US or low < 0:
        raise ParseError(f"rt-migrate-test's task {number} started {high} us late: the clock was set back")
    # The tool divides the sum, in whole microseconds, by the rounds.
    if not low <= mean <= high or task.integer("total") // rounds != mean:
        raise ParseError(
            f"rt-migrate-test's task {number}: minimum {low}, average {mean}, maximum {high} and the sum of {rounds} "
            f"rounds {task.integer('total')} contradict each other"
        )
    labels = {"task": str(number), "priority": str(task.integer("prio"))}
    return time_figures("latency", (low, mean, high), output.microsecond, labels)
