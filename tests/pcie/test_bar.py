# SPDX-License-Identifier: MIT
"""How fast a CPU stores to and loads from the memory of a PCI function, and whether the data is right."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pcie_bar import PcieBar, PcieBarKernel, PcieBarWriteCombining


@cases(PcieBar(), "idle")
def test_bar(measure: Measure) -> None:
    """Stores and loads of 32, 64 and 128 bits, memset and memcpy, by one thread and by one on each CPU."""
    measure()


@cases(PcieBarWriteCombining(), "idle")
def test_bar_write_combining(measure: Measure) -> None:
    """The same on a mapping in which the CPU gathers neighbouring stores."""
    measure()


@cases(PcieBarKernel(), "idle")
def test_bar_kernel(measure: Measure) -> None:
    """The kernel's own stores and loads of 32 bits, `memset_io` and both copies."""
    measure()
