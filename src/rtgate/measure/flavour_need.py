# SPDX-License-Identifier: MIT
"""What is known before a boot of a case that a kernel's flavour makes impossible, or meaningless."""

from __future__ import annotations

from rtgate.tools import Reports, Tool
from rtgate.tools.needs import NEVER, Need
from rtgate.tools.xenomai import COBALT

_SUITES = {"irq", "latency", "scheduling", "signal"}  # a disk or a link is Linux's beside Cobalt, too


def needs(tool: Tool, flavour: str) -> tuple[Need, ...]:
    """Return what no kernel of a flavour has: Cobalt, or a use for latencies of the Linux beside it.

    Of an unknown flavour (empty) nothing is known. That Linux runs when Cobalt has nothing to do. Measured without
    Cobalt's library, its latencies were once taken for Cobalt's (docs/reference/seed-figures.md).
    """
    if flavour not in {"", "xenomai"} and COBALT[0] in tool.needs:
        return (Need(test=NEVER, reason=f"{tool.name} measures Cobalt, and the kernel's flavour is {flavour}"),)
    of_threads = _SUITES & {*tool.suites} and {Reports.TIME, Reports.TIMES} & {*tool.reports.values()}
    if flavour != "xenomai" or COBALT[0] in tool.needs or not of_threads:
        return ()
    reason = f"{tool.name} measures Linux, not Cobalt: xenomai-latency and xenomai-cyclictest measure Cobalt"
    return (Need(test=NEVER, reason=reason),)
