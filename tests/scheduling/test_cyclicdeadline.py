# SPDX-License-Identifier: MIT
"""How late a SCHED_DEADLINE thread is given the CPU, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.cyclicdeadline import Cyclicdeadline


@cases(Cyclicdeadline(), "idle", "hackbench")
def test_cyclicdeadline(measure: Measure) -> None:
    """A SCHED_DEADLINE thread per CPU runs once in every period of 4 ms; how late is the latency."""
    measure()
