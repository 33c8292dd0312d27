# SPDX-License-Identifier: MIT
"""How long the hardware or its firmware stops a CPU, which no kernel can help."""

from rtgate.plugin import Measure, cases
from rtgate.tools.hwlatdetect import Hwlatdetect


@cases(Hwlatdetect(), "idle")
def test_hwlatdetect(measure: Measure) -> None:
    """A kernel thread watches the clock with interrupts off, half of the time and on one CPU after the other."""
    measure()
