# SPDX-License-Identifier: MIT
"""Whether every PCI Express function that the board should have is there, with the link that it should have."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pcie_link import PcieLink


@cases(PcieLink(), "idle")
def test_link(measure: Measure) -> None:
    """Capability against status of each function and its port: generation, width, payload, read request, ASPM."""
    measure()
