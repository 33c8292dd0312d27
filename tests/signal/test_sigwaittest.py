# SPDX-License-Identifier: MIT
"""How long a thread that waits for a signal in `sigwait` takes to get it, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pairs import Sigwaittest


@cases(Sigwaittest(), "idle", "hackbench")
def test_sigwaittest(measure: Measure) -> None:
    """On each CPU a SCHED_FIFO thread signals another about every 1 ms; the time until that one runs is measured."""
    measure()
