# SPDX-License-Identifier: MIT
"""Whether a mutex that processes share lends priority."""

from rtgate.plugin import Measure, cases
from rtgate.tools.pip_stress import PipStress


@cases(PipStress(), "idle")
def test_pip_stress(measure: Measure) -> None:
    """A high process waits for a low one that a medium one keeps from running; only inheritance ends that."""
    measure()
