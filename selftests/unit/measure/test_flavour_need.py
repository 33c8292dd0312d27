# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.measure.flavour_need import needs
from rtgate.tools import Tool
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.needs import NEVER
from rtgate.tools.pi_stress import PiStress
from rtgate.tools.signaltest import Signaltest
from rtgate.tools.xenomai import XenomaiLatency, XenomaiSwitchtest
from rtgate.tools.xenomai_smokey import XenomaiSmokey


@pytest.mark.parametrize("tool", [Cyclictest(), Signaltest()])
def test_what_measures_linux_is_left_out_on_a_cobalt_kernel(tool: Tool) -> None:
    """A document's figures of Cobalt were those of Linux: its cyclictest was the stock one."""
    [need] = needs(tool, "xenomai")
    assert need.reason == (
        f"{tool.name} measures Linux, not Cobalt: xenomai-latency and xenomai-cyclictest measure Cobalt"
    )
    assert needs(tool, "preempt_rt") == ()


@pytest.mark.parametrize("tool", [XenomaiLatency(), XenomaiSwitchtest(), XenomaiSmokey(), PiStress()])
def test_what_measures_cobalt_or_no_time_runs_on_a_cobalt_kernel(tool: Tool) -> None:
    assert needs(tool, "xenomai") == ()


def test_what_measures_cobalt_boots_no_other_kernel() -> None:
    [need] = needs(XenomaiLatency(), "generic")
    assert (need.test, need.reason) == (
        NEVER,
        "xenomai-latency measures Cobalt, and the kernel's flavour is generic",
    )
