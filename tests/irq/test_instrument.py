# SPDX-License-Identifier: MIT
"""How late a board answers an interrupt from outside, timed by an instrument, with and without load."""

from rtgate.plugin import Measure, cases
from rtgate.tools.irq_instrument import IrqInstrumentHard, IrqInstrumentThreaded


@cases(IrqInstrumentHard(), "idle", "hackbench")
def test_hard(measure: Measure) -> None:
    """A pulse once in 1 ms raises a GPIO line; a handler in hard-interrupt context answers by another one."""
    measure()


@cases(IrqInstrumentThreaded(), "idle", "hackbench")
def test_threaded(measure: Measure) -> None:
    """The same, answered by a threaded handler (SCHED_FIFO 50)."""
    measure()
