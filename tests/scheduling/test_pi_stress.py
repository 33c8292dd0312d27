# SPDX-License-Identifier: MIT
"""Whether threads that lend each other their priority all the time keep going."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pi_stress import PiStress


@cases(PiStress(), "idle")
def test_pi_stress(measure: Measure) -> None:
    """Groups of three SCHED_FIFO threads share a mutex with priority inheritance; no group may stand still."""
    measure()
