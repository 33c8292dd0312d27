# SPDX-License-Identifier: MIT
"""How late the timer of a cell without Linux is, beside the root cell. Skipped where Jailhouse is not enabled."""

from rtgate.plugin import Measure, cases
from rtgate.tools.jailhouse import JailhouseDemo


@cases(JailhouseDemo(), "idle", "hackbench")
def test_demo(measure: Measure) -> None:
    """Some ten times in a second the demo inmate says how late its timer interrupt was."""
    measure()
