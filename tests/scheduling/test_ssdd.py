# SPDX-License-Identifier: MIT
"""Whether processes that are traced step by step, many at once, stop where they should."""

from rtgate.plugin import Measure, cases
from rtgate.tools.ssdd import Ssdd


@cases(Ssdd(), "idle")
def test_ssdd(measure: Measure) -> None:
    """Ten tracers single-step a process each; no step and no signal of it may get lost."""
    measure()
