# SPDX-License-Identifier: MIT
"""Boots of one or two kernels in which critical sections are followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rtgate.board.boards import board
from rtgate.errors import ConfigError
from rtgate.explain.comparing import vmlinux
from rtgate.explain.replay import Replay, followed
from rtgate.explain.sections import Section, merged
from rtgate.kernel.pinned import pin_kernel
from rtgate.kernel.vmlinux import Vmlinux
from rtgate.measure.case import Arm
from rtgate.tools.case_name import CaseName
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import case_named

_Boot = Future[tuple[Section, ...]]


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
        """What one instruction takes. Raises ConfigError: the board is not virtual."""
        qemu = board(self.board).qemu
        if qemu is None:
            raise ConfigError(f"{self.board} is not a virtual board: its instructions cannot be followed")
        return 1 << qemu.shift


def follow(request: SectionsRequest) -> dict[str, tuple[Section, ...]]:
    """Boot each kernel with each seed, as many at once as this machine has cores, and return its sections by arm.

    Raises:
        ConfigError: no such board, kernel, profile or case, or they cannot be followed.
        InfrastructureError: this machine cannot trace.
        ParseError: a boot was not measured, or its trace cannot be read.
    """
    if "pseudo_nmi" in board(request.board).command_line:
        raise ConfigError(f"{request.board} masks interrupts by priority (pseudo_nmi): its sections cannot be followed")
    directories = {arm: pin_kernel(directory).directory for arm, directory in request.kernels.items()}
    elves = {arm: Vmlinux(vmlinux(directory)) for arm, directory in directories.items()}
    tuning = CaseName.parse(request.case).tuning
    arms, stop = make_arms(
        ArmRequest(board=request.board, kernels=directories, profile=request.profile, tuning=tuning, console="virtual")
    )
    pool = ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))
    try:
        boots = {
            arm.name: [pool.submit(_boot, request, arm, elves[arm.name], seed) for seed in request.seeds]
            for arm in arms
        }
        return {name: _sum(each) for name, each in boots.items()}
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _boot(request: SectionsRequest, arm: Arm, kernel: Vmlinux, seed: int) -> tuple[Section, ...]:
    case = case_named(request.case, request.profile)
    _, sections = followed(Replay(case=case, arm=arm, seed=seed, kernel=kernel, tell=request.tell))
    return sections


def _sum(boots: Sequence[_Boot]) -> tuple[Section, ...]:
    return merged(chain.from_iterable(boot.result() for boot in boots))
