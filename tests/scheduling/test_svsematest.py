# SPDX-License-Identifier: MIT
"""How long a thread takes to get a System V semaphore that another one releases, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pairs import Svsematest


@cases(Svsematest(), "idle", "hackbench")
def test_svsematest(measure: Measure) -> None:
    """On each CPU a SCHED_FIFO 99 thread releases a semaphore that another waits for, about every 1 ms."""
    measure()
