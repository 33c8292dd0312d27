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
from rtgate.tools.threads import SCHED_FIFO, Threads
from rtgate.tools.xenomai import COBALT, PROGRAMS, WHOLE
from rtgate.units import Quantity, Unit

_TABLES_PER_S = 4
_NUMBER = r"-?[0-9]{1,24}\.[0-9]"
_DRIFT = r"(-?[0-9]{1,24}\.[0-9]{3}|-?nan|-?inf)"
_ROW = re.compile(rf"(?:\x1b\[[0-9]+A)? *([0-9]{{1,4}}) +{_NUMBER} +{_DRIFT} +({WHOLE}) +([0-9]{{1,18}}\.[0-9])")
_UP = re.compile(r"\x1b\[[0-9]+A\Z")  # the alarm may come between a table and the next one
_HEAD = 3  # lines above the table


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
        return (*PROGRAMS, "clocktest", "-T", f"{setting.whole_s}")

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: a thread per CPU, and nine in ten of its tables.

        Linux sets neither clock meanwhile.
        """
        seconds = setting.whole_s
        return Expected(
            threads=(Threads(count=setting.cpus, policy=SCHED_FIFO, priority=1),),
            duration_s=seconds,
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
        lines = _UP.sub("", text).split("\n")
        if lines[0] != "== Testing built-in CLOCK_REALTIME (0)" or len(lines) <= _HEAD + 1:
            raise ParseError(f"clocktest printed no table of CLOCK_REALTIME: {output.message}")
        rows = _rows(lines[_HEAD:-1])
        cpus = output.setting.cpus
        if lines[-1] or len(rows) != cpus or len({len(tables) for tables in rows.values()}) != 1:
            raise ParseError(f"clocktest's last table is not whole, with a row for {cpus} CPUs: {text[-200:].strip()}")
        return tuple(
            measurement for cpu, tables in sorted(rows.items()) for measurement in _cpu(str(cpu), tables, output)
        )


def _rows(lines: list[str]) -> dict[int, list[tuple[str, str, str]]]:
    """Return drift, warps and the largest warp of each table, by CPU. Raises ParseError: a line is something else."""
    rows: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for line in lines:
        row = _ROW.fullmatch(line)
        if row is None:
            raise ParseError(f"clocktest's table has a line that is not a row: {line[:200]!r}")
        rows[int(row[1])].append((row[2], row[3], row[4]))
    return rows


def _cpu(cpu: str, tables: list[tuple[str, str, str]], output: Output) -> tuple[Measurement, ...]:
    drift, warps, largest = tables[-1]
    before = [int(table[1]) for table in tables]
    # A warp of less than 50 ns is printed as 0.0 us.
    if before != sorted(before) or not math.isfinite(float(drift)) or (float(largest) > 0 and not int(warps)):
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
