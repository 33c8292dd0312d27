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
        return math.fsum(one.change for one in self.steps)

    @property
    def low(self) -> float:
        """Lower bound of the sum, at 95 %."""
        return self.total - math.sqrt(math.fsum((one.change - one.low) ** 2 for one in self.steps))

    @property
    def high(self) -> float:
        """Upper bound of the sum, at 95 %."""
        return self.total + math.sqrt(math.fsum((one.high - one.change) ** 2 for one in self.steps))

    def beyond(self, budget: float) -> bool:
        """Whether the figure drifted by more than a share, such as 0.03, for certain."""
        return self.low > math.log1p(budget)

    @property
    def contributors(self) -> tuple[Step, ...]:
        """The steps that were worse for certain, largest first."""
        return tuple(sorted((one for one in self.steps if one.low > 0), key=lambda one: -one.change))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The boots of one case in one gate."""

    run: str
    kernel: str
    baseline: Sequence[Record]
    candidate: Sequence[Record]


def drifts(case: str, gates: Sequence[Gate]) -> Iterator[Drift]:
    """Yield the drift of each figure of the body that every gate has, oldest gate first."""
    shown = [{one.figure: one for one in _body(gate)} for gate in gates]
    for figure in shown[0] if shown else ():
        if all(figure in one for one in shown):
            steps = tuple(_step(gate, one[figure]) for gate, one in zip(gates, shown, strict=True))
            yield Drift(case=case, figure=figure, steps=steps)


def _body(gate: Gate) -> list[Shift]:
    old, new = ([boot_figures(record) for record in records] for records in (gate.baseline, gate.candidate))
    found = shifts(old, new, {})
    bounded = [one for one in found if math.isfinite(one.least) and math.isfinite(one.most)]
    return [one for one in bounded if one.part is Part.BODY and one.baseline > 0 and one.least > -one.baseline]


def _step(gate: Gate, one: Shift) -> Step:
    change, low, high = (math.log1p(value / one.baseline) for value in (one.shift, one.least, one.most))
    return Step(run=gate.run, kernel=gate.kernel, change=change, low=low, high=high)
