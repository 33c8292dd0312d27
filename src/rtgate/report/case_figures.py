# SPDX-License-Identifier: MIT
"""The figures of a case as people read them: one value of each boot, and the one that stands for all boots."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.judge.compare.boot_figures import Part, boot_figures
from rtgate.judge.verdict import Status
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport
from rtgate.tools.measurement import Better
from rtgate.units import Quantity, Unit

DIMENSIONLESS = frozenset({Unit.COUNT, Unit.RATIO})
"""What those who collect figures get without a unit."""
_COLLECTED = {Unit.NS: Unit.US, Unit.VIRTUAL_NS: Unit.VIRTUAL_US}


@dataclass(frozen=True, slots=True)
class CaseFigure:
    """One figure of a case, such as `latency p99.9` or `hackbench.time`.

    Attributes:
        values: of the boots that have it, in `unit`.
        extreme: the largest boot stands for all, not the median one: it is a maximum.
    """

    unit: Unit
    values: tuple[float, ...]
    extreme: bool

    @property
    def quantity(self) -> Quantity:
        """The figure over all boots: of maxima the largest, of others the median."""
        return Quantity(max(self.values) if self.extreme else statistics.median(self.values), self.unit)


def case_figures(records: Sequence[Record]) -> dict[str, CaseFigure]:
    """Return the figures of a case by name, made from those of its boots (see `judge.compare.boot_figures`)."""
    quantities: dict[str, list[Quantity]] = {}
    largest = set()
    for record in records:
        for name, figure in boot_figures(record).items():
            # There, larger is worse; people read a throughput as it is.
            value = -figure.value if figure.better is Better.HIGHER else figure.value
            quantities.setdefault(name, []).append(Quantity(value, figure.unit))
            largest |= {name} if figure.part is Part.EXTREME else set()
    return {
        name: CaseFigure(values[0].unit, tuple(value.to(values[0].unit).value for value in values), name in largest)
        for name, values in quantities.items()
    }


def valid_figures(case: CaseReport) -> dict[str, CaseFigure]:
    """Return the figures of a case for those who collect them, nanoseconds as microseconds.

    There are none where a measurement was invalid or the lab failed: a collection has no place for such doubts.
    """
    if any(verdict.status in {Status.ERROR, Status.MISS} for verdict in case.verdicts):
        return {}
    return {name: _convert_figure(figure) for name, figure in case_figures(case.records).items()}


def _convert_figure(figure: CaseFigure) -> CaseFigure:
    values = [to_figure_unit(Quantity(value, figure.unit)) for value in figure.values]
    return CaseFigure(values[0].unit, tuple(quantity.value for quantity in values), figure.extreme)


def to_figure_unit(quantity: Quantity) -> Quantity:
    """Return a quantity as `valid_figures` has it: what is collected of one figure must have one unit."""
    figure = quantity.to(_COLLECTED.get(quantity.unit, quantity.unit))
    return Quantity(float(f"{figure.value:.12g}"), figure.unit)  # 31.648, not 31.648000000000003
