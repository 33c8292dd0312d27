# SPDX-License-Identifier: MIT
"""Boots of one or two kernels in which critical sections are followed, and what ran in one of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rtgate.board.boards import Board, board
from rtgate.board.tuning import DEFAULT
from rtgate.errors import ConfigError
from rtgate.explain.boot_sections import trace_sections
from rtgate.explain.cache_models import CacheModel
from rtgate.explain.comparing import boot_pool, open_vmlinux
from rtgate.explain.path import Profile
from rtgate.explain.replay import Replay
from rtgate.explain.section_cache import SectionCache
from rtgate.explain.section_changes import SiteChange
from rtgate.explain.section_names import rename_functions
from rtgate.explain.section_path import SectionPaths, section_profiles
from rtgate.explain.sections import BootSections
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.kernel.build_copy import pin_kernel
from rtgate.kernel.differing import Differences, differing
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm, Case
from rtgate.records.record import Record
from rtgate.tools.case_name import CaseName
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import find_case

_ARCHES, _CPUS = ("arm64", "x86_64"), 8  # what the plugin is made for (`explain/sections.c`)
_RENAMES = 3  # that are named


def unfollowed(board: Board, tuning: str = DEFAULT.name) -> str:
    """Return why critical sections of a board cannot be followed; empty if they can.

    Args:
        board: the board.
        tuning: that of the case: its kernel arguments are those of the boot, too.

    Raises:
        ConfigError: the board has no such tuning.
    """
    if not board.virtual or board.arch not in _ARCHES:
        arches = " or ".join(_ARCHES)
        return f"{board.name} is not a virtual board of {arches}, so its critical sections cannot be followed"
    if board.qemu is None or board.qemu.instruction_ns != INSTRUCTION_NS or board.cpus > _CPUS:
        limits = f"{INSTRUCTION_NS} ns per instruction and at most {_CPUS} CPUs"
        return f"critical sections of {board.name} cannot be followed, but of boards with {limits}"
    lines = {board.name: board.command_line, f"tuning {tuning} of {board.name}": board.tuning(tuning).command_line}
    for name, command_line in lines.items():
        if "pseudo_nmi" in command_line:
            return f"{name} masks interrupts by priority (pseudo_nmi), so its critical sections cannot be followed"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionsRequest:
    """What to boot.

    Attributes:
        kernels: build directories by the names of arms.
        case: `latency/cyclictest:idle`.
        tell: gets what is done.
        caches: of which misses are counted; None for none.
    """

    board: str
    kernels: Mapping[str, Path]
    case: str
    profile: str
    seeds: Sequence[int]
    tell: Callable[[str], None]
    caches: CacheModel | None = None

    def check(self) -> None:
        """Raise ConfigError if the board's sections cannot be followed, or its caches not be modelled."""
        this_board = board(self.board)
        if reason := unfollowed(this_board, CaseName.parse(self.case).tuning):
            raise ConfigError(reason)
        if self.caches and this_board.cpus > 1:
            raise ConfigError(f"{self.board} has {this_board.cpus} CPUs, and caches are modelled for one CPU")


def _rename_sentence(renames: Mapping[str, str]) -> str:
    some = ", ".join(f"{old} -> {new}" for old, new in list(renames.items())[:_RENAMES])
    rest = f" and {len(renames) - _RENAMES} more" if len(renames) > _RENAMES else ""
    return f"renamed functions, listed by the candidate's names: {some}{rest}"


def kernel_differences(kernels: Mapping[str, Vmlinux]) -> Differences:
    """Return what differs between the code of two kernels, by the names of arms; nothing of one kernel."""
    if len(kernels) == 1:
        return Differences(options={})
    return differing(kernels["baseline"], kernels["candidate"])


