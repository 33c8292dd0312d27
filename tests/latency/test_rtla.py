# SPDX-License-Identifier: MIT
"""What the kernel's own tracers see of latencies and noise, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.rtla import RtlaOsnoise, RtlaTimerlat


@cases(RtlaTimerlat(), "idle", "hackbench")
def test_timerlat(measure: Measure) -> None:
    """Every 1 ms a timer wakes a SCHED_FIFO 95 thread of the kernel per CPU: how late are interrupt and thread?"""
    measure()


@cases(RtlaOsnoise(), "idle", "stress-ng")
def test_osnoise(measure: Measure) -> None:
    """A SCHED_FIFO 1 thread of the kernel per CPU watches the clock, 80 % of the time: what takes the CPU from it?"""
    measure()
