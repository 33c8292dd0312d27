# SPDX-License-Identifier: MIT
"""Whether Cobalt does what it should. Skipped where there is no Cobalt."""

from rtgate.plugin import Measure, cases
from rtgate.tools.xenomai import XenomaiSwitchtest
from rtgate.tools.xenomai_clocktest import XenomaiClocktest
from rtgate.tools.xenomai_smokey import XenomaiSmokey


@cases(XenomaiSwitchtest(), "idle")
def test_switchtest(measure: Measure) -> None:
    """Threads of all kinds take turns on every CPU; each must find its registers as it left them."""
    measure()


@cases(XenomaiClocktest(), "idle", "hackbench")
def test_clocktest(measure: Measure) -> None:
    """Cobalt's wall clock must never go backwards; how far it goes from Linux's is shown."""
    measure()


@cases(XenomaiSmokey(), "idle")
def test_smokey(measure: Measure) -> None:
    """Xenomai's functional tests, each of which passes, fails, or lacks support in the kernel."""
    measure()
