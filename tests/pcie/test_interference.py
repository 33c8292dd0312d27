# SPDX-License-Identifier: MIT
"""What DMA does to real-time threads, and they to it: both numbers stand in one record."""

from rtgate.plugin import Measure, cases
from rtgate.tools.cyclictest import Cyclictest


@cases(Cyclictest(), "edu-dma")
def test_interference(measure: Measure) -> None:
    """Cyclictest while a device moves blocks through the IOMMU, of which every byte is compared."""
    measure()


@cases(Cyclictest(), "dmatest", "dmatest-rkep")
def test_interference_of_an_endpoint(measure: Measure) -> None:
    """Cyclictest while Rockchip's endpoint moves memory across the link, on either side of it."""
    measure()
