# SPDX-License-Identifier: MIT
"""Which cases a board in a lab measures after a gate on virtual time, and what they take of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.errors import ConfigError
from rtgate.judge.compare.triage import Choice, SelectableCase, choose
from rtgate.judge.verdict import Verdict
from rtgate.measure.case import Case
from rtgate.measure.profiles import Lengths, profile
from rtgate.tools.registry import TOOLS
from rtgate.workflow import suites

_BOOT_MINUTES = 1.5  # of a board: power, boot loader, kernel, LAVA's own steps
_CASE_S = 6.0  # around a measurement: the plan goes up, the results come down


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a board may measure.

    Attributes:
        suites: empty for all.
        pairs: boots of each kernel.
        budget: board-minutes.
        minimum: cases that are always measured; None for the profile's.
    """

    profile: str
    budget: float
    pairs: int
    tuning: str = "default"
    suites: tuple[str, ...] = ()
    minimum: tuple[str, ...] | None = None

    @property
    def booting(self) -> float:
        """Board-minutes that the boots take, whatever is measured in them."""
        return 2 * self.pairs * _BOOT_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a board measures.

    Attributes:
        choices: every case that is a matter for the board, the most urgent first.
        cases: those within the budget.
        minutes: of the board, with its boots.
    """

    choices: tuple[Choice, ...]
    cases: tuple[Case, ...]
    minutes: float


def select_cases(verdicts: Sequence[Verdict], wish: Wish) -> Selection:
    """Return what a board measures after a gate on virtual time had these verdicts.

    Raises:
        ConfigError: the boots alone are more than the budget, or profile, suites or cases are not there.
        InfrastructureError: this machine is too busy.
    """
    if wish.budget <= wish.booting:
        raise ConfigError(
            f"{wish.pairs} pairs of boots alone take {wish.booting:.0f} board-minutes (--pairs, --budget)"
        )
    lengths = profile(wish.profile, TOOLS)
    cases = suites.cases(wish.suites, wish.profile, wish.tuning)
    entries = [
        SelectableCase(case=case.name, minutes=_minutes(lengths.of(case.tool.name, case.suite, case.load), wish.pairs))
        for case in cases
    ]
    choices = choose(verdicts, entries, _minimum(wish, lengths.minimum, entries), wish.budget - wish.booting)
    within = {choice.case: choice.minutes for choice in choices if choice.within}
    return Selection(
        choices=choices,
        cases=tuple(case for case in cases if case.name in within),
        minutes=sum(within.values()) + wish.booting,
    )


def _minimum(wish: Wish, usual: Sequence[str], entries: Sequence[SelectableCase]) -> Sequence[str]:
    if wish.minimum is None:
        return [case if wish.tuning == "default" else f"{case}+{wish.tuning}" for case in usual]
    unknown_cases = sorted(set(wish.minimum) - {entry.case for entry in entries})
    if unknown_cases:
        raise ConfigError(f"--minimum {', '.join(unknown_cases)}: no such case in the profile {wish.profile}")
    return wish.minimum


def _minutes(lengths: Lengths, pairs: int) -> float:
    """Return what a case adds to boots that are made anyhow, of both kernels."""
    return 2 * pairs * (lengths.duration_s + _CASE_S) / 60
