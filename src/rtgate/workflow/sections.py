# SPDX-License-Identifier: MIT
"""Boots of one or two kernels in which critical sections are followed, and what ran in one of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from rtgate.board.boards import board
from rtgate.errors import ConfigError
from rtgate.explain.comparing import boot_pool, vmlinux
from rtgate.explain.path import Profile
from rtgate.explain.replay import Replay, trace_sections
from rtgate.explain.section_changes import SiteChange
from rtgate.explain.section_path import SectionPaths, section_profile
from rtgate.explain.sections import Section, as_json, merge
from rtgate.kernel.build_copy import pin_kernel
from rtgate.kernel.differing import differing
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm
from rtgate.tools.case_name import CaseName
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import find_case


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionsRequest:
    """What to boot.

    Attributes:
        kernels: build directories by the names of arms.
        case: `latency/cyclictest:idle`.
        tell: gets what is done.
    """

    board: str
    kernels: Mapping[str, Path]
    case: str
    profile: str
    seeds: Sequence[int]
    tell: Callable[[str], None]

    @property
    def instruction_ns(self) -> int:
        """What one instruction takes. Raises ConfigError: the board is not virtual, or masks otherwise."""
        chosen = board(self.board)
        if chosen.qemu is None:
            raise ConfigError(f"{self.board} is not a virtual board: its instructions cannot be followed")
        if "pseudo_nmi" in chosen.command_line:
            raise ConfigError(f"{self.board} masks interrupts by priority (pseudo_nmi): this cannot be followed")
        return 1 << chosen.qemu.shift


def as_document(request: SectionsRequest, found: Mapping[str, Sequence[Section]]) -> dict[str, Any]:
    """Return what is written: all sections of each kernel, lengths in instructions."""
    return {
        "format": 1,
        "board": request.board,
        "case": request.case,
        "profile": request.profile,
        "seeds": list(request.seeds),
        "instruction_ns": request.instruction_ns,
        "kernels": {arm: as_json(sections) for arm, sections in found.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionBoots:
    """Kernels that are ready to boot, by the names of arms."""

    request: SectionsRequest
    arms: Mapping[str, Arm]
    kernels: Mapping[str, Vmlinux]
    stop: threading.Event

    @classmethod
    def of(cls, request: SectionsRequest) -> SectionBoots:
        """Prepare the kernels.

        Raises:
            ConfigError: no such board, kernel, profile or case, or they do not fit together.
            InfrastructureError: QEMU or the root filesystem is not to be had.
        """
        directories = {arm: pin_kernel(directory).directory for arm, directory in request.kernels.items()}
        kernels = {arm: Vmlinux(vmlinux(directory)) for arm, directory in directories.items()}
        asked = ArmRequest(
            board=request.board,
            kernels=directories,
            profile=request.profile,
            tuning=CaseName.parse(request.case).tuning,
            console="virtual",
        )
        arms, stop = make_arms(asked)
        return cls(request=request, arms={arm.name: arm for arm in arms}, kernels=kernels, stop=stop)

    def follow(self) -> dict[str, tuple[Section, ...]]:
        """Boot each kernel with each seed, and return its sections by arm.

        Raises:
            ConfigError: the case or the kernel cannot be followed.
            InfrastructureError: this machine cannot trace.
            ParseError: a boot was not measured, or its trace cannot be read.
        """
        with boot_pool(self.stop) as pool:
            boots = {
                arm: [pool.submit(trace_sections, self._replay(arm, seed)) for seed in self.request.seeds]
                for arm in self.arms
            }
            return {arm: merge(chain.from_iterable(boot.result()[1] for boot in each)) for arm, each in boots.items()}

    def paths(self, change: SiteChange) -> SectionPaths:
        """Boot again, and return what ran in the longest section of a site in both kernels. Raises as `follow`."""
        found = differing(self.kernels["baseline"], self.kernels["candidate"], (None, None)).functions
        with boot_pool(self.stop) as pool:
            sides = {"baseline": change.baseline, "candidate": change.candidate}
            profiles: dict[str, Future[Profile]] = {
                arm: pool.submit(section_profile, self._replay(arm, side.seed), side, found)
                for arm, side in sides.items()
                if side
            }
            made = {arm: future.result() for arm, future in profiles.items()}
        return SectionPaths(
            baseline=made.get("baseline", Profile()), candidate=made.get("candidate", Profile()), changed=found
        )

    def _replay(self, arm: str, seed: int) -> Replay:
        case = find_case(self.request.case, self.request.profile)
        return Replay(case=case, arm=self.arms[arm], seed=seed, kernel=self.kernels[arm], tell=self.request.tell)
