# SPDX-License-Identifier: MIT
"""clocktest, a program of Xenomai 3: does Cobalt's wall clock go backwards, or away from Linux's?

Facts of Xenomai 3.0 to 3.3 (testsuite/clocktest/clocktest.c):

* A thread per CPU reads the clock a hundred times about every millisecond, and compares with what was read last on any
  CPU. A clock that went back is a warp.
* The table is printed every 250 ms, each time over the last one; the first one is all zero.
* The alarm that `-T` sets ends it with 0.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.threads import SCHED_FIFO, Threads, ThreadScope
from rtgate.tools.xenomai import COBALT, PROGRAMS, WHOLE, program_message
from rtgate.units import Quantity, Unit

_TABLES_PER_S = 4
_NUMBER = r"(-?[0-9]{1,24}\.[0-9]{1,3}|-?nan|-?inf)"
_ROW = re.compile(rf"^(?:\x1b\[[0-9]+A)? *([0-9]{{1,4}}) +{_NUMBER} +{_NUMBER} +({WHOLE}) +{_NUMBER}$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class XenomaiClocktest(Tool):
    """clocktest: how far does Cobalt's wall clock go from Linux's, and does it ever go back?

    It has no options here: the default clock, which is the wall clock, on every CPU of Cobalt.
    """

    name: ClassVar[str] = "xenomai-clocktest"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    needs: ClassVar[tuple[Need, ...]] = COBALT
    reports: ClassVar[Mapping[str, Reports]] = {
        "warps": Reports.FAILURES,
        "warp.furthest": Reports.TIME,
        "drift": Reports.RATIO,
        "rounds": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        return (*PROGRAMS, "clocktest", "-T", f"{math.ceil(setting.duration_s)}")

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: a thread per CPU, and nine in ten of its tables.

        Linux sets neither clock meanwhile.
        """
        seconds = math.ceil(setting.duration_s)
        return Expected(
            threads=(Threads(count=setting.cpus, policy=SCHED_FIFO, priority=1),),
            duration_s=seconds,
            seen=ThreadScope.SESSION,
            counts=(Count(measurement="rounds", least=0.9 * _TABLES_PER_S * seconds),),
            clock=True,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return per CPU: `warps`, `warp.furthest`, `drift` from Linux's clock without its sign, and `rounds`.

        Raises:
            ParseError: it failed, was stopped, or its output is missing, damaged, or contradicts itself.
        """
        check_end("clocktest", output)
        text = output.text("tool.out")
        rows: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        for cpu, *figures in _ROW.findall(text):
            rows[int(cpu)].append(tuple(figures))
        if "== Testing built-in CLOCK_REALTIME (0)" not in text.splitlines() or not rows:
            raise ParseError(f"clocktest printed no table of CLOCK_REALTIME: {program_message(output)}")
        if len({len(tables) for tables in rows.values()}) != 1:
            raise ParseError(f"clocktest's last table is not whole: {text[-200:].strip()}")
        return tuple(one for cpu, tables in sorted(rows.items()) for one in _cpu(str(cpu), tables, output))


def _cpu(cpu: str, tables: list[tuple[str, ...]], output: Output) -> tuple[Measurement, ...]:
    _, drift, warps, largest = tables[-1]
    before = [int(table[2]) for table in tables]
    if before != sorted(before) or not math.isfinite(float(drift)) or (int(warps) > 0) != (float(largest) > 0):
        raise ParseError(f"clocktest contradicts itself on CPU {cpu}: drift {drift}, warps {before[-1]}, {largest} us")
    labels = {"cpu": cpu}
    return (
        count("warps", int(warps), Better.LOWER, labels),
        Measurement(
            name="warp.furthest",
            better=Better.LOWER,
            labels=labels,
            quantity=Quantity(float(largest), output.microsecond),
        ),
        # Printed in microseconds per second.
        Measurement(
            name="drift", better=Better.LOWER, labels=labels, quantity=Quantity(abs(float(drift)) / 1e6, Unit.RATIO)
        ),
        count("rounds", len(tables), Better.NEITHER, labels),
    )
