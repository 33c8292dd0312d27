# SPDX-License-Identifier: MIT
"""Whether SCHED_DEADLINE threads meet their deadlines."""

from rtgate.plugin import Measure, cases
from rtgate.tools.deadline_test import DeadlineTest


@cases(DeadlineTest(), "idle")
def test_deadline_test(measure: Measure) -> None:
    """SCHED_DEADLINE threads that use half of their runtime must not miss a deadline or a period in 10 s."""
    measure()
