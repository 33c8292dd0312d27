# SPDX-License-Identifier: MIT
"""queuelat: would a queue of packets overflow while the program that drains it is interrupted?

It copies a block of memory again and again, measures each copy, and keeps account of a queue: packets arrive at a
steady rate for as long as the copy took, and as many leave as can be handled in the usual time of a copy. A copy that
was interrupted lets the queue grow; if it grows too long, the run ends.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/queuelat/queuelat.c):

* First it looks for a block whose copy takes half of `--max-len`, from 100 000 bytes on in steps of 1000, 50 000 copies
  each. That takes minutes on some CPUs, and need not end. The time-out includes it, and if it comes then, the program
  prints a summary as ever. Only the line `default_n=` tells that it began to measure.
* GCC removes the copying, whose result nobody reads: all of it in Debian's 2.10 for arm64, that of the first part in
  2.4 for x86_64. Such a program never finds its block. One built with `-fno-builtin` does.
* Processors other than x86 have no counter of cycles here: times are nanoseconds, so `--freq` is 1000. Before 2.8 they
  are nanoseconds of a second, and a copy across the end of one takes for ever: the queue gets 2 147 482 400 packets.
* The exit code is 0 for everything but missing options. Without a trace marker the program ends instead of measuring.
* Runs of buckets with equal counts are printed as `...` and the last one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate import tuning
from rtgate.errors import ParseError
from rtgate.measurement import Better, Histogram, Measurement
from rtgate.needs import Need
from rtgate.threads import Seen
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.rt_tests import ended
from rtgate.units import Unit

_BUCKET_NS = 100
_LIMIT_NS = 70_000
_LEAST = 0.9  # of the time asked for; buckets are counted with their lower ends
_START = re.compile(r"^default_n=[0-9]{1,10} nr_packets_drain_per_block=[0-9]{1,10}\n", re.MULTILINE)
_RESULT = re.compile(
    r"(?:queue length exceeded:  queue_size=(?P<size>[0-9]{1,10}) max_queue_len=[0-9]{1,10}\n)?"
    r"(?P<buckets>(?:\.\.\.\n|\[[0-9]{1,5} - [0-9]{1,5}\] = [0-9]{1,18}\n)*"
    r"\[70000 - END\] = [0-9]{1,18}\n)"
    r"\n ---------------- \n"
    r"Min loop processing time: \[[0-9]+ - [0-9]+\] = [0-9]+\n"
    r"Max loop processing time: \[[0-9]+ - [0-9]+\] = [0-9]+\n"
    r"Avg loop processing time: (?P<mean>[0-9]{1,10})\n"
)
_BUCKET = re.compile(r"\[(?P<low>[0-9]+) - (?:[0-9]+|END)\] = (?P<count>[0-9]+)")
# The shell asks the kernel for the frequency of the x86 counter; of two lines, the second is the counter's own.
_DETECTED = r"dmesg | sed -n 's/.*tsc: Detected \([0-9.]*\) MHz.*/\1/p' | tail -n 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queuelat(Tool):
    """Options of queuelat.

    Attributes:
        max_latency_ns: how long a full queue takes to drain; a copy takes half of it.
        packet_ns: how long a packet takes to handle.
        packets_per_us: how many packets arrive in a microsecond.
        priority: SCHED_FIFO priority. 1 lets every other real-time thread interrupt it, so that it is seen.
        search_s: how long the search for the block may take; what is left of it is measured too.
    """

    max_latency_ns: int = 20_000
    packet_ns: int = 100
    packets_per_us: int = 5
    priority: int = 1
    search_s: int = 90

    name: ClassVar[str] = "queuelat"
    confined: ClassVar[bool] = True
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    reports: ClassVar[Mapping[str, Reports]] = {
        "queue.exceeded": Reports.COUNT,
        "loop": Reports.TIMES,
        "loops": Reports.COUNT,
    }
    needs: ClassVar[tuple[Need, ...]] = (
        Need(test='[ "$(nproc)" -gt 1 ]', reason="needs two CPUs: one is busy with it all the time"),
        Need(
            test="[ -e /sys/kernel/tracing/trace_marker ] || [ -e /sys/kernel/debug/tracing/trace_marker ]",
            reason="needs a kernel with CONFIG_FTRACE, and tracefs mounted: it writes to the trace marker",
        ),
        Need(
            test=f'case $(uname -m) in x86_64|i?86) [ -n "$({_DETECTED})" ];; esac',
            reason="needs the frequency of the x86 counter, and the kernel's log no longer has it",
        ),
        # A copy of 100 000 bytes takes longer than 1000 cycles; at a pretended 10 GHz those are 100 ns.
        Need(
            test="! queuelat -m 20000 -c 100 -p 1 -f 10000 -t 1 | grep -q '^Min loop.*: .0 - 99. = [1-9]'",
            reason="needs a queuelat that copies memory: in this one the compiler removed it, as in Debian's",
        ),
        Need(test="[ ! -e /rtgate/plan ]", reason="needs real time: its search takes minutes of virtual time"),
    )

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: on the last of the measured CPUs. It has no options for CPU and priority.

        The trace marker is written only when the queue is full.
        """
        command = (
            f"f=1000; case $(uname -m) in x86_64|i?86) f=$({_DETECTED});; esac; "
            f"exec taskset {1 << _cpu(setting):x} chrt -f {self.priority} queuelat -m {self.max_latency_ns} "
            f"-c $(({self.packet_ns} * ${{f%.*}} / 1000)) -p {self.packets_per_us} -f $f "
            f"-q {self.max_latency_ns // self.packet_ns - 1} -t {self._seconds(setting)}"
        )
        return ("sh", "-c", command)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs.

        No threads: a run whose queue overflows may be over before anybody looks, and `chrt` fails if it cannot set the
        priority.
        """
        return Expected(threads=(), duration_s=self._seconds(setting), seen=Seen.SESSION)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `queue.exceeded` (0 or 1), `loop` (histogram of the copies) and `loops`.

        A bucket of the histogram holds what took less than 100 ns longer than its value.

        Raises:
            ParseError: it failed, was stopped, did not begin to measure, measured for too short a time, or its output
                is damaged or contradicts itself.
        """
        ended("queuelat", output)
        text, said = output.text("tool.out"), output.text("tool.err").strip()
        start = _START.search(text)
        if start is None:
            reason = said or (text.strip().splitlines() or ["no output"])[-1]
            raise ParseError(
                f"queuelat never left its calibration, the search for a block whose copy takes "
                f"{self.max_latency_ns // 2} ns: it measured nothing ({reason[:300]})"
            )
        result = _RESULT.fullmatch(text, start.end())
        if result is None:
            raise ParseError(f"queuelat printed no result: {said[:300] or text[start.end() :].strip()[-300:]}")
        histogram = self._histogram(result, output.setting)
        if result["size"] is None:
            self._long_enough(histogram, output.setting)
        else:
            self._possible(int(result["size"]), output.setting)
        return (
            count("queue.exceeded", int(result["size"] is not None), Better.LOWER),
            Measurement(name="loop", better=Better.LOWER, histogram=histogram),
            count("loops", histogram.total, Better.NEITHER),
        )

    def _seconds(self, setting: Setting) -> int:
        return self.search_s + math.ceil(setting.duration_s)

    def _histogram(self, result: re.Match[str], setting: Setting) -> Histogram:
        counts = _counts(result["buckets"])
        total = sum(counts.values())
        # The tool's average counts each bucket with its last nanosecond.
        summed = sum((value + _BUCKET_NS - 1) * samples for value, samples in counts.items())
        if not total or summed // total != int(result["mean"]):
            raise ParseError(f"queuelat's histogram is damaged: its average is not {result['mean']} ns")
        unit = Unit.VIRTUAL_NS if setting.virtual_time else Unit.NS
        return Histogram(unit=unit, counts=counts, overflow=counts.pop(_LIMIT_NS, 0), limit=_LIMIT_NS)

    def _long_enough(self, histogram: Histogram, setting: Setting) -> None:
        """Check that what was measured fills the time asked for. Raises ParseError."""
        counted = sum(value * samples for value, samples in histogram.counts.items()) + _LIMIT_NS * histogram.overflow
        if counted < _LEAST * setting.duration_s * 1e9:
            raise ParseError(
                f"queuelat measured for {counted / 1e9:.1f} s of the {setting.duration_s:g} s asked for: its "
                f"calibration took the rest of {self._seconds(setting)} s"
            )

    def _possible(self, size: int, setting: Setting) -> None:
        """Check that as many packets can have arrived as are in the queue. Raises ParseError."""
        most = self.packets_per_us * 1_000_000 * self._seconds(setting)
        if size > most:
            raise ParseError(
                f"queuelat's queue has {size} packets, and in the whole run only {most} arrive: its clock goes "
                "backwards every second (rt-tests before 2.8 on this processor)"
            )


def _cpu(setting: Setting) -> int:
    return tuning.cpus(setting.cpu_list)[-1] if setting.cpu_list else setting.cpus - 1


def _counts(text: str) -> dict[int, int]:
    """Return the samples by the lower ends of the buckets, those of the last, open one included. Raises ParseError."""
    counts: dict[int, int] = {}
    due, skipped = 0, False
    for line in text.splitlines():
        found = _BUCKET.fullmatch(line)
        if found is None:
            skipped = True
            continue
        low, samples = int(found["low"]), int(found["count"])
        if low % _BUCKET_NS or low < due or (low > due) != skipped:
            raise ParseError(f"queuelat's histogram is damaged at {line}")
        if samples:
            counts |= dict.fromkeys(range(due, low + 1, _BUCKET_NS), samples)
        due, skipped = low + _BUCKET_NS, False
    return counts
