# SPDX-License-Identifier: MIT
"""How late a periodic real-time thread wakes up, on every CPU, with and without load."""

import pytest

from rtgate.plugin import Measure
from rtgate.tools.cyclictest import Cyclictest


@pytest.mark.parametrize("load", ["idle", "hackbench", "stress-ng"])
def test_cyclictest(measure: Measure, load: str) -> None:
    """Every 1 ms a SCHED_FIFO 99 thread per CPU asks to be woken; its lateness is the latency."""
    measure(Cyclictest(), load)
