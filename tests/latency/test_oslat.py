# SPDX-License-Identifier: MIT
"""For how long a program that never sleeps is interrupted, on every CPU but the first."""

from rtgate.plugin import Measure, cases
from rtgate.tools.oslat import Oslat


@cases(Oslat(), "idle")
def test_oslat(measure: Measure) -> None:
    """A SCHED_FIFO 1 thread per measured CPU reads the counter without a pause; on a single CPU it is SCHED_OTHER."""
    measure()