def as_document(request: SectionsRequest, by_arm: Mapping[str, BootSections]) -> dict[str, Any]:
    """Return what is written: all sections of each kernel and its bound, lengths in instructions."""
    return {
        "format": 1,
        "board": request.board,
        "case": request.case,
        "profile": request.profile,
        "seeds": list(request.seeds),
        "instruction_ns": INSTRUCTION_NS,
        "caches": asdict(request.caches) if request.caches else None,
        "kernels": {arm: asdict(sections) for arm, sections in by_arm.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionBoots:
    """Kernels that are ready to boot, by the names of arms.

    Attributes:
        seeds: the boots of each, but of an arm with records that are expected those.
        expected: the records that boots must reproduce, by arm and seed; empty for none.
        altered: functions whose longest calls in sections are looked for.
        differences: between the code of the kernels. What is told of the baseline has the candidate's names of
            functions, so that sites are matched.
        cache: keeps the sections of boots that are expected; None to follow each.
        cache_model: of which misses are counted, then without `cache`; None for none.
        stages: whether those of wake-ups are measured, then without `cache`.
        records: those of boots that were followed, by arm and seed: booted again they must reproduce them.
    """

    case: Case
    seeds: Sequence[int]
    arms: Mapping[str, Arm]
    kernels: Mapping[str, Vmlinux]
    stop: threading.Event
    tell: Callable[[str], None]
    expected: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)
    altered: frozenset[str] = frozenset()
    differences: Differences = field(default_factory=lambda: Differences(options={}))
    cache: SectionCache | None = None
    cache_model: CacheModel | None = None
    stages: bool = False
    records: dict[tuple[str, int], Record] = field(default_factory=dict)

    @classmethod
    def of(cls, request: SectionsRequest) -> SectionBoots:
        """Prepare the kernels.

        Raises:
            ConfigError: no such board, kernel, profile or case, or they do not fit together.
            InfrastructureError: QEMU or the root filesystem is not to be had.
        """
        directories = {arm: pin_kernel(directory).directory for arm, directory in request.kernels.items()}
        kernels = {arm: open_vmlinux(arm, directory) for arm, directory in directories.items()}
        arm_request = ArmRequest(
            board=request.board,
            kernels=directories,
            profile=request.profile,
            tuning=CaseName.parse(request.case).tuning,
            console="virtual",
        )
        stop = threading.Event()
        arms: dict[str, Arm] = {arm.name: arm for arm in make_arms(arm_request, stop)}
        differences = kernel_differences(kernels)
        if differences.renames:
            request.tell(_rename_sentence(differences.renames))
        return cls(
            case=find_case(request.case, request.profile),
            seeds=request.seeds,
            arms=arms,
            kernels=kernels,
            stop=stop,
            tell=request.tell,
            differences=differences,
            cache_model=request.caches,
            stages=True,
        )

    def follow(self) -> dict[str, dict[int, BootSections]]:
        """Boot each kernel with each seed, and return its sections by arm and seed, with the candidate's names.

        Raises:
            ConfigError: the case or the kernel cannot be followed.
            InfrastructureError: this machine cannot trace.
            TargetError: a kernel died or hung in a boot that is not expected.
            ParseError: a boot was not measured, did not repeat its record, or its trace cannot be read.
        """
        with boot_pool(self.stop) as pool:
            names = {arm: self._new_names(arm) for arm in self.arms}
            boots = {
                arm: {
                    seed: pool.submit(self._follow, arm, seed, names[arm])
                    for seed in self.expected.get(arm, self.seeds)
                }
                for arm in self.arms
            }
            return {arm: {seed: boot.result() for seed, boot in own.items()} for arm, own in boots.items()}

    def _follow(self, arm: str, seed: int, names: Mapping[str, str]) -> BootSections:
        return rename_functions(self._own_sections(arm, seed), names)

    def _new_names(self, arm: str) -> Mapping[str, str]:
        """Return the candidate's names of functions that a kernel names otherwise."""
        renames = self.differences.renames if arm == "baseline" else {}
        return self.kernels[arm].function_names(renames)

    def _own_sections(self, arm: str, seed: int) -> BootSections:
        """Return the sections of a boot, from the cache if it was followed before."""
        record = self.expected.get(arm, {}).get(seed)
        hit = self.cache.find(record, self.altered) if self.cache and record else None
        if hit is not None:
            return hit
        replay = self._replay(arm, seed, self.kernels[arm])
        self.records[arm, seed], sections = trace_sections(replay, self.altered, self.cache_model, stages=self.stages)
        if self.cache and record:
            self.cache.keep(record, self.altered, sections)
        return sections

    def paths(self, change: SiteChange) -> SectionPaths:
        """Boot again, and return what ran in the longest section of a site in both kernels. Raises as `follow`."""
        functions = self.differences.functions
        baseline = self.kernels["baseline"].with_names(self.differences.renames)
        kernels = {**self.kernels, "baseline": baseline}
        with boot_pool(self.stop) as pool:
            sides = {"baseline": change.like, "candidate": change.candidate}
            boots = {
                arm: pool.submit(section_profiles, self._replay(arm, side.seed, kernels[arm]), [side], functions)
                for arm, side in sides.items()
                if side
            }
            profiles = {arm: profile for arm, boot in boots.items() for profile in boot.result()}
        return SectionPaths(
            baseline=profiles.get("baseline", Profile()),
            candidate=profiles.get("candidate", Profile()),
            changed=functions,
            lengths=(change.before, change.candidate.longest if change.candidate else 0),
        )

    def _replay(self, arm: str, seed: int, kernel: Vmlinux) -> Replay:
        return Replay(
            case=self.case,
            arm=self.arms[arm],
            seed=seed,
            kernel=kernel,
            expected=self.expected.get(arm, {}).get(seed) or self.records.get((arm, seed)),
            tell=self.tell,
        )
