# SPDX-License-Identifier: MIT
"""Limits learnt from boots of good kernels, and proof of how often they would have cried wolf.

A limit on a boot's largest value is either the largest of H boots, which B further boots exceed with a probability of
B / (H + B) whatever their law (Wilks, Annals of Mathematical Statistics 12, 1941), or, where H is too small for that, a
prediction limit of the Gumbel law: `mu + c beta` with `mu` and `beta` by L-moments (Hosking, Journal of the Royal
Statistical Society B 52, 1990) and `c` from simulating H + B Gumbel numbers. Then the past is replayed: each session is
held out once, the limit is made from the others, and the boots of the session are judged by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rtgate.judge.distributions import share_bounds

EULER = 0.5772156649015329
FEWEST_SESSIONS = 10  # with fewer the drift between sessions is a guess
_DRAWS = 40_000
_STEP, _MOST_STEPS = 0.25, 80  # in beta: how a limit is widened until its replay meets the target


@dataclass(frozen=True, slots=True)
class Session:
    """Boots that share what drifts slowly: those of one run, or on virtual time those of one kernel image.

    Attributes:
        values: of each boot its worst value; larger is worse.
    """

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What replaying the past showed.

    Attributes:
        trials: held-out runs of as many boots as a gate has.
        alarms: those that broke the limit made from the other sessions.
        upper: upper 95 % bound of the share of false alarms; boots of one session that resemble each other count less.
        correlation: of boots of one session, 0 to 1.
    """

    sessions: int
    boots: int
    trials: int
    alarms: int
    upper: float
    correlation: float

    @property
    def rate(self) -> float:
        """The share of false alarms."""
        return self.alarms / self.trials if self.trials else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A limit.

    Attributes:
        limit: larger values are alarms.
        largest: the largest value of all.
        method: how it was made, in words.
        problem: why it must not gate; empty if it may.
    """

    limit: float
    largest: float
    method: str
    proof: Proof
    problem: str


def gumbel(values: Sequence[float]) -> tuple[float, float]:
    """Return location and scale of the Gumbel law of some maxima, by L-moments; the scale is 0 for equal values."""
    order = sorted(values)
    count = len(order)
    first = math.fsum(order) / count
    second = math.fsum(rank * value for rank, value in enumerate(order)) / (count * (count - 1)) if count > 1 else 0.0
    scale = max((2 * second - first) / math.log(2), 0.0) if count > 1 else 0.0
    return first - EULER * scale, scale


@lru_cache(maxsize=512)
def factor(past: int, future: int, alpha: float) -> float:
    """Return c: the largest of `future` Gumbel numbers exceeds `mu + c beta` of `past` others with probability alpha.

    By simulation with a fixed seed; good to about 1 % at alpha 1 %.
    """
    chance = np.random.default_rng([past, future, round(alpha * 1e6)])
    order = np.sort(chance.gumbel(size=(_DRAWS, past)), axis=1)
    mean = order.mean(axis=1)
    second = order @ np.arange(past) / (past * (past - 1))
    scale = (2 * second - mean) / math.log(2)
    location = mean - EULER * scale
    largest = chance.gumbel(size=(_DRAWS, future)).max(axis=1)
    return float(np.quantile((largest - location) / scale, 1 - alpha))


def propose(sessions: Sequence[Session], target: float, boots: int) -> Proposal:
    """Return a limit that `boots` boots of a good kernel break with a probability of at most `target`.

    Raises:
        ValueError: there are fewer than three boots.
    """
    values = [value for session in sessions for value in session.values]
    if len(values) < 3:
        raise ValueError(f"{len(values)} boots are too few for a limit")
    for step in range(_MOST_STEPS + 1):
        proof = replay(sessions, target, boots, widened=step * _STEP)
        good = proof.rate <= target and (proof.upper <= 2 * target or not proof.alarms)
        if good or not proof.trials:  # without a replay nothing says how far to widen
            break
    limit, method = _limit(values, target, boots, step * _STEP)
    return Proposal(
        limit=limit,
        largest=max(values),
        method=method,
        proof=proof,
        problem=problem(proof, target, boots),
    )


def _limit(values: Sequence[float], target: float, boots: int, scales: float) -> tuple[float, str]:
    location, scale = gumbel(values)
    count, largest = len(values), max(values)
    if boots / (count + boots) <= target:
        base, method = largest, f"largest of {count} boots"
    else:
        c = factor(count, boots, target)
        base, method = max(largest, location + c * scale), f"Gumbel prediction limit of {count} boots"
    extra = f", widened by {scales:g} scales ({scales * scale:.3g}) for its replay" if scales and scale else ""
    return base + scales * scale, method + extra


def replay(sessions: Sequence[Session], target: float, boots: int, widened: float = 0.0) -> Proof:
    """Return how often limits made from all other sessions were broken by runs of `boots` boots of each session."""
    trials = alarms = 0
    for held_out in sessions:
        rest = [value for session in sessions if session is not held_out for value in session.values]
        if len(rest) < 2:
            continue
        limit, _ = _limit(rest, target, boots, widened)
        runs = groups(held_out.values, boots)
        trials += len(runs)
        alarms += sum(max(run) > limit for run in runs)
    return replay_proof(sessions, trials, alarms)


def groups(values: Sequence[float], size: int) -> list[Sequence[float]]:
    """Return neighbouring values in groups as large as a gate's run; what is left over is not a group."""
    return [values[start : start + size] for start in range(0, len(values) - size + 1, size)]


