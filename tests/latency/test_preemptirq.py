# SPDX-License-Identifier: MIT
"""Critical sections and the bound of a wake-up, by tracepoints that only a kernel for finding them has."""

from rtgate.plugin import Measure, cases
from rtgate.tools.preemptirq import Preemptirq


@cases(Preemptirq(), "idle", "hackbench", "stress-ng")
def test_preemptirq(measure: Measure) -> None:
    """Every section with interrupts or preemption off is measured while cyclictest runs; the longest are named."""
    measure()
