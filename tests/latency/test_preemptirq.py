# SPDX-License-Identifier: MIT
"""The longest critical sections, by tracepoints that only a kernel for finding them has. Skipped without."""

from rtgate.plugin import Measure, cases
from rtgate.tools.preemptirq import Preemptirq


@cases(Preemptirq(), "idle", "hackbench", "stress-ng")
def test_preemptirq(measure: Measure) -> None:
    """Every section with interrupts or preemption off is measured; the ten longest sites of each kind are named."""
    measure()
