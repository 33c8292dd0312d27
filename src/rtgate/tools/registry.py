# SPDX-License-Identifier: MIT
"""All tools by name."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.tools import Reports, Tool
from rtgate.tools.cyclicdeadline import Cyclicdeadline
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.deadline_test import DeadlineTest
from rtgate.tools.dmatest import Dmatest, DmatestRkep
from rtgate.tools.edu import EduDma, EduMsi
from rtgate.tools.endpoint_test import EndpointKselftest, Pcitest
from rtgate.tools.fio import FioRandread, FioRandwrite, FioRead, FioWrite
from rtgate.tools.hackbench import Hackbench
from rtgate.tools.hwlatdetect import Hwlatdetect
from rtgate.tools.interrupt_rate import ElbiRate, MsiRate
from rtgate.tools.oslat import Oslat
from rtgate.tools.pcie_bar import PcieBar
from rtgate.tools.pcie_link import PcieLink
from rtgate.tools.pi_stress import PiStress
from rtgate.tools.pip_stress import PipStress
from rtgate.tools.pmqtest import Pmqtest
from rtgate.tools.ptsematest import Ptsematest
from rtgate.tools.queuelat import Queuelat
from rtgate.tools.rt_migrate_test import RtMigrateTest
from rtgate.tools.rtla import RtlaOsnoise, RtlaTimerlat
from rtgate.tools.signaltest import Signaltest
from rtgate.tools.sigwaittest import Sigwaittest
from rtgate.tools.ssdd import Ssdd
from rtgate.tools.svsematest import Svsematest
from rtgate.tools.xenomai import XenomaiLatency, XenomaiSmokey, XenomaiSwitchtest
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest

_ALL: tuple[type[Tool], ...] = (
    *(Cyclictest, Cyclicdeadline, DeadlineTest, Oslat, Queuelat, Hwlatdetect, RtlaTimerlat, RtlaOsnoise),
    *(Signaltest, Sigwaittest, Pmqtest, Ptsematest, Svsematest, PiStress, PipStress, RtMigrateTest, Hackbench, Ssdd),
    *(PcieLink, Dmatest, DmatestRkep, MsiRate, ElbiRate, Pcitest, EndpointKselftest),
    *(PcieBar, EduDma, EduMsi),
    *(XenomaiLatency, XenomaiCyclictest, XenomaiSwitchtest, XenomaiSmokey),
    *(FioRead, FioWrite, FioRandread, FioRandwrite),
)
TOOLS: Mapping[str, type[Tool]] = {tool.name: tool for tool in _ALL}
COMPANIONS: Mapping[str, type[Tool]] = {tool.name: tool for tool in _ALL if tool.companion}


def reports(case: str) -> Mapping[str, Reports]:
    """Return what a case `suite/tool:load+tuning` measures: what its tool does, and its load if that measures."""
    tool, _, load = case.partition("/")[2].partition("+")[0].partition(":")
    own = TOOLS[tool].reports if tool in TOOLS else {}
    beside = COMPANIONS[load].reports if load in COMPANIONS else {}
    return {**own, **{f"{load}.{name}": kind for name, kind in beside.items()}}
