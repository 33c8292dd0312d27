# SPDX-License-Identifier: MIT
"""What a gate says before it measures: which placebos its comparisons will use, and what it does without."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rtgate.board.boot import ArmName, TimeBase
from rtgate.judge.compare.placebos import Placebos
from rtgate.kernel import artefacts
from rtgate.measure.case import Arm, Case, setting
from rtgate.report.notices import say
from rtgate.target.qemu import version
from rtgate.workflow.placebos import compiler_of
from rtgate.workflow.verdicts import harmless

_ALONE = "these comparisons end without PASS, and only limits are judged"
_OTHERS = "these comparisons find regressions, and end without PASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a gate is about to compare on a virtual-time board.

    Attributes:
        arm: the baseline.
        cases: what is measured.
        compiler: that built it, as `placebos.yaml` names it; empty if nobody knows.
        remedy: options of `rtgate placebos learn` for this kernel line.
    """

    arm: Arm
    cases: Iterable[Case]
    compiler: str
    remedy: str


def tell(arms: Iterable[Arm], cases: Collection[Case], baseline: Path, remedy: str) -> None:
    """Say it of the baseline that is measured on virtual time; `baseline` is its build directory. Raises as `notices`.

    Raises:
        ConfigError: placebos.yaml or the build directory is wrong.
    """
    compiler = compiler_of(artefacts.load(baseline).toolchain or "")
    for arm in arms:
        if (arm.name, arm.time) == (ArmName.BASELINE, TimeBase.VIRTUAL):
            for sentence in notices(Compared(arm=arm, cases=cases, compiler=compiler, remedy=remedy), harmless()):
                say(sentence)


def notices(compared: Compared, placebos: Placebos) -> Iterator[str]:
    """Yield a sentence for all cases of which the same is known. Raises InfrastructureError: QEMU is missing."""
    cases: dict[str, list[str]] = {}
    for case in compared.cases:
        cases.setdefault(_known(compared.arm, case, placebos, compared.compiler), []).append(case.name)
    board = compared.arm.board.name
    for known, names in cases.items():
        missing = known.endswith((_ALONE, _OTHERS))
        learn = f"; to learn them: rtgate placebos learn --board {board} {compared.remedy}" if missing else ""
        yield f"placebos for {', '.join(names)} on {board}: {known}{learn.rstrip()}"


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
