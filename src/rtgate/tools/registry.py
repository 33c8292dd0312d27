# SPDX-License-Identifier: MIT
"""All tools by name: rtgate's own, and those from outside (`extensions`), which are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from rtgate.errors import ConfigError
from rtgate.tools import Reports, Tool, extensions, loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.cyclicdeadline import Cyclicdeadline
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.deadline_test import DeadlineTest
from rtgate.tools.dmatest import Dmatest, DmatestRkep
from rtgate.tools.edu import EduDma, EduMsi
from rtgate.tools.endpoint_test import EndpointKselftest, Pcitest
from rtgate.tools.extensions import Extension, Kind
from rtgate.tools.fio import FioRandread, FioRandwrite, FioRead, FioWrite
from rtgate.tools.hackbench import Hackbench
from rtgate.tools.hwlatdetect import Hwlatdetect
from rtgate.tools.interrupt_rate import ElbiRate, MsiRate
from rtgate.tools.irq_instrument import IrqInstrumentHard, IrqInstrumentThreaded
from rtgate.tools.irq_response import IrqHard, IrqThreaded
from rtgate.tools.jailhouse import JailhouseDemo
from rtgate.tools.oslat import Oslat
from rtgate.tools.outside import outside_tool
from rtgate.tools.pairs import Pmqtest, Ptsematest, Sigwaittest, Svsematest
from rtgate.tools.pcie_bar import PcieBar, PcieBarKernel, PcieBarWriteCombining
from rtgate.tools.pcie_link import PcieLink
from rtgate.tools.pi_stress import PiStress
from rtgate.tools.pip_stress import PipStress
from rtgate.tools.preemptirq import Preemptirq
from rtgate.tools.queuelat import Queuelat
from rtgate.tools.rt_migrate_test import RtMigrateTest
from rtgate.tools.rtla import RtlaOsnoise, RtlaTimerlat
from rtgate.tools.signaltest import Signaltest
from rtgate.tools.ssdd import Ssdd
from rtgate.tools.xenomai import XenomaiLatency, XenomaiLatencyIrq, XenomaiLatencyKernel, XenomaiSwitchtest
from rtgate.tools.xenomai_clocktest import XenomaiClocktest
from rtgate.tools.xenomai_cyclictest import XenomaiCyclictest
from rtgate.tools.xenomai_smokey import XenomaiSmokey

_ALL: tuple[type[Tool], ...] = (
    *(Cyclictest, Cyclicdeadline, DeadlineTest, Oslat, Queuelat, Hwlatdetect, RtlaTimerlat, RtlaOsnoise, Preemptirq),
    *(Signaltest, Sigwaittest, Pmqtest, Ptsematest, Svsematest, PiStress, PipStress, RtMigrateTest, Hackbench, Ssdd),
    *(PcieLink, Dmatest, DmatestRkep, MsiRate, ElbiRate, Pcitest, EndpointKselftest),
    *(PcieBar, PcieBarWriteCombining, PcieBarKernel, EduDma, EduMsi),
    *(IrqHard, IrqThreaded, IrqInstrumentHard, IrqInstrumentThreaded),
    *(
        XenomaiLatency,
        XenomaiLatencyKernel,
        XenomaiLatencyIrq,
        XenomaiCyclictest,
        XenomaiSwitchtest,
        XenomaiClocktest,
        XenomaiSmokey,
    ),
    JailhouseDemo,
    *(FioRead, FioWrite, FioRandread, FioRandwrite),
)
SHIPPED: Mapping[str, type[Tool]] = {tool.name: tool for tool in _ALL}


def outside() -> Mapping[str, Extension]:
    """Return the tools that do not come with rtgate. Raises ConfigError: two have one name, or one cannot be one."""
    return extensions.extensions(Kind.TOOL, SHIPPED)


class _Tools(Mapping[str, type[Tool]]):
    """Tools by name. Every access may raise ConfigError: what a site or a package adds is wrong."""

    def __getitem__(self, name: str) -> type[Tool]:
        return SHIPPED[name] if name in SHIPPED else outside_tool(outside()[name])

    def __contains__(self, name: object) -> bool:
        # The default would import it.
        return name in SHIPPED or name in outside()

    def __iter__(self) -> Iterator[str]:
        return iter((*SHIPPED, *outside()))

    def __len__(self) -> int:
        return len(SHIPPED) + len(outside())


class _Companions(_Tools):
    """Those that run as a load as well."""

    def __getitem__(self, name: str) -> type[Tool]:
        tool = super().__getitem__(name)
        if not tool.companion:
            raise KeyError(name)
        if name in loads.outside():
            raise loads.outside()[name].fail(f"the tool {name} is a load as well: rename yours")
        if name in loads.SHIPPED:
            raise outside()[name].fail(f"rtgate has a load {name}, and this tool is a load as well: rename yours")
        return tool

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (name for name in super().__iter__() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


TOOLS: Mapping[str, type[Tool]] = _Tools()
COMPANIONS: Mapping[str, type[Tool]] = _Companions()


def tool(name: str) -> type[Tool]:
    """Return the tool of this name. Raises ConfigError: it is not known here."""
    if name not in TOOLS:
        raise ConfigError(
            f"unknown tool {name!r}: if it comes from a site directory, name that (--site DIR or RTGATE_SITE); "
            "if it comes from a package, install that here"
        )
    return TOOLS[name]


def options(tool: Tool) -> dict[str, Any]:
    """Return a tool's options by name, as plain data."""
    # Every tool is a dataclass, which the type of a protocol cannot say.
    return {field.name: getattr(tool, field.name) for field in fields(tool)}  # type: ignore[arg-type]


def changed_options(tool: Tool) -> dict[str, bool | int | str]:
    """Return the options of a tool that are not its own ones, by name; what is no number as text."""
    own = options(type(tool)())
    return {
        name: value if isinstance(value, bool | int | str) else str(value)
        for name, value in options(tool).items()
        if value != own[name]
    }


def without_own(name: str, values: Mapping[str, bool | int | str]) -> dict[str, bool | int | str]:
    """Return options of the tool of this name (and of its load) without those that say what the tool's own ones do."""
    own = options(TOOLS[name]()) if name in TOOLS else {}
    return {key: value for key, value in values.items() if key not in own or value != own[key]}


def with_options(name: str, values: Mapping[str, Any]) -> Tool:
    """Return the tool of this name with the options of `options`, which JSON may have made lists of.

    Raises:
        ConfigError: it is not known here.
        TypeError, ValueError, AttributeError: it does not take these options.
    """
    return tool(name)(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def reports(case: str) -> Mapping[str, Reports]:
    """Return what a case measures: what its tool does, and its load if that measures. Raises ConfigError: no case."""
    case_name = CaseName.parse(case)
    load = case_name.load
    own = TOOLS[case_name.tool].reports if case_name.tool in TOOLS else {}
    beside = COMPANIONS[load].reports if load in COMPANIONS else {}
    return {**own, **{f"{load}.{name}": kind for name, kind in beside.items()}}


def is_compared(case: str) -> bool:
    """Return whether a case has figures to compare: what is nothing but failures of the kernel, a guarantee judges.

    Raises ConfigError: no case.
    """
    return set(reports(case).values()) != {Reports.FAILURES}
