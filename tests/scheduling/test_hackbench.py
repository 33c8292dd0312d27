# SPDX-License-Identifier: MIT
"""How long a fixed number of messages between processes takes: wake-ups, context switches, socket calls."""

from rtgate.plugin import Measure, cases
from rtgate.tools.hackbench import Hackbench


@cases(Hackbench(), "idle")
def test_hackbench(measure: Measure) -> None:
    """A group of ten senders and ten receivers per CPU."""
    measure()
