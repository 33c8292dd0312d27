# SPDX-License-Identifier: MIT
"""Which figures of boots on virtual time can be planned, and why others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from rtgate.board.boot import ArmName
from rtgate.judge.compare.boot_figures import BootFigure, boot_figures
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.compare.placebos import Placebos
from rtgate.judge.compare.usable import is_usable
from rtgate.judge.learn.phase_planning import FEWEST, too_few
from rtgate.records.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannableFigure:
    """One figure of the boots of a case, and what harmless kernels moved it by."""

    case: str
    boots: tuple[BootFigure, ...]
    placebo: Placebo
    boot_s: float

    @property
    def name(self) -> str:
        """The figure's."""
        return self.boots[0].name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannableCase:
    """The boots of one kernel in one case.

    Attributes:
        figures: that can be planned.
        learnt: how many figures a gate judges there.
        remarks: what was left out, and what else is to be known.
    """

    figures: tuple[PlannableFigure, ...]
    learnt: int
    remarks: tuple[str, ...]


def plannable(
    records: Sequence[Record], placebos: Placebos, not_applicable: Callable[[str], Mapping[str, str]]
) -> Iterator[PlannableCase]:
    """Yield the cases of boots on virtual time; of several kernels the baseline's boots are taken.

    Args:
        records: the boots.
        placebos: what harmless kernels moved.
        not_applicable: returns the validity checks that a board declares not applicable, with the reasons.

    Raises:
        ValueError: boots of several kernels or commands, and nothing says which are meant.
    """
    by_case: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_case.setdefault((record.board, record.case), []).append(record)
    several = len({board for board, _ in by_case}) > 1
    for (board, case), boots in sorted(by_case.items()):
        name = f"{board} {case}" if several else case
        yield _case(name, _of_one_kernel(case, boots), placebos, not_applicable(board))


def _of_one_kernel(case: str, records: Sequence[Record]) -> Sequence[Record]:
    """Return the boots of the baseline, or of the only kernel. Raises ValueError: nobody can say which kernel."""
    boots = [record for record in records if record.arm == ArmName.BASELINE] or records
    for what, values in (
        ("kernels", {record.kernel.image_sha256 for record in boots}),
        ("commands of the tool", {record.argv for record in boots}),
    ):
        if len(values) > 1:
            raise ValueError(f"{case}: boots of {len(values)} {what}: name a directory with those of one")
    return boots


def _case(name: str, records: Sequence[Record], placebos: Placebos, not_applicable: Mapping[str, str]) -> PlannableCase:
    """Return what can be planned of the boots of one kernel, and what cannot."""
    first = records[0]
    valid = [record for record in records if is_usable(record, not_applicable)]
    model = placebos.model_for(first)
    remarks = []
    if len(valid) < len(records):
        remarks.append(f"{name}: {len(records) - len(valid)} of {len(records)} boots are not valid and left out")
    if len(valid) < FEWEST:
        return PlannableCase(
            figures=(), learnt=len(model.figures), remarks=(*remarks, f"{name}: {too_few(len(valid))}")
        )
    if not model.figures:
        remarks.append(f"{name}: placebos.yaml does not say how much harmless kernels move it with this command")
    mismatch = model.mismatch(first.environment)
    if mismatch:
        remarks.append(f"{name}: measured with {mismatch}")
    boots = [boot_figures(record) for record in valid]
    boot_s = mean(record.seconds.get("total", 0.0) for record in valid)
    figures = []
    for figure, placebo in model.figures.items():
        values = tuple(boot[figure] for boot in boots if figure in boot)
        if len(values) < len(boots):
            remarks.append(f"{name}: not every boot has {figure}")
        elif not all(value.value for value in values):
            remarks.append(f"{name}: {figure} is zero in some boot, of which no share can be taken")
        else:
            figures.append(PlannableFigure(case=name, boots=values, placebo=placebo, boot_s=boot_s))
    return PlannableCase(figures=tuple(figures), learnt=len(model.figures), remarks=tuple(remarks))
