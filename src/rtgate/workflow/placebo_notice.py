# SPDX-License-Identifier: MIT
"""What a gate says before it measures: what is known of harmless changes, and what it does without."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.board import boards
from rtgate.judge.compare.placebos import Placebos
from rtgate.kernel import artefacts
from rtgate.kernel.toolchain import compiler_of
from rtgate.measure.case import Arm, Case, setting
from rtgate.report.notices import say
from rtgate.target.qemu import version
from rtgate.tools.registry import only_passes_or_fails
from rtgate.workflow.verdicts import harmless

_ALONE = "these comparisons end without PASS, and only limits are judged"
_OTHERS = "these comparisons find regressions, and end without PASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """What a gate is about to compare on virtual-time boards.

    Attributes:
        arm: the baseline, on one of them.
        cases: what is measured, by board.
        compiler: that built it, as `placebos.yaml` names it; empty if nobody knows.
        remedy: options of `rtgate placebos learn` for this kernel line.
    """

    arm: Arm
    cases: Mapping[str, Iterable[Case]]
    compiler: str
    remedy: str


def tell(arm: Arm, cases: Mapping[str, Collection[Case]], baseline: Path, remedy: str) -> None:
    """Say it of a baseline, whose build directory is `baseline`; the rest is as `PlannedComparison` has it.

    Raises:
        ConfigError: placebos.yaml, the build directory or a board is wrong.
        InfrastructureError: QEMU is missing.
    """
    compiler = compiler_of(artefacts.load(baseline).toolchain or "")
    for sentence in notices(PlannedComparison(arm=arm, cases=cases, compiler=compiler, remedy=remedy), harmless()):
        say(sentence)


def notices(comparison: PlannedComparison, placebos: Placebos) -> Iterator[str]:
    """Yield, board after board, a sentence for all cases of which the same is known.

    Raises:
        ConfigError: there is no such board.
        InfrastructureError: QEMU is missing.
    """
    for name, there in comparison.cases.items():
        arm, cases = _on_board(comparison.arm, name), dict[str, list[str]]()
        for case in there:
            if only_passes_or_fails(case.name):
                continue
            cases.setdefault(_known(arm, case, placebos, comparison.compiler), []).append(case.name)
        for sentence, names in cases.items():
            missing = sentence.endswith((_ALONE, _OTHERS))
            learn = f"; to measure them: rtgate placebos learn --board {name} {comparison.remedy}" if missing else ""
            yield f"harmless changes of {', '.join(names)} on {name}: {sentence}{learn.rstrip()}"


def _on_board(arm: Arm, name: str) -> Arm:
    """Return what an arm is on another board, as far as `_known` looks at it."""
    board = boards.board(name)
    return replace(arm, board=board, profile=arm.profile.on(name), tuning=board.tuning(arm.tuning.name))


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
