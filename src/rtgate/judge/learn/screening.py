# SPDX-License-Identifier: MIT
"""The screen's level, learnt from the past: how many sessions of good kernels it would have flagged.

The level decides what a merge request costs (flagged cases are measured again), not how often it is wrongly blocked:
that is the confirmation's share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.procedures import suspicions
from rtgate.judge.compare.summaries import Spikes
from rtgate.judge.distributions import share_bounds
from rtgate.judge.learn.calibration import FEWEST_SESSIONS

LEVELS = (0.12, 0.05, 0.02, 0.01, 0.005, 0.002)
FLAGGED = 0.10  # of the cases of a harmless merge request


@dataclass(frozen=True, slots=True)
class SessionPair:
    """Two boots of one good kernel, neighbours in time, of one session."""

    name: str
    boots: tuple[Mapping[str, float], Mapping[str, float]]
    spikes: tuple[Spikes | None, Spikes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenProposal:
    """A level for the screen.

    Attributes:
        level: None if even the smallest flags too many, as it does with few sessions.
        flagged: of `sessions`, those in which some metric was less likely than the level.
        upper: upper 95 % bound of the share of flagged ones.
        problem: why it should not be relied on; empty if it may.
    """

    level: float | None
    flagged: int
    sessions: int
    upper: float
    problem: str


def replay(nights: Sequence[SessionPair]) -> tuple[float, ...]:
    """Return of each session how suspicious its most suspicious metric is against all other sessions."""
    p_values = []
    for held_out in nights:
        other_nights = [night for night in nights if night is not held_out]
        metrics = {metric for night in other_nights for boot in night.boots for metric in boot}
        past = CaseHistory(
            sessions={
                metric: [
                    (night.boots[0][metric], night.boots[1][metric])
                    for night in other_nights
                    if metric in night.boots[0] and metric in night.boots[1]
                ]
                for metric in metrics
            },
            spikes=tuple(spikes for night in other_nights for spikes in night.spikes if spikes is not None),
        )
        p_values.append(min(suspicions(held_out.boots, held_out.spikes, past).values(), default=0.0))
    return tuple(p_values)


def propose_screen(nights: Sequence[SessionPair], share: float = FLAGGED) -> ScreenProposal:
    """Return the largest level that flags at most `share` of the sessions of good kernels when they are held out."""
    smallest = replay(nights)
    count = len(smallest)
    few = f"{count} sessions are too few: it takes {FEWEST_SESSIONS}" if count < FEWEST_SESSIONS else ""
    for level in LEVELS:
        flags = sum(p < level for p in smallest)
        if count and flags <= share * count:
            upper = share_bounds(flags, count, 0.95)[1]
            return ScreenProposal(level=level, flagged=flags, sessions=count, upper=upper, problem=few)
    flags = sum(p < LEVELS[-1] for p in smallest)
    problem = few or f"even at {LEVELS[-1]:g} {flags} of {count} sessions of good kernels are flagged"
    return ScreenProposal(level=None, flagged=flags, sessions=count, upper=1.0, problem=problem)
