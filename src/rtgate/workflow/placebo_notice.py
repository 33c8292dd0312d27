# SPDX-License-Identifier: MIT
"""What a gate says before it measures: which placebos its comparisons will use, and what it does without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rtgate.board.boards import Board
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.compare.placebos import Placebos
from rtgate.measure.case import Arm, Case, setting
from rtgate.target.qemu import version
from rtgate.workflow import suites

_ALONE = "these comparisons end without PASS, and only limits are judged"
_OTHERS = "these comparisons find regressions, and end without PASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a gate is about to compare.

    Attributes:
        arms: the baseline on each virtual-time board.
        compiler: that built it, as `placebos.yaml` names it; empty if nobody knows.
        profile: what is measured, by name.
        select: what pytest's `-k` leaves of it.
        remedy: options of `rtgate placebos learn` for this kernel line.
    """

    arms: Sequence[Arm]
    compiler: str
    profile: str
    select: str
    remedy: str


def notices(compared: Compared, placebos: Placebos) -> Iterator[str]:
    """Yield a sentence for all cases of which the same is known. Raises InfrastructureError: QEMU is missing."""
    cases: dict[tuple[str, str], list[str]] = {}
    for arm in compared.arms:
        for case in _cases(arm.board, compared):
            known = _known(arm, case, placebos, compared.compiler)
            cases.setdefault((arm.board.name, known), []).append(case.name)
    for (board, known), names in cases.items():
        missing = known.endswith((_ALONE, _OTHERS))
        learn = f"; to learn them: rtgate placebos learn --board {board} {compared.remedy}" if missing else ""
        yield f"placebos for {', '.join(names)} on {board}: {known}{learn.rstrip()}"


def _cases(board: Board, compared: Compared) -> tuple[Case, ...]:
    try:
        return suites.cases((), compared.profile, "default", compared.select, board.name)
    except (ConfigError, InfrastructureError):
        # Nothing is left on this board, or the machine is too busy: measuring says so where it matters.
        return ()


def _known(arm: Arm, case: Case, placebos: Placebos, compiler: str) -> str:
    assert arm.board.qemu is not None
    emulator, release = version(arm.board.qemu.binary), arm.kernel.release
    command = " ".join(case.tool.argv(setting(case, arm)))
    model = placebos.of(arm.board.name, arm.kernel.flavour, case.name, command, emulator, release)
    if not model.figures:
        return f"none with this command and flavour; {_ALONE}"
    differs = model.differs(emulator, release)
    if differs:
        return f"{differs}; {_OTHERS}"
    other = model.compiler and compiler and model.compiler != compiler
    return f"{model.source}{f'; built with {model.compiler}, these kernels with {compiler}' if other else ''}"
