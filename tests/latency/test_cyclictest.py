# SPDX-License-Identifier: MIT
"""How late a periodic real-time thread wakes up, on every CPU, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.cyclictest import Cyclictest

NAMED = ("stress", "game", "dd-hackbench", "disk", "network", "syscalls")


@cases(Cyclictest(), "idle", "hackbench", "stress-ng", named=NAMED)
def test_cyclictest(measure: Measure) -> None:
    """Every 1 ms a SCHED_FIFO 99 thread per CPU asks to be woken; its lateness is the latency."""
    measure()
