# SPDX-License-Identifier: MIT
"""Which tools' measurements can be found in a trace, and by what."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.errors import ConfigError
from rtgate.explain.cobalt import CobaltWakeUps
from rtgate.explain.intervals import IntervalFinder
from rtgate.explain.roundtrips import RoundTrips
from rtgate.explain.wakeups import WakeUps
from rtgate.tools.case_name import CaseName
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.preemptirq import Preemptirq
from rtgate.tools.signaltest import Signaltest
from rtgate.tools.xenomai import XenomaiLatency

FINDERS: Mapping[str, IntervalFinder] = {
    Cyclictest.name: WakeUps(),
    Preemptirq.name: WakeUps(),
    Signaltest.name: RoundTrips(),
    XenomaiLatency.name: CobaltWakeUps(),
}
"""By the name of the tool."""


def finder(case: str) -> IntervalFinder:
    """Return what finds the measurements of a case. Raises ConfigError: its tool cannot be explained."""
    tool_finder = FINDERS.get(CaseName.parse(case).tool)
    if tool_finder is None:
        raise ConfigError(f"{case}: a trace shows what {', '.join(FINDERS)} measure, and not what this tool does")
    return tool_finder
