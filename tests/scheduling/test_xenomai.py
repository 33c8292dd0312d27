# SPDX-License-Identifier: MIT
"""Whether Cobalt does what it should. Skipped where there is no Cobalt."""

from rtgate.plugin import Measure, cases
from rtgate.tools.xenomai import XenomaiSmokey, XenomaiSwitchtest


@cases(XenomaiSwitchtest(), "idle")
def test_switchtest(measure: Measure) -> None:
    """Threads of all kinds take turns on every CPU; each must find its registers as it left them."""
    measure()


@cases(XenomaiSmokey(), "idle")
def test_smokey(measure: Measure) -> None:
    """Xenomai's functional tests, each of which passes, fails, or lacks support in the kernel."""
    measure()
