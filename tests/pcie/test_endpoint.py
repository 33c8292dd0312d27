# SPDX-License-Identifier: MIT
"""Whether an endpoint with mainline's pci-epf-test works. Skipped where there is none, or no program to test it."""

from rtgate.plugin import Measure, cases
from rtgate.tools.endpoint_test import EndpointKselftest, Pcitest


@cases(EndpointKselftest(), "idle")
def test_pci_endpoint_test(measure: Measure) -> None:
    """The kernel's own test: BARs, interrupts, transfers of 1 byte to 1 MB by CPU and by DMA with checksums."""
    measure()


@cases(Pcitest(), "idle")
def test_pcitest(measure: Measure) -> None:
    """The same without DMA by the older program, for kernels whose driver says 1 for passed."""
    measure()
