# SPDX-License-Identifier: MIT
"""pi_stress: groups of three threads bring about priority inversions, which priority inheritance has to resolve.

Facts of rt-tests 2.4 to 2.10 that this module depends on (src/pi_tests/pi_stress.c). The main thread looks at the
groups every 0.75 s; a group that did nothing five times in a row is reported on standard error, and the tool then
sends SIGTERM to its process group, which ends it before it writes results: exit code 143, no JSON, no summary. A group
that stands still in the last 4 s of a run is not reported at all: the tool waits for its threads for ever. The length
of a run is read from the wall clock in whole seconds at those moments, so it is up to 1.75 s more than was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.rt_tests import check_end, document
from rtgate.tools.threads import SCHED_FIFO, SCHED_RR, Threads, ThreadScope

JSON = "pi_stress.json"
_PRIORITIES = (1, 2, 3)  # low, medium and high thread of each group; the main thread has 4 (setup_sched_config)
_LEAST_PER_S = 100  # inversions of a run that worked; a virtual-time board makes 2 900
_DEADLOCKED = re.compile(r"WATCHDOG triggered: group ([0-9]+) is deadlocked")
_TOTAL = re.compile(r"^Total inversion performed: ([0-9]{1,18})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PiStress(Tool):
    """Options of pi_stress.

    Attributes:
        round_robin: SCHED_RR for all threads instead of SCHED_FIFO.
        verbose: let it tell what it does, which is not read.
    """

    round_robin: bool = False
    verbose: bool = False

    name: ClassVar[str] = "pi_stress"
    suites: ClassVar[tuple[str, ...]] = ("scheduling",)
    reports: ClassVar[Mapping[str, Reports]] = {"inversions": Reports.COUNT, "failures": Reports.FAILURES}

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        return (
            *(
                "pi_stress",
                "--verbose" if self.verbose else "--quiet",
                f"--duration={setting.whole_s}",
                f"--groups={_groups(setting)}",
            ),
            *(f"--json={JSON}", *(("--rr",) if self.round_robin else ())),
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: a low, a medium and a high thread of each group.

        A boost by inheritance does not show: /proc gives the priority that a thread was given.
        """
        seconds, groups = setting.whole_s, _groups(setting)
        policy = SCHED_RR if self.round_robin else SCHED_FIFO
        return Expected(
            threads=tuple(Threads(count=groups, policy=policy, priority=priority) for priority in _PRIORITIES),
            duration_s=seconds,
            seen=ThreadScope.OWN,
            counts=(Count(measurement="inversions", least=_LEAST_PER_S * seconds),),
            clock=True,
            ends_with="failures",
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `failures`, and `inversions` unless a failure kept the tool from counting them.

        A group that stands still is the kernel's failure. It is reported, or shows in a run that never ends although
        the tool had nothing to complain about.

        Raises:
            ParseError: it did not run, was ended by something else, or its output is missing, damaged or contradicts
                itself.
        """
        message = output.text("tool.err").strip()
        deadlocks = set(_DEADLOCKED.findall(message))
        if deadlocks:
            return (count("failures", len(deadlocks), Better.LOWER),)
        if output.text("tool.deadline").strip() and not message and not output.text("tool.out").strip():
            return (count("failures", 1, Better.LOWER),)
        check_end("pi_stress", output)
        return (count("failures", 0, Better.LOWER), count("inversions", _inversions(output), Better.NEITHER))


def _groups(setting: Setting) -> int:
    """Return how many groups to run: one per CPU but the first, where the main thread looks at them."""
    return max(1, setting.cpus - 1)


def _inversions(output: Output) -> int:
    report = document("pi_stress", output.text(JSON))
    code, inversions = report.integer("return_code"), report.integer("inversion")
    summary = _TOTAL.search(output.text("tool.out"))
    if summary is None:
        raise ParseError("pi_stress printed no summary")
    if code != 0 or int(summary[1]) != inversions:
        raise ParseError(
            f"pi_stress contradicts itself: exit code 0 and {code}, {summary[1]} and {inversions} inversions"
        )
    if inversions <= 0:
        raise ParseError("pi_stress brought about no inversion")
    return inversions
