# SPDX-License-Identifier: MIT
"""Interrupts between Rockchip's endpoint and root complex: how many arrive when they are raised back to back.

What is measured is a rate under saturation and its inverse. It is no latency.

The side that receives prints a line a second, in the format of the vendor's performance guide; rtgate's modules
(target/modules) add what makes it exact::

    msi count=4000123 2us                                   a driver with the guide's snippet
    msi count=4000123 2us +483911 in 1000004102ns           rtgate's module

* `count` is a 32-bit int of the kernel, which wraps after 71 minutes at 500 000 a second.
* The guide's period is the integer quotient of a second and the difference: 2 us stands for 333 334 to 500 000 in a
  second. So the period is computed from counts and the log's times, or from the exact difference.
* Without a new interrupt the snippet divides by zero: 0 us on arm64. rtgate's modules print `0us +0`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, frequency, kernel_log, time
from rtgate.tools.kernel_log import KernelLine
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end

_COUNT = re.compile(
    r"(?:^|[ :])(?P<kind>msi|elbi) count=(?P<count>-?[0-9]{1,10}) (?P<us>[0-9]{1,20})us"
    r"(?: \+(?P<new>[0-9]{1,10}) in (?P<ns>[0-9]{1,15})ns)?$"
)
_WRAP = 1 << 32
_LEAST_LINES = 3  # two differences: one alone cannot show that it stopped
_EDGES_S = 2.5  # of a run that lie before its first and after its last line
_PERIOD_S = 1.5  # between two lines; the printer sleeps for one second
_AGREE = 0.02  # between the exact difference and the log's times, which are those of the printing


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """What came between two lines.

    Attributes:
        seconds: how long it was.
    """

    interrupts: int
    seconds: float


def seconds(kind: str, log: Sequence[KernelLine]) -> tuple[Second, ...]:
    """Return what came between each two lines of a kind.

    Raises:
        ParseError: there are too few lines, they have no times, come irregularly, or contradict themselves.
    """
    matches = [(line, match) for line in log for match in [_COUNT.search(line.text)] if match and match["kind"] == kind]
    if len(matches) < _LEAST_LINES:
        raise ParseError(f"the kernel's log has {len(matches)} lines `{kind} count=`, {_LEAST_LINES} are needed")
    return tuple(_between(before, after) for before, after in pairwise(matches))


def _between(before: tuple[KernelLine, re.Match[str]], after: tuple[KernelLine, re.Match[str]]) -> Second:
    (earlier, first), (later, last) = before, after
    interrupts = (int(last["count"]) - int(first["count"])) % _WRAP
    statement = None if last["ns"] is None else Second(interrupts=int(last["new"]), seconds=int(last["ns"]) / 1e9)
    if statement is not None and statement.interrupts != interrupts:
        raise ParseError(f"the counts differ by {interrupts}, not as the line says: {last[0].strip()}")
    if earlier.seconds is None or later.seconds is None:
        if statement is None:
            raise ParseError("the kernel's log has no times (printk.time=1), so nobody knows what a count stands for")
        return _regular(statement)
    span = Second(interrupts=interrupts, seconds=later.seconds - earlier.seconds)
    if statement is not None and not math.isclose(statement.seconds, span.seconds, rel_tol=_AGREE):
        raise ParseError(f"the log's times are {span.seconds:.3f} s apart, not as the line says: {last[0].strip()}")
    return _regular(statement or span)


def _regular(second: Second) -> Second:
    if not 0 < second.seconds <= _PERIOD_S:
        raise ParseError(f"a line of counts came after {second.seconds:.3f} s instead of 1: lines are missing")
    return second


@dataclass(frozen=True, slots=True, kw_only=True)
class MsiRate(Tool):
    """Message-signalled interrupts that the root complex receives from the endpoint. Run on the root complex.

    Attributes:
        least_s: the shortest run: lines come once a second.
    """

    least_s: int = 5

    kind: ClassVar[str] = "msi"
    name: ClassVar[str] = "msi-rate"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="{ [ -d /sys/module/rtgate_msi_count ] || dmesg | grep -q 'msi count='; }",
            reason="nothing counts MSIs: neither the module rtgate_msi_count nor a driver with the guide's counters",
        ),
        kernel_log.WRITABLE,
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "period": Reports.TIME,
        "period.max": Reports.TIME,
        "rate": Reports.FREQUENCY,
        "interrupts": Reports.COUNT,
        "seconds.silent": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: it waits while the module prints."""
        return ("sh", "-c", f"{kernel_log.SHELL}begin\nsleep {setting.at_least(self.least_s)}\nend\n")

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        return Expected(threads=(), duration_s=setting.at_least(self.least_s))

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return how often interrupts came, and the time from one to the next on average and in the worst second.

        Raises:
            ParseError: no interrupt came, lines are missing, or they contradict themselves.
        """
        check_end(self.name, output)
        spans = seconds(self.kind, kernel_log.lines(self.name, output))
        interrupts, duration_s = sum(span.interrupts for span in spans), sum(span.seconds for span in spans)
        if not interrupts:
            raise ParseError(
                f"no {self.kind.upper()} came in {duration_s:.1f} s: is the sender loaded on the other side "
                "(target/modules), is the link up?"
            )
        if duration_s < output.setting.at_least(self.least_s) - _EDGES_S:
            raise ParseError(
                f"counts stand for {duration_s:.1f} s of {output.setting.at_least(self.least_s)} s: the printer stopped"
            )
        slowest = max(span.seconds / span.interrupts for span in spans if span.interrupts)
        return (
            time("period", duration_s / interrupts * 1e6, output.microsecond),
            time("period.max", slowest * 1e6, output.microsecond),
            frequency("rate", interrupts / duration_s, output.per_second),
            count("interrupts", interrupts, Better.HIGHER),
            count("seconds.silent", sum(not span.interrupts for span in spans), Better.LOWER),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElbiRate(MsiRate):
    """Interrupts through the endpoint's ELBI that the root complex raises. Run on the endpoint."""

    kind: ClassVar[str] = "elbi"
    name: ClassVar[str] = "elbi-rate"
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="{ [ -d /sys/module/rtgate_elbi_count ] || dmesg | grep -q 'elbi count='; }",
            reason="nothing counts ELBI interrupts: neither the module rtgate_elbi_count nor a driver with the "
            "guide's counters",
        ),
        kernel_log.WRITABLE,
    )
