# SPDX-License-Identifier: MIT
"""What small shifts of a branch come to: the gates of its merges, one kernel's candidate being the next one's baseline.

Changes are natural logarithms of ratios, so that they add up. As each kernel stands once as candidate and once as
baseline, what its phases moved for no reason cancels: the sum strays no more than two kernels do, however many lie
between them. Its interval takes the steps' as independent; neighbours share a kernel, so it is rather too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rtgate.judge.compare.boot_figures import Part, boot_figures
from rtgate.judge.compare.phases import Shift, shifts
from rtgate.records.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one gate shows of a figure: logarithm of the ratio, larger is worse, with its interval at 95 %."""

    run: str
    kernel: str
    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the gates of a branch come to, in one figure of one case; oldest step first."""

    case: str
    figure: str
    steps: tuple[Step, ...]

    @property
    def total(self) -> float:
        """Logarithm of the ratio of the last kernel to the first."""
        return math.fsum(step.change for step in self.steps)

    @property
    def low(self) -> float:
        """Lower bound of the sum, at 95 %."""
        return self.total - math.sqrt(math.fsum((step.change - step.low) ** 2 for step in self.steps))

    @property
    def high(self) -> float:
        """Upper bound of the sum, at 95 %."""
        return self.total + math.sqrt(math.fsum((step.high - step.change) ** 2 for step in self.steps))

    def beyond(self, budget: float) -> bool:
        """Whether the figure drifted by more than a share, such as 0.03, for certain."""
        return self.low > math.log1p(budget)

    @property
    def contributors(self) -> tuple[Step, ...]:
        """The steps that were worse for certain, largest first."""
        return tuple(sorted((step for step in self.steps if step.low > 0), key=lambda step: -step.change))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The boots of one case in one gate."""

    run: str
    kernel: str
    baseline: Sequence[Record]
    candidate: Sequence[Record]


def drifts(case: str, gates: Sequence[Gate]) -> Iterator[Drift]:
    """Yield the drift of each figure of the body that every gate has, oldest gate first."""
    bodies = [{shift.figure: shift for shift in _body(gate)} for gate in gates]
    for figure in bodies[0] if bodies else ():
        if all(figure in body for body in bodies):
            steps = tuple(_step(gate, body[figure]) for gate, body in zip(gates, bodies, strict=True))
            yield Drift(case=case, figure=figure, steps=steps)


def _body(gate: Gate) -> list[Shift]:
    old, new = ([boot_figures(record) for record in records] for records in (gate.baseline, gate.candidate))
    figures = shifts(old, new, {})
    finite_shifts = [shift for shift in figures if math.isfinite(shift.least) and math.isfinite(shift.most)]
    return [
        shift
        for shift in finite_shifts
        if shift.part is Part.BODY and shift.baseline > 0 and shift.least > -shift.baseline
    ]


def _step(gate: Gate, shift: Shift) -> Step:
    change, low, high = (math.log1p(value / shift.baseline) for value in (shift.shift, shift.least, shift.most))
    return Step(run=gate.run, kernel=gate.kernel, change=change, low=low, high=high)
