# SPDX-License-Identifier: MIT
"""How fast interrupts cross a link between Rockchip's endpoint and root complex. Skipped where nothing counts them."""

from rtgate.plugin import Measure, cases
from rtgate.tools.interrupt_rate import ElbiRate, MsiRate


@cases(MsiRate(), "idle", "stress-ng")
def test_msi_rate(measure: Measure) -> None:
    """The endpoint raises MSIs back to back, the root complex counts: a rate under saturation, no latency."""
    measure()


@cases(ElbiRate(), "idle", "stress-ng")
def test_elbi_rate(measure: Measure) -> None:
    """The root complex raises ELBI interrupts back to back, the endpoint counts."""
    measure()
