# SPDX-License-Identifier: MIT
"""Board-minutes that a comparison may take, and where it stands in them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rtgate.errors import ConfigError

DEFAULT = "60m"


def minutes(text: str) -> float:
    """Return the minutes of `45`, `45m` or `2h`. Raises ConfigError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mh]?)", text)
    found = float(match[1]) * (60 if match[2] == "h" else 1) if match else 0.0
    if found <= 0:
        raise ConfigError(f"--budget {text}: no time of a board (examples: 45, 45m or 2h)")
    return found


@dataclass(slots=True)
class Budget:
    """Board-minutes that may be spent, and those that were."""

    whole: float
    spent: float = 0.0

    def refusal(self, cost: float, what: str) -> str:
        """Return why something that costs so many minutes is not measured, as a sentence; empty if it may be."""
        if self.spent + cost <= self.whole:
            return ""
        return (
            f"{what} would take {cost:.1f} board-minutes more; {self.spent:.1f} of {self.whole:g} are spent: --budget "
            f"{math.ceil(self.spent + cost)} allows it"
        )
