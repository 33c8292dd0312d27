# SPDX-License-Identifier: MIT
"""How long a thread takes to get a pthread mutex that another one releases, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pairs import Ptsematest


@cases(Ptsematest(), "idle", "hackbench")
def test_ptsematest(measure: Measure) -> None:
    """On each CPU a SCHED_FIFO 99 thread releases a mutex that another waits for, about every 1 ms."""
    measure()
