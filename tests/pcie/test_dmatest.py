# SPDX-License-Identifier: MIT
"""How fast Rockchip's endpoint and root complex move memory by DMA. Skipped where the kernel has no dmatest."""

from rtgate.plugin import Measure, cases
from rtgate.tools.dmatest import Dmatest, DmatestRkep


@cases(Dmatest(), "idle", "stress-ng")
def test_dmatest(measure: Measure) -> None:
    """Transfers of 64 B to 4 MB both ways by the driver of the side that has the DMA; failed ones are FAIL."""
    measure()


@cases(DmatestRkep(), "idle")
def test_dmatest_rkep(measure: Measure) -> None:
    """The same from the root complex, which works the endpoint's DMA through its BAR 4."""
    measure()
