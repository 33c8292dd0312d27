# SPDX-License-Identifier: MIT
"""Pairs of threads that wake each other: what pmqtest, ptsematest, svsematest and sigwaittest have in common.

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
from rtgate.measurement import Better, Measurement
from rtgate.threads import SCHED_FIFO, Seen, Threads
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, time
from rtgate.tools.rt_tests import Document, document, ended
from rtgate.units import Unit

_SHARE = 0.95  # of the samples that a pair must have at least
_SLOWEST_CYCLE = 1.5  # intervals that a sample may take: the interval and two wake-ups; 1.24 is usual on emulation
_START_S = 1  # more than is asked for: pairs start one after another, in up to 0.4 s on a loaded virtual board
_SECOND_US = 1_000_000
_NEAR_SECOND_US = 900_000
_BROKEN = re.compile(r".*(?:ould not (?:set CPU affinity|receive|send)|mismatch detected).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Tool):
    """Options of the four tools. There is one pair per CPU, bound to it, and all have the same interval.

    Attributes:
        interval_us: how long a receiver sleeps after each sample; below 1 s, because the tools print no more of it.
        priority: SCHED_FIFO priority of the first pair; also of the others if the tool can do that.
        launcher: what goes before the tool's name.
        same_priority: whether the tool has `--smp`; without it, the priority falls by one from pair to pair.
        loops: whether the run ends after a number of samples of one pair; otherwise after a time.
    """

    interval_us: int = 1000
    priority: int = 99

    launcher: ClassVar[tuple[str, ...]] = ()
    same_priority: ClassVar[bool] = True
    loops: ClassVar[bool] = True
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency.min": Reports.TIME,
        "latency.avg": Reports.TIME,
        "latency.max": Reports.TIME,
        "samples": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a pair per CPU, bound to it. The tools lock their memory without being asked."""
        pairs = ("--smp",) if self.same_priority else (f"--threads={setting.cpus}", "--affinity")
        seconds = setting.duration_s + _START_S
        length = f"--loops={self._samples(seconds)}" if self.loops else f"--duration={math.ceil(seconds)}"
        return (
            *(*self.launcher, self.name, "--quiet", *pairs, f"--prio={self.priority}"),
            *(f"--interval={self.interval_us}", "--distance=0", length, f"--json={self.name}.json"),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: sender and receiver of each pair, and their samples.

        The pair that is first at the number of samples ends the run for all, and on a loaded board others are slower.
        That one pair has all its samples is checked when the output is read.
        """
        least = _SHARE * self._samples(setting.duration_s) / _SLOWEST_CYCLE
        return Expected(
            threads=self._threads(setting),
            duration_s=setting.duration_s,
            seen=Seen.OWN,
            counts=(Count(measurement="samples", least=least),),
            clock=True,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `latency.min`, `latency.avg`, `latency.max`, `samples`.

        Raises:
            ParseError: it failed, was stopped, complained, or its JSON is missing, damaged, or contradicts itself or
                the command line.
        """
        ended(self.name, output)
        complaint = _BROKEN.search(output.text("tool.err"))
        if complaint:
            raise ParseError(f"{self.name} did not measure what it should: {complaint[0].strip()[:300]}")
        reason = output.text("tool.err").strip()
        if reason and not output.text(f"{self.name}.json").strip():
            raise ParseError(f"{self.name} wrote no JSON: {reason[:300]}")
        found = document(self.name, output.text(f"{self.name}.json")).numbered("thread")
        pairs = [_Pair(self, number, pair) for number, pair in found.items()]
        self._complete(pairs, output.setting)
        return tuple(one for pair in pairs for one in pair.measurements(output.microsecond))

    def _complete(self, pairs: list[_Pair], setting: Setting) -> None:
        """Check that there was a pair on each CPU, and that one of them did what was asked. Raises ParseError."""
        cpus = [pair.cpu for pair in pairs]
        if len(set(cpus)) != len(cpus) or len(cpus) != setting.cpus:
            where = ", ".join(map(str, cpus))
            raise ParseError(f"{self.name} had pairs on the CPUs {where}, not one on each of {setting.cpus}")
        most, asked = max(pair.samples for pair in pairs), self._samples(setting.duration_s + _START_S)
        if self.loops and most < asked:
            raise ParseError(f"{self.name} ended after {most} of {asked} samples: something stopped it")

    def _samples(self, seconds: float) -> int:
        return math.ceil(seconds * 1e6 / self.interval_us)

    def _threads(self, setting: Setting) -> tuple[Threads, ...]:
        if self.same_priority:
            return (Threads(count=2 * setting.cpus, policy=SCHED_FIFO, priority=self.priority),)
        priorities = (self.priority - pair for pair in range(setting.cpus))
        return tuple(Threads(count=2, policy=SCHED_FIFO, priority=priority) for priority in priorities)


class _Pair:
    """One object of the JSON's `thread`: `sender` and `receiver` of a pair."""

    def __init__(self, tool: Pairs, number: int, pair: Document) -> None:
        self.name = f"{tool.name}'s pair {number}"
        self.sender, self.receiver = pair.object("sender"), pair.object("receiver")
        self.cpu, self.samples = self._cpu(), self.sender.integer("samples")
        if self.samples <= 0:
            raise ParseError(f"{self.name} has no samples")
        interval = self.sender.integer("interval")
        if interval != tool.interval_us:
            raise ParseError(f"{self.name} had an interval of {interval} us, {tool.interval_us} us were asked for")
        # Only pmqtest has it, and only its option --forcetimeout, which is not used here, makes it count.
        if "timeoutcount" in self.receiver and self.receiver.integer("timeoutcount") != 0:
            raise ParseError(f"{self.name} waited in vain {self.receiver.integer('timeoutcount')} times")

    def _cpu(self) -> int:
        sender, receiver = self.sender.integer("cpu"), self.receiver.integer("cpu")
        if sender != receiver or sender < 0:
            raise ParseError(f"{self.name} was not bound to one CPU: it ran on {sender} and {receiver}")
        return sender

    def measurements(self, microsecond: Unit) -> tuple[Measurement, ...]:
        """Return what the pair measured. Raises ParseError."""
        labels = {"cpu": str(self.cpu)}
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
            time("latency.min", low, microsecond, labels),
            time("latency.avg", mean, microsecond, labels),
            time("latency.max", high, microsecond, labels),
            count("samples", self.samples, Better.NEITHER, labels),
        )
