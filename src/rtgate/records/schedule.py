# SPDX-License-Identifier: MIT
"""When somebody was going to look at a comparison while it grew, and when somebody may have looked.

It lies in `planned.json`: whoever judges the records later must spend the false alarms that were allowed in the same
shares, and cannot forget a look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Steps = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The looks at one case.

    Attributes:
        steps: pairs of each planned look, counted from the first, and its share of the false alarms allowed; empty if
            all boots were to be measured before anybody looked.
        taken: boots of the arm that were planned when each batch of them began; somebody may have looked in between.
        screened: boots of the candidate that are compared with the history only; 0 for none.
    """

    steps: Steps = ()
    taken: tuple[int, ...] = ()
    screened: int = 0

    @property
    def is_single_look(self) -> bool:
        """Whether all boots were planned at once, and nobody planned to look before they are measured."""
        return not self.steps and not self.screened and len(self.taken) < 2

    def extend(self, boots: int) -> tuple[int, ...]:
        """Return the batches when there are so many boots: a new one if they are more than before."""
        return (*self.taken, boots) if boots > max(self.taken, default=0) else self.taken

    def __post_init__(self) -> None:
        check_steps(self.steps)


def check_steps(steps: Sequence[tuple[int, float]]) -> Steps:
    """Return the steps. Raises ValueError: pairs do not rise, or the shares are more than the whole."""
    is_rising = all(before < after for (before, _), (after, _) in pairwise(steps))
    shares = [share for _, share in steps]
    if not is_rising or any(pairs < 2 or not 0 < share <= 1 for pairs, share in steps) or math.fsum(shares) > 1 + 1e-9:
        raise ValueError(f"no looks: {', '.join(f'{pairs}:{share:g}' for pairs, share in steps)}")
    return tuple(steps)


def format_steps(steps: Steps) -> str:
    """Return steps as a command line has them: `3:0.2,6:0.3,12:0.5`."""
    return ",".join(f"{pairs}:{share:g}" for pairs, share in steps)


def parse_steps(text: str) -> Steps:
    """Return the steps of `format_steps`. Raises ValueError."""
    pairs = [part.partition(":") for part in text.split(",")]
    return check_steps([(int(count), float(share)) for count, _, share in pairs])
