# SPDX-License-Identifier: MIT
"""How late a real-time thread handles a message-signalled interrupt, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.edu import EduMsi


@cases(EduMsi(), "idle", "hackbench")
def test_edu(measure: Measure) -> None:
    """Every 1 ms QEMU's edu raises an MSI, which wakes a SCHED_FIFO 90 thread through vfio-pci and an eventfd."""
    measure()
