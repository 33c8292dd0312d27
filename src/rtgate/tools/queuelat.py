# SPDX-License-Identifier: MIT
"""queuelat: would a queue of packets overflow while the program that drains it is interrupted?

It copies a block of memory again and again, measures each copy, and keeps account of a queue: packets arrive at a
steady rate for as long as the copy took, and as many leave as can be handled in the usual time of a copy. A copy that
was interrupted lets the queue grow.

The program that runs is ours, `rtgate-queuelat` (`target/queue/queuelat.c`), because those of rt-tests 2.4 to 2.10 do
not measure as they are packaged: GCC leaves out the copying, whose result nobody reads, all of it in Debian's 2.10 for
arm64, that of the search for a block in 2.4 for x86_64. Such a program never finds its block. Of both:

* The line `default_n=` tells that the search for a block is over, and that the program began to measure.
* Runs of buckets with equal counts are printed as `...` and the last one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board import tuning
from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, kept_on
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_FIFO, SCHED_OTHER, Threads

_BUCKET_NS = 100
_LIMIT_NS = 70_000
_MOST_LATENCY_NS = 139_400  # half of it is the time of a copy, which the program looks for to within two buckets
_UNLOCKED = "memory is not locked"
_START = re.compile(r"^default_n=[0-9]{1,10} nr_packets_drain_per_block=[0-9]{1,10}\n", re.MULTILINE)
_RESULT = re.compile(
    r"longest queue = (?P<longest>[0-9]{1,18}), exceeded = (?P<exceeded>[0-9]{1,18})\n"
    r"(?P<buckets>(?:\.\.\.\n|\[[0-9]{1,5} - [0-9]{1,5}\] = [0-9]{1,18}\n)*"
    r"\[70000 - END\] = [0-9]{1,18}\n)"
    r"\n ---------------- \n"
    r"Min loop processing time: \[[0-9]+ - [0-9]+\] = [0-9]+\n"
    r"Max loop processing time: \[[0-9]+ - [0-9]+\] = [0-9]+\n"
    r"Avg loop processing time: (?P<mean>[0-9]{1,10})\n"
)
_BUCKET = re.compile(r"\[(?P<low>[0-9]+) - (?:[0-9]+|END)\] = (?P<count>[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queuelat(Tool):
    """Options of queuelat.

    Attributes:
        max_latency_ns: how long a full queue takes to drain, at most 139 400 ns; a copy takes half of it.
        packet_ns: how long a packet takes to handle.
        packets_per_us: how many packets arrive in a microsecond.
        priority: SCHED_FIFO priority. 1 lets every other real-time thread interrupt it, so that it is seen. 0 for none.
        cpu: where it runs, like `3`; empty for the last of the measured CPUs.
    """

    max_latency_ns: int = 20_000
    packet_ns: int = 100
    packets_per_us: int = 5
    priority: int = 1
    cpu: str = ""

    def __post_init__(self) -> None:
        """Check what is text, and the longest time. Raises ConfigError."""
        if self.cpu and not tuning.is_cpu_list(self.cpu):
            raise ConfigError(f"cpu of queuelat is {self.cpu!r} (allowed: a list of CPUs like 0,2-3)")
        if not 0 < self.max_latency_ns <= _MOST_LATENCY_NS:
            raise ConfigError(f"max_latency_ns of queuelat is {self.max_latency_ns} (allowed: 1 to {_MOST_LATENCY_NS})")

    name: ClassVar[str] = "queuelat"
    image: ClassVar[str] = "full"
    confined: ClassVar[bool] = True
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = {"priority": (0, 99)}
    reports: ClassVar[Mapping[str, Reports]] = {
        "queue.exceeded": Reports.COUNT,
        "queue.longest": Reports.COUNT,
        "loop": Reports.TIMES,
        "loops": Reports.COUNT,
    }
    needs: ClassVar[tuple[Need, ...]] = (
        # Not `nproc`, which leaves out isolated CPUs: it may be one of them that is measured.
        Need(
            test='[ "$(grep -c "^processor" /proc/cpuinfo)" -gt 1 ]',
            reason="needs two CPUs: one is busy with it all the time",
            cpus=2,
        ),
        Need(
            test="command -v rtgate-queuelat >/dev/null",
            reason="needs rtgate's own queuelat (image full): the compiler removed what those of rt-tests measure",
        ),
    )

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: on the last of the measured CPUs. It has no options for CPU and priority."""
        return (
            *kept_on(self.cpu or str(_cpu(setting))),
            *(("chrt", "-f", str(self.priority)) if self.priority else ()),
            *(
                "rtgate-queuelat",
                f"--latency={self.max_latency_ns}",
                f"--packet={self.packet_ns}",
                f"--packets={self.packets_per_us}",
            ),
            f"--seconds={setting.whole_s}",
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: one thread, for as long as it measures and searches."""
        policy = SCHED_FIFO if self.priority else SCHED_OTHER
        thread = Threads(count=1, policy=policy, priority=self.priority)
        cpus = tuning.cpus(self.cpu) if self.cpu else ()
        return Expected(threads=(thread,), duration_s=setting.whole_s, cpus=cpus)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `queue.exceeded` (how often), `queue.longest`, `loop` (histogram of the copies) and `loops`.

        A bucket of the histogram holds what took less than 100 ns longer than its value.

        Raises:
            ParseError: it failed, was stopped, could not lock its memory, did not begin to measure, or its output is
                damaged or contradicts itself.
        """
        text, message = output.text("tool.out"), output.text("tool.err").strip()
        if _UNLOCKED in message:
            raise ParseError(f"queuelat could not lock its memory, so page faults would be measured: {message[:300]}")
        check_end("queuelat", output)
        start = _START.search(text)
        if start is None:
            reason = message or (text.strip().splitlines() or ["no output"])[-1]
            raise ParseError(
                f"queuelat never left its calibration, the search for a block whose copy takes "
                f"{self.max_latency_ns // 2} ns: it measured nothing ({reason[:300]})"
            )
        result = _RESULT.fullmatch(text, start.end())
        if result is None:
            raise ParseError(f"queuelat printed no result: {message[:300] or text[start.end() :].strip()[-300:]}")
        histogram = self._histogram(result, output)
        longest, excesses = int(result["longest"]), int(result["exceeded"])
        if (longest > self.max_latency_ns // self.packet_ns) != (excesses > 0):
            raise ParseError(f"queuelat's longest queue, {longest} packets, contradicts {excesses} that were too long")
        return (
            count("queue.exceeded", excesses, Better.LOWER),
            count("queue.longest", longest, Better.LOWER),
            Measurement(name="loop", better=Better.LOWER, histogram=histogram),
            count("loops", histogram.total, Better.NEITHER),
        )

    def _histogram(self, result: re.Match[str], output: Output) -> Histogram:
        counts = _counts(result["buckets"])
        total = sum(counts.values())
        # The tool's average counts each bucket with its last nanosecond.
        sum_ns = sum((value + _BUCKET_NS - 1) * samples for value, samples in counts.items())
        if not total or sum_ns // total != int(result["mean"]):
            raise ParseError(f"queuelat's histogram is damaged: its average is not {result['mean']} ns")
        overflow = counts.pop(_LIMIT_NS, 0)
        return Histogram(unit=output.nanosecond, counts=counts, overflow=overflow, limit=_LIMIT_NS)


def _cpu(setting: Setting) -> int:
    return tuning.cpus(setting.cpu_list)[-1] if setting.cpu_list else setting.cpus - 1


def _counts(text: str) -> dict[int, int]:
    """Return the samples by the lower ends of the buckets, those of the last, open one included. Raises ParseError."""
    counts: dict[int, int] = {}
    due, skipped = 0, False
    for line in text.splitlines():
        match = _BUCKET.fullmatch(line)
        if match is None:
            skipped = True
            continue
        low, samples = int(match["low"]), int(match["count"])
        if low % _BUCKET_NS or low < due or (low > due) != skipped:
            raise ParseError(f"queuelat's histogram is damaged at {line}")
        if samples:
            counts |= dict.fromkeys(range(due, low + 1, _BUCKET_NS), samples)
        due, skipped = low + _BUCKET_NS, False
    return counts
