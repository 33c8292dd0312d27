# SPDX-License-Identifier: MIT
"""Whether a queue of packets overflows while the program that drains it is interrupted."""

from rtgate.plugin import Measure, cases
from rtgate.tools.queuelat import Queuelat


@cases(Queuelat(), "idle")
def test_queuelat(measure: Measure) -> None:
    """A SCHED_FIFO 1 program on the last measured CPU drains a queue that holds 20 us of work."""
    measure()
