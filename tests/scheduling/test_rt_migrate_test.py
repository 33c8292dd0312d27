# SPDX-License-Identifier: MIT
"""Whether real-time tasks of higher priority get a CPU before those of lower priority."""

from rtgate.plugin import Measure, cases
from rtgate.tools.rt_migrate_test import RtMigrateTest


@cases(RtMigrateTest(), "idle")
def test_rt_migrate_test(measure: Measure) -> None:
    """Five times a second one task more than there are CPUs is woken, each with a SCHED_FIFO priority of its own."""
    measure()
