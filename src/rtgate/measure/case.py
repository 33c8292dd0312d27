# SPDX-License-Identifier: MIT
"""A case, the arm that it is measured on, and what follows from both: options, load, devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rtgate.board import pcie
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName, TimeBase
from rtgate.board.tuning import DEFAULT, Tuning, cpus
from rtgate.measure.profiles import Profile
from rtgate.measure.raw_output import Reading
from rtgate.records.record import KernelIdentity
from rtgate.target.outcome import Outcome
from rtgate.target.plan import Plan
from rtgate.tools import Setting, Tool, companions, loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.loads import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Suite, tool and load: what one test item measures."""

    suite: str
    tool: Tool
    load: str
    tuning: str = DEFAULT.name

    @property
    def name(self) -> str:
        """Return `suite/tool:load`, with `+tuning` where the board was tuned."""
        return str(CaseName(suite=self.suite, tool=self.tool.name, load=self.load, tuning=self.tuning))

    @property
    def companion(self) -> Tool | None:
        """The load as a tool, if it is one that measures beside the other; with its own options."""
        return companions.companion(self.load)


class Target(Protocol):
    """Something that carries out a plan: a virtual board, or a live console."""

    def run(self, plan: Plan) -> Outcome:
        """Carry out the plan on one boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One kernel of a comparison on one board, ready to be measured.

    Attributes:
        target: what carries out the plans.
        configuration: what the kernel was built with, value by symbol; empty if nobody knows.
        attached: whether the board was running before anybody measured, so that its log may have lost its beginning.
    """

    name: ArmName
    board: Board
    kernel: KernelIdentity
    profile: Profile
    time: TimeBase
    target: Target
    tuning: Tuning = DEFAULT
    configuration: Mapping[str, str] = field(default_factory=dict)
    attached: bool = False

    @property
    def virtual_time(self) -> bool:
        """Whether time is that of a counted-instruction machine."""
        return self.time == TimeBase.VIRTUAL


def companion_of(case: Case, profile: Profile) -> Tool | None:
    """Return the load as a tool with a profile's options, if it is one that measures beside the other."""
    return None if case.companion is None else profile.fit(case.companion, case.suite)


def tools_of(case: Case, profile: Profile) -> tuple[Tool, ...]:
    """Return the tool of a case, and its companion if it has one."""
    companion = companion_of(case, profile)
    return (case.tool,) if companion is None else (case.tool, companion)


def setting(case: Case, arm: Arm) -> Setting:
    """Return what a case's options take from the arm's board and profile."""
    cpu_list = arm.tuning.cpus
    return Setting(
        cpus=len(cpus(cpu_list)) if cpu_list else arm.board.cpus,
        cpu_list=cpu_list,
        board_cpus=arm.board.cpus,
        memory_mib=arm.board.memory_mib,
        duration_s=arm.profile.of(case.tool.name, case.suite, case.load).duration_s,
        virtual_time=arm.virtual_time,
        pcie=functions_of(case, arm),
        storage=arm.board.nvme,
        directory=arm.board.work_directory,
        instrument=arm.board.instrument,
    )


def reading(case: Case, arm: Arm) -> Reading:
    """Return how a case's raw output is read."""
    return Reading(
        tool=case.tool,
        companion=companion_of(case, arm.profile),
        load=case.load,
        setting=setting(case, arm),
        cpu_classes=arm.board.cpu_classes,
    )


def load_of(case: Case, arm: Arm) -> Load:
    """Return what runs beside the tool. Raises ConfigError: there is no such load, or it lacks an option."""
    companion = companion_of(case, arm.profile)
    if companion is not None:
        return companions.as_load(companion, setting(case, arm))
    return loads.load(case.load, arm.board, arm.profile.loads.get(case.load))


def devices_of(case: Case, arm: Arm) -> tuple[str, ...]:
    """Return the names of the devices that a case measures: on a virtual board those that its boot gets.

    All of them are those that the board's file lists as functions.
    """
    names = set(device_names(case, arm))
    names |= set(arm.board.pcie) if pcie.ALL in names else set()
    return tuple(name for name in (arm.board.qemu.devices if arm.board.qemu else arm.board.pcie) if name in names)


def device_names(case: Case, arm: Arm) -> tuple[str, ...]:
    """Return the devices that tool and load name, or the word for all of them."""
    return (*case.tool.devices, *(case.companion or load_of(case, arm)).devices)


def functions_of(case: Case, arm: Arm) -> Mapping[str, pcie.Function]:
    """Return the functions that are expected in a case: of a virtual board, those of the devices in its boot."""
    there = devices_of(case, arm) if arm.board.qemu else (pcie.ALL,)
    return pcie.select_functions(arm.board.pcie, there)
