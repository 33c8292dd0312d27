# SPDX-License-Identifier: MIT
"""Board-minutes that a comparison may take, and where it stands in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtgate import durations
from rtgate.judge.compare.on_boards import BOOT_MINUTES

DEFAULT = "1 h"


def minutes(text: str) -> float:
    """Return the board-minutes of a duration. Raises ConfigError."""
    return durations.option("--budget", text) / 60


def boot_minutes(test_s: float) -> float:
    """Return the board-minutes of one boot, whose tests take so many seconds (`lava.job.request.usual_test_s`)."""
    return BOOT_MINUTES + test_s / 60


@dataclass(slots=True)
class Budget:
    """Board-minutes that may be spent, and those that were.

    Attributes:
        setting: what allows a duration in the place of `{}`.
    """

    total: float
    spent: float = 0.0
    setting: str = "--budget {}"

    def refusal(self, cost: float, what: str) -> str:
        """Return why something that costs so many minutes is not measured, as a sentence; empty if it may be."""
        if self.spent + cost <= self.total:
            return ""
        setting = self.setting.format(f"{math.ceil(self.spent + cost)}min")
        return (
            f"{what} would take {cost:.1f} board-minutes more; {self.spent:.1f} of {self.total:g} are spent: "
            f"{setting} allows it"
        )
