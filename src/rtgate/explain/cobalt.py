# SPDX-License-Identifier: MIT
"""Finding the wake-ups of Xenomai's latency, in user space, among the events of a trace.

Facts of Xenomai 3.1 to 3.3 that this module depends on (testsuite/latency/latency.c, kernel/cobalt/posix/timerfd.c,
kernel/cobalt/dovetail/tick.c):

* The task reads a periodic timer of Cobalt's, and right after it the clock, in the vDSO, as programs of Linux do. The
  difference to when that timer was due is the latency.
* Nothing of the same CPU runs in user space between the timer's handler and that reading: the task has the highest
  priority of the stage that Linux cannot delay. Its other threads read the clock too, but later.
* The wake-ups of the first second are left out, and so are those after the alarm at the end. What is printed as
  minimum is of whole seconds; the histogram has the last, broken one as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.errors import ParseError
from rtgate.explain.intervals import CpuIntervals
from rtgate.explain.trace import Event, EventKind
from rtgate.explain.wakeups import CpuReport, ending_at, reports
from rtgate.records.record import Record
from rtgate.tools import Tool
from rtgate.tools.xenomai import CELL_NS, XenomaiLatency

_WARM_UP_S = 1


@dataclass(frozen=True, slots=True)
class CobaltWakeUps:
    """The wake-ups of a task of Cobalt's: an `IntervalFinder`."""

    what: str = "wake-up"
    maximum: str = "latency.max"
    mean: str = "latency.avg"
    proof: str = "have a latency of their cell of the histogram"

    @property
    def marks(self) -> Mapping[EventKind, Sequence[str]]:
        """What wakes up. `timerfd_handler` is only called by its address, so it is never inlined."""
        return {EventKind.TIMER_INTERRUPT: ("xnintr_core_clock_handler",), EventKind.TIMER_WAKEUP: ("timerfd_handler",)}

    def intervals(self, tool: Tool, record: Record, events: Sequence[Event]) -> list[CpuIntervals]:
        """Return the wake-ups. Raises ParseError as `find`, and if the record is not of Xenomai's latency."""
        assert isinstance(tool, XenomaiLatency)
        return [find(events, report, tool.period_us * 1000) for report in reports(record)]


def find(events: Sequence[Event], cpu_report: CpuReport, period_ns: int) -> CpuIntervals:
    """Return the wake-ups of the task.

    Raises:
        ParseError: the trace does not have as many as were reported, or they are not those of the histogram.
    """
    per_second = 1_000_000_000 // period_ns
    warm_up = _WARM_UP_S * per_second
    reads = _first_reads(events, cpu_report.cpu)
    sample_reads = reads[warm_up : warm_up + cpu_report.cycles]
    if len(sample_reads) < cpu_report.cycles:
        raise ParseError(
            f"CPU {cpu_report.cpu} read the clock after {len(reads)} wake-ups in the trace, latency counted "
            f"{cpu_report.cycles} after the first {warm_up}"
        )
    whole = cpu_report.cycles // per_second * per_second
    report = replace(cpu_report, minimum_of=whole or None, cell_ns=CELL_NS)
    return ending_at(sample_reads, events, report, period_ns)


def _first_reads(events: Sequence[Event], cpu: int) -> list[Event]:
    """Return the first reading of the clock after each wake-up."""
    reads: list[Event] = []
    woken = False
    for event in events:
        if event.cpu != cpu:
            continue
        if event.kind == EventKind.TIMER_WAKEUP:
            woken = True
        elif event.kind == EventKind.USER_CLOCK and woken:
            reads.append(event)
            woken = False
    return reads
