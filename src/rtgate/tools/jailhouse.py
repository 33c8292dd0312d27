# SPDX-License-Identifier: MIT
"""The demo inmate of Jailhouse, which measures how late its own timer interrupt is: gic-demo, on x86 apic-demo.

The inmate has a CPU and memory of its own, and no Linux. The root cell only reads what it prints. Facts of Jailhouse
0.12 that this module depends on (inmates/demos/arm/gic-demo.c, inmates/demos/x86/apic-demo.c, tools/jailhouse.c):

* It prints a line for each interrupt, with least and most since it was started. The next one comes 100 ms after that,
  and a line takes its time: each character is a call of the hypervisor.
* What it prints goes through the hypervisor's virtual console, which keeps some 30 of these lines.
* `jailhouse console --follow` prints what is kept, and then what comes, until it is stopped. Beside a load it must run
  before the load's tasks: else the ring goes round before it was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, kept_on, time_figures, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end

_ENABLED = Need(
    test='[ "$(cat /sys/devices/jailhouse/enabled 2>/dev/null)" = 1 ]', reason="Jailhouse is not enabled here"
)
_SCRIPT = (
    "jailhouse cell list; echo kept $(jailhouse console | grep -c '^Timer fired'); "
    "chrt -f 1 timeout %d jailhouse console --follow; echo; jailhouse cell list"
)
_BEATS_PER_S = 10
_LINE = re.compile(r"^Timer fired, jitter: *([0-9]{1,15}) ns, min: *([0-9]{1,15}) ns, max: *([0-9]{1,15}) ns\r?$")
_KEPT = re.compile(r"^kept ([0-9]{1,6})$", re.MULTILINE)
_CELLS = re.compile(r"^ID +Name +State .*\n((?:[0-9]+ .*\n?)*)", re.MULTILINE)
_CELL = re.compile(r"^([0-9]+) +(\S+) +([a-z]+(?:/[a-z]+)?) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JailhouseDemo(Tool):
    """Options of the demo inmate, which must be the only one that runs.

    Attributes:
        range_us: values from here on are counted as overflow.
    """

    range_us: int = 1000

    name: ClassVar[str] = "jailhouse-demo"
    suites: ClassVar[tuple[str, ...]] = ("latency",)
    confined: ClassVar[bool] = True  # what measures has its cell's CPU, and what reads it is kept out of the way
    needs: ClassVar[tuple[Need, ...]] = (_ENABLED,)
    reports: ClassVar[Mapping[str, Reports]] = {
        "latency": Reports.TIMES,
        **times_reported("latency"),
        "wakeups": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: the inmate runs already, and its console is read for as long as asked."""
        return (*kept_on(setting.cpu_list), "sh", "-c", _SCRIPT % setting.whole_s)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen: no thread of Linux measures, and half of ten interrupts in a second were told."""
        seconds = setting.whole_s
        return Expected(
            threads=(),
            duration_s=seconds,
            counts=(Count(measurement="wakeups", least=0.5 * seconds * _BEATS_PER_S),),
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `latency` (histogram), `latency.min`, `.avg`, `.max` and `wakeups`, of what came while it was read.

        Raises:
            ParseError: no inmate or more than one ran all the time, or the output is missing, damaged, or contradicts
                itself.
        """
        check_end("jailhouse", output)
        text = output.text("tool.out")
        inmate = _running_inmate(text)
        values = _values(text)
        unit = output.nanosecond
        limit = self.range_us * 1000
        counts = Counter(value for value in values if value < limit)
        histogram = Histogram(
            unit=unit, counts=dict(sorted(counts.items())), overflow=len(values) - counts.total(), limit=limit
        )
        labels = {"cell": inmate}
        figures = (float(min(values)), sum(values) / len(values), float(max(values)))
        return (
            Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels=labels),
            *time_figures("latency", figures, unit, labels),
            count("wakeups", len(values), Better.NEITHER, labels),
        )


def _running_inmate(text: str) -> str:
    """Return the name of the one inmate that runs before and after. Raises ParseError."""
    lists: list[list[str]] = [
        [name for number, name, state in _CELL.findall(cells) if number != "0" and state.startswith("running")]
        for cells in _CELLS.findall(text)
    ]
    if len(lists) != 2:
        raise ParseError(f"jailhouse listed its cells {len(lists)} times instead of twice: {text.strip()[:300]!r}")
    if lists[0] != lists[1] or len(lists[0]) != 1:
        before, after = (", ".join(names) or "none" for names in lists)
        raise ParseError(f"one inmate must run, before and after: of Jailhouse's ran {before}, and {after} afterwards")
    return lists[0][0]


def _values(text: str) -> Sequence[int]:
    """Return the jitter of the lines that came while the console was read, in nanoseconds. Raises ParseError."""
    backlog = _KEPT.search(text)
    if backlog is None:
        raise ParseError(f"nobody counted what Jailhouse's console had kept: {text.strip()[:300]!r}")
    ticks = [line for line in text[backlog.end() :].splitlines() if line.startswith("Timer fired")]
    lines = [_LINE.fullmatch(line) for line in ticks]
    for line, match in zip(ticks, lines, strict=True):
        # The console is a ring, so the first line that it keeps may lack its beginning, and the last its end.
        if match is None and line not in (ticks[0], ticks[-1]):
            raise ParseError(f"a line of the inmate is damaged: {line[:100]!r}")
    numbers = [tuple(map(int, match.groups())) for match in lines if match]
    new = numbers[int(backlog[1]) :]
    if not new:
        raise ParseError("the inmate printed nothing while its console was read: is it gic-demo or apic-demo?")
    for jitter, least, most in new:
        if not least <= jitter <= most:
            raise ParseError(f"the inmate contradicts itself: {jitter} ns is not between {least} and {most} ns")
    return [jitter for jitter, _, _ in new]
