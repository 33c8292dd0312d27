# SPDX-License-Identifier: MIT
"""pmqtest, ptsematest, svsematest and sigwaittest: pairs of threads that wake each other.

Each pair is a sender and a receiver on one CPU. The sender notes the time and wakes the receiver, which notes the time
when it runs, sleeps for the interval, and lets the sender go on. The time in between is the latency.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/{pmqtest,ptsematest,svsematest,sigwaittest}/*.c, which
are nearly one program): the time is `gettimeofday`, and of a difference only `tv_usec` is kept, so 1.2 s is reported
as 200 000 us and a clock set back by 1 us as 999 999 us. A minimum of no samples is -1, an average of none is `nan`.
The exit code is 0 after nearly everything, a signal and failed set-up included. The JSON repeats the priority and the
CPU that were asked for, whether the thread got them or not.

Two ways to end a run leave traces in the maximum. `--duration` sends SIGALRM, which a receiver of svsematest gets: if
it waits in `semop`, that returns early and is taken for a sample. After `--loops` the last sender of ptsematest ends
before its receiver runs, so the last sample holds the end of a thread (24 to 55 us on a PC with an average of 1 us).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time_figures, times_reported
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.units import Unit

_SHARE = 0.95  # of the samples that a pair must have at least
_WAKEUPS_US = 500  # that a sample may take beside its interval, for two wake-ups; 240 us are usual on emulation
_START_S = 1  # more than is asked for: pairs start one after another, in up to 0.4 s on a loaded virtual board
_SECOND_US = 1_000_000
_NEAR_SECOND_US = 900_000
_BROKEN = re.compile(r".*(?:ould not (?:set CPU affinity|receive|send)|mismatch detected).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Tool):
    """Options of the four tools. There is one pair per CPU, bound to it, and all have the same interval, unless told.

    Attributes:
        interval_us: how long a receiver sleeps after each sample; below 1 s, because the tools print no more of it.
        priority: SCHED_FIFO priority of the first pair; also of the others if the tool can do that.
        threads: how many pairs; 0 for one per CPU. A number makes the priority fall by one from pair to pair.
        affinity: whether a number of pairs is bound, each to its CPU.
        distance_us: how much longer the interval of each further pair is.
        loops: samples of a pair that end the run, if the profile's duration does not end it before; 0 for the duration.
        launcher: what goes before the tool's name.
        same_priority: whether the tool has `--smp`; without it, the priority falls by one from pair to pair.
        counted: whether the duration is given as a number of samples of one pair; otherwise as a time.
    """

    interval_us: int = 1000
    priority: int = 99
    threads: int = 0
    affinity: bool = True
    distance_us: int = 0
    loops: int = 0

    launcher: ClassVar[tuple[str, ...]] = ()
    same_priority: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"interval_us": (1, _SECOND_US - 1)}
    reports: ClassVar[Mapping[str, Reports]] = {
        **times_reported("latency"),
        "samples": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a pair per CPU, bound to it. The tools lock their memory without being asked."""
        affinity = ("--affinity",) if self.affinity else ()
        pairs = ("--smp",) if self._smp else (f"--threads={self._pairs(setting)}", *affinity)
        return (
            *(*self.launcher, self.name, "--quiet", *pairs, f"--prio={self.priority}"),
            *(f"--interval={self.interval_us}", f"--distance={self.distance_us}", *self._length(setting)),
            f"--json={self.name}.json",
        )

    def _length(self, setting: Setting) -> tuple[str, ...]:
        if self.counted:
            return (f"--loops={self._sample_count(setting)}",)
        seconds = math.ceil(setting.duration_s + _START_S)
        return (
            *((f"--loops={self.loops}",) if self.loops else ()),
            *((f"--duration={seconds}",) if setting.ends_by_time(self._loops_s) else ()),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: sender and receiver of each pair, and their samples.

        The pair that is first at the number of samples ends the run for all, and on a loaded board others are slower.
        That one pair has all its samples is checked when the output is read. A number of samples is stopped only after
        each could have taken what is valid: with a short interval that is many times the interval.
        """
        sample_us = self.interval_us + (self._pairs(setting) - 1) * self.distance_us + _WAKEUPS_US
        seconds = min(setting.duration_s, self._loops_s) if self.loops else setting.duration_s
        least = _SHARE * seconds * 1e6 / sample_us
        return Expected(
            threads=self._threads(setting),
            duration_s=seconds,
            work_s=round(self._sample_count(setting) * sample_us / 1e6, 3),
            seen=ThreadScope.OWN,
            counts=(Count(measurement="samples", least=least),),
            clock=True,
            processors=min(self._pairs(setting), setting.cpus) if self.affinity or self._smp else 0,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency.min`, `latency.avg`, `latency.max`, `samples`.

        Pairs that share CPUs are told apart by their number, too; those that are not bound by nothing else.

        Raises:
            ParseError: it failed, was stopped, complained, or its JSON is missing, damaged, or contradicts itself or
                the command line.
        """
        check_end(self.name, output)
        complaint = _BROKEN.search(output.text("tool.err"))
        if complaint:
            raise ParseError(f"{self.name} did not measure what it should: {complaint[0].strip()[:300]}")
        reason = output.text("tool.err").strip()
        if reason and not output.text(f"{self.name}.json").strip():
            raise ParseError(f"{self.name} wrote no JSON: {reason[:300]}")
        threads = document(self.name, output.text(f"{self.name}.json")).numbered_objects("thread")
        shared = self._pairs(output.setting) > output.setting.cpus
        pairs = [_Pair(self, number, pair, shared=shared) for number, pair in threads.items()]
        self._complete(pairs, output.setting)
        return tuple(measurement for pair in pairs for measurement in pair.measurements(output.microsecond))

    def _complete(self, pairs: list[_Pair], setting: Setting) -> None:
        """Check that there was a pair on each CPU, and that one of them did what was asked. Raises ParseError."""
        cpus, pair_count = [pair.cpu for pair in pairs], self._pairs(setting)
        spread = len(set(cpus)) == min(pair_count, setting.cpus)
        if len(cpus) != pair_count or (self.affinity and not spread):
            where = ", ".join(map(str, cpus))
            raise ParseError(f"{self.name} had pairs on the CPUs {where}, not one on each of {pair_count}")
        most, total = max(pair.samples for pair in pairs), self._sample_count(setting)
        if most < total:
            raise ParseError(f"{self.name} ended after {most} of {total} samples: something stopped it")

    def _sample_count(self, setting: Setting) -> int:
        """Return the samples that one pair must have; 0 if a time ends the run."""
        if not self.counted:
            return 0 if setting.ends_by_time(self._loops_s) else self.loops
        total = math.ceil((setting.duration_s + _START_S) * 1e6 / self.interval_us)
        return min(self.loops or total, total)

    @property
    def _smp(self) -> bool:
        return self.same_priority and not self.threads

    @property
    def _loops_s(self) -> float:
        """How long the samples of the first pair take at least."""
        return self.loops * self.interval_us / 1e6

    def _pairs(self, setting: Setting) -> int:
        return self.threads or setting.cpus

    def _threads(self, setting: Setting) -> tuple[Threads, ...]:
        if self._smp:
            return (Threads(count=2 * setting.cpus, policy=SCHED_FIFO, priority=self.priority),)
        # It falls to 1 and no further; that of sigwaittest would fall to 0, where no thread is a real-time one.
        priorities = [max(1, self.priority - pair) for pair in range(self._pairs(setting))]
        return tuple(
            Threads(count=2 * priorities.count(priority), policy=SCHED_FIFO, priority=priority)
            for priority in dict.fromkeys(priorities)
        )


class _Pair:
    """One object of the JSON's `thread`: `sender` and `receiver` of a pair."""

    def __init__(self, tool: Pairs, number: int, pair: Document, *, shared: bool) -> None:
        self.name = f"{tool.name}'s pair {number}"
        self.sender, self.receiver = pair.object("sender"), pair.object("receiver")
        self.cpu, self.samples = self._cpu(bound=tool.affinity), self.sender.integer("samples")
        cpu_label = {"cpu": str(self.cpu)} if tool.affinity else {}
        self.labels = {**cpu_label, **({"pair": str(number)} if shared or not cpu_label else {})}
        if self.samples <= 0:
            raise ParseError(f"{self.name} has no samples")
        interval = self.sender.integer("interval")
        nominal = tool.interval_us + number * tool.distance_us
        if interval != nominal:
            raise ParseError(f"{self.name} had an interval of {interval} us, {nominal} us were asked for")
        # Only pmqtest has it, and only its option --forcetimeout, which is not used here, makes it count.
        if "timeoutcount" in self.receiver and self.receiver.integer("timeoutcount") != 0:
            raise ParseError(f"{self.name} waited in vain {self.receiver.integer('timeoutcount')} times")

    def _cpu(self, *, bound: bool) -> int:
        sender, receiver = self.sender.integer("cpu"), self.receiver.integer("cpu")
        if bound and (sender != receiver or sender < 0):
            raise ParseError(f"{self.name} was not bound to one CPU: it ran on {sender} and {receiver}")
        return sender

    def measurements(self, microsecond: Unit) -> tuple[Measurement, ...]:
        """Return what the pair measured. Raises ParseError."""
        low, high = self.receiver.integer("min"), self.receiver.integer("max")
        mean = self.receiver.number("avg")
        if not 0 <= low <= mean <= high < _SECOND_US:
            raise ParseError(f"{self.name}: minimum {low}, average {mean} and maximum {high} contradict each other")
        if high >= _NEAR_SECOND_US:
            raise ParseError(
                f"{self.name} has a maximum of {high} us: the clock was set back, or a wake-up took about a second or "
                "more, of which the tool keeps the part below a second"
            )
        return (
            *time_figures("latency", (low, mean, high), microsecond, self.labels),
            count("samples", self.samples, Better.NEITHER, self.labels),
        )


class Pmqtest(Pairs):
    """How long a message takes through a POSIX message queue, from `mq_send` to a receiver that waits for it.

    Its `--timeout` is not used: in 2.4 and 2.10 a sender then takes two answers for each message and the run ends after
    two samples, with exit code 0 (src/pmqtest/pmqtest.c; seen).
    """

    name: ClassVar[str] = "pmqtest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test="grep -qw mqueue /proc/filesystems", reason="needs POSIX message queues (CONFIG_POSIX_MQUEUE)"),
    )


class Ptsematest(Pairs):
    """How long a thread takes to get a pthread mutex that another thread releases; the run ends after a time."""

    name: ClassVar[str] = "ptsematest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    counted: ClassVar[bool] = False


class Sigwaittest(Pairs):
    """How long a thread takes to return from `sigwait` after another thread sent it a signal. It has no `--smp`."""

    name: ClassVar[str] = "sigwaittest"
    suites: ClassVar[tuple[str, ...]] = ("signal",)
    same_priority: ClassVar[bool] = False


class Svsematest(Pairs):
    """How long a thread takes to get a System V semaphore that another thread releases.

    It makes its semaphore's key from the file that the environment variable `_` names, or from its own name as a file
    (`ftok` in src/svsematest/svsematest.c). Only some shells set `_`; without it the tool ends with exit code 0 and
    without results, so it is set here to the tool's own file.
    """

    name: ClassVar[str] = "svsematest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test="[ -e /proc/sysvipc/sem ]", reason="needs System V semaphores (CONFIG_SYSVIPC)"),
    )
    launcher: ClassVar[tuple[str, ...]] = ("env", "_=/proc/self/exe")
