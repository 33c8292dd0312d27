# SPDX-License-Identifier: MIT
"""What a busy NVMe disk does to real-time threads, and they to it: both numbers stand in one record."""

from rtgate.plugin import Measure, cases
from rtgate.tools.cyclictest import Cyclictest


@cases(Cyclictest(), "fio-write", "fio-randread")
def test_interference(measure: Measure) -> None:
    """Cyclictest while fio runs, and fio while cyclictest runs: most bytes by DMA, and most interrupts."""
    measure()