def replay_proof(sessions: Sequence[Session], trials: int, alarms: int) -> Proof:
    """Return the proof of a replay: boots that resemble each other prove less than independent ones."""
    correlation = _correlation(sessions)
    size = trials / len(sessions) if sessions else 0.0
    inflation = 1 + max(size - 1, 0.0) * correlation
    return Proof(
        sessions=len(sessions),
        boots=sum(len(session.values) for session in sessions),
        trials=trials,
        alarms=alarms,
        upper=share_bounds(alarms / inflation, trials / inflation, 0.95)[1] if trials else 1.0,
        correlation=correlation,
    )


def problem(proof: Proof, target: float, boots: int) -> str:
    """Return why a proof does not suffice to gate runs of so many boots at a target; empty if it does."""
    if proof.sessions < FEWEST_SESSIONS:
        there = "one session does" if proof.sessions == 1 else f"{proof.sessions} sessions do"
        return f"{there} not show how a good kernel drifts here: it takes {FEWEST_SESSIONS}"
    if not proof.trials:
        return (
            f"no session has {boots} valid boots, so no limit was replayed: measure more of them (or a smaller --boots)"
        )
    if proof.rate > target:
        return f"no limit was found whose replay meets the target: {proof.alarms} of {proof.trials} runs break it"
    if proof.upper > 2 * target:
        runs = math.ceil(math.log(0.05) / math.log1p(-2 * target))
        return (
            f"{proof.trials} held-out runs cannot show a share of {target:.2g}: it may be {proof.upper:.2g}, more than "
            f"twice that; it takes about {runs} runs without an alarm (or a larger --target)"
        )
    return ""


def _correlation(sessions: Sequence[Session]) -> float:
    """Return the intraclass correlation of boots by session (one-way analysis of variance), 0 to 1."""
    several = [session.values for session in sessions if len(session.values) > 1]
    count, total = len(several), sum(map(len, several))
    if count < 2 or total == count:
        return 0.0
    grand = sum(map(math.fsum, several)) / total
    between = sum(len(group) * (math.fsum(group) / len(group) - grand) ** 2 for group in several) / (count - 1)
    within = sum((value - math.fsum(group) / len(group)) ** 2 for group in several for value in group) / (total - count)
    size = total / count
    spread = between + (size - 1) * within
    return min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 0.0
