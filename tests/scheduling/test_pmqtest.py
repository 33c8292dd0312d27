# SPDX-License-Identifier: MIT
"""How long a message takes through a POSIX message queue, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pairs import Pmqtest


@cases(Pmqtest(), "idle", "hackbench")
def test_pmqtest(measure: Measure) -> None:
    """On each CPU a SCHED_FIFO 99 thread sends another a message about every 1 ms; the time until it has it counts."""
    measure()
