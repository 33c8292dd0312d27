# SPDX-License-Identifier: MIT
"""Whether a device's DMA goes where it should, through the IOMMU, and nowhere else."""

from rtgate.plugin import Measure, cases
from rtgate.tools.edu import EduDma


@cases(EduDma(), "idle")
def test_edu(measure: Measure) -> None:
    """QEMU's edu moves blocks of random bytes in both directions; all of them and all around them are compared."""
    measure()
