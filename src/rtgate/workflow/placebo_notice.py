# SPDX-License-Identifier: MIT
"""What a gate says before it measures: what is known of harmless changes, and what it does without."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from rtgate.board import boards
from rtgate.judge.compare.placebos import Placebos
from rtgate.measure.case import Arm, Case, setting
from rtgate.report.notices import say
from rtgate.target.qemu import version
from rtgate.tools.registry import is_compared
from rtgate.workflow.verdicts import harmless

_ALONE = "these comparisons end without PASS, and only limits are judged"
_OTHERS = "these comparisons find regressions, and end without PASS"


def tell(arm: Arm, cases: Mapping[str, Collection[Case]], remedy: str) -> None:
    """Say what `notices` yields. Raises as it does, and ConfigError: placebos.yaml is wrong."""
    for sentence in notices(arm, cases, remedy, harmless()):
        say(sentence)


def notices(arm: Arm, cases: Mapping[str, Collection[Case]], remedy: str, placebos: Placebos) -> Iterator[str]:
    """Yield, board after board, a sentence for all cases of which the same is known.

    Args:
        arm: the baseline, on one of the boards.
        cases: what is measured, by board.
        remedy: options of `rtgate placebos learn` for this kernel line.
        placebos: what is known.

    Raises:
        ConfigError: there is no such board.
        InfrastructureError: QEMU is missing.
    """
    for name, there in cases.items():
        by_sentence: dict[str, list[str]] = {}
        for case in there:
            if is_compared(case.name):
                by_sentence.setdefault(_known(_on_board(arm, name), case, placebos), []).append(case.name)
        for sentence, names in by_sentence.items():
            missing = sentence.endswith((_ALONE, _OTHERS))
            learn = f"; to measure them: rtgate placebos learn --board {name} {remedy}" if missing else ""
            yield f"harmless changes of {', '.join(names)} on {name}: {sentence}{learn.rstrip()}"


def _on_board(arm: Arm, name: str) -> Arm:
    """Return what an arm is on another board, as far as `_known` looks at it."""
    board = boards.board(name)
    return replace(arm, board=board, profile=arm.profile.on(name), tuning=board.tuning(arm.tuning.name))


def _known(arm: Arm, case: Case, placebos: Placebos) -> str:
    assert arm.board.qemu is not None
    emulator, compiler = version(arm.board.qemu.binary), arm.kernel.compiler
    key, command = (arm.board.name, arm.kernel.flavour, case.name), " ".join(case.tool.argv(setting(case, arm)))
    models = [model for model in placebos.cases.get(key, ()) if model.command == command]
    # A kernel without build.json says which it is when it has booted: any line that was tried with this QEMU may fit.
    lines = [] if arm.kernel.release else [model.linux for model in models if not model.differs(emulator, model.linux)]
    model = placebos.of(*key, command, emulator, arm.kernel.release or next(iter(lines), ""))
    if not model.figures:
        return f"none with this command and flavour; {_ALONE}"
    differs = model.differs(emulator, arm.kernel.release or model.linux)
    if differs:
        return f"{differs}; {_OTHERS}"
    remarks = [f"whether these kernels are Linux {' or '.join(lines)} shows when they have booted"] if lines else []
    if model.compiler and compiler and model.compiler != compiler:
        remarks.append(f"built with {model.compiler}, these kernels with {compiler}")
    return "; ".join((model.source, *remarks))
