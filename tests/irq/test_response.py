# SPDX-License-Identifier: MIT
"""How late the kernel answers an interrupt of a device, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.irq_response import IrqHard, IrqThreaded


@cases(IrqHard(), "idle", "hackbench")
def test_hard(measure: Measure) -> None:
    """A device's timer raises an interrupt once in 1 ms; a handler in hard-interrupt context answers it."""
    measure()


@cases(IrqThreaded(), "idle", "hackbench")
def test_threaded(measure: Measure) -> None:
    """The same, answered by a threaded handler (SCHED_FIFO 50)."""
    measure()
