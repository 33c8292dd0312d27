# SPDX-License-Identifier: MIT
"""How late Cobalt wakes up a periodic thread. Skipped where there is no Cobalt."""

from rtgate.plugin import Measure, cases
from rtgate.tools.xenomai import XenomaiLatency, XenomaiLatencyIrq, XenomaiLatencyKernel
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest


@cases(XenomaiLatency(), "idle", "hackbench")
def test_latency(measure: Measure) -> None:
    """Every 1 ms a task of Cobalt on CPU 0 is woken up; overruns and switches to Linux are counted."""
    measure()


@cases(XenomaiLatencyKernel(), "idle", "hackbench")
def test_latency_kernel(measure: Measure) -> None:
    """The same for a task of Cobalt in the kernel."""
    measure()


@cases(XenomaiLatencyIrq(), "idle", "hackbench")
def test_latency_irq(measure: Measure) -> None:
    """The same for the handler of Cobalt's timer."""
    measure()


@cases(XenomaiCyclictest(), "idle", "hackbench", named=("stress", "stress-ng", "game", "dd-hackbench"))
def test_cyclictest(measure: Measure) -> None:
    """The same on every CPU, measured by Xenomai's own cyclictest."""
    measure()
