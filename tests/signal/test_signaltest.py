# SPDX-License-Identifier: MIT
"""How long a signal takes between real-time threads, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.signaltest import Signaltest


@cases(Signaltest(), "idle", "hackbench")
def test_signaltest(measure: Measure) -> None:
    """A signal goes round a ring of SCHED_FIFO 99 threads, one per CPU; the time of a round is measured."""
    measure()
