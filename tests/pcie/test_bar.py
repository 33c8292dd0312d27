# SPDX-License-Identifier: MIT
"""How fast a CPU stores to and loads from the memory of a PCI function, and whether the data is right."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pcie_bar import PcieBar


@cases(PcieBar(), "idle")
def test_bar(measure: Measure) -> None:
    """Stores and loads of 32, 64 and 128 bits, memset and memcpy, by one thread and by one on each CPU."""
    measure()
