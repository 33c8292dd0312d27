# SPDX-License-Identifier: MIT
"""Share limits learnt from boots of good kernels: how many samples may lie over a level that hardly any reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.judge.distributions import share_bounds
from rtgate.judge.learn.calibration import Proof, Session, problem, replay_proof
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit

CONFIDENCE = 0.99
_EVENTS = 3  # so many samples over the level pass all the same: one of them is no news
_SEEN = 1  # of all samples of the past at most so many are over the level


@dataclass(frozen=True, slots=True)
class Samples:
    """The boots of a session (see `calibration.Session`), each with all its samples."""

    name: str
    boots: tuple[Histogram, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProposal:
    """A tail limit: at most `share` of the samples over `over`.

    Attributes:
        seen: samples over the level, of `samples`.
        problem: why it must not gate; empty if it may.
    """

    over: Quantity
    share: float
    seen: int
    samples: int
    proof: Proof
    problem: str


def propose_share(sessions: Sequence[Samples], target: float, boots: int) -> ShareProposal | None:
    """Return a tail limit that `boots` boots of a good kernel fail to keep with a probability of at most `target`.

    Not keeping it includes samples that do not decide. None if the histograms do not fit together or end too early.
    """
    histograms = [histogram for session in sessions for histogram in session.boots]
    try:
        whole = Histogram.merge(histograms)
        over = _level(whole)
        share = _share(min(histogram.total for histogram in histograms) * boots)
        proof = _replay(sessions, boots, share)
        events = whole.over(over)
    except ValueError:
        return None
    return ShareProposal(
        over=over, share=share, seen=events, samples=whole.total, proof=proof, problem=problem(proof, target, boots)
    )


def _level(whole: Histogram) -> Quantity:
    """Return the first multiple of 5 us that at most one of all samples exceeds. Raises ValueError: none is known."""
    unit = Unit.VIRTUAL_US if whole.unit.virtual else Unit.US
    step = 5.0
    last = Quantity(max(whole.counts, default=0), whole.unit).to(unit).value
    for number in range(1, math.ceil(last / step) + 2):
        level = Quantity(number * step, unit)
        if whole.over(level) <= _SEEN:
            return level
    raise ValueError("every level is exceeded")


def _share(samples: int) -> float:
    """Return the share that a run's samples can prove with some events among them, rounded up to one digit."""
    if samples <= _EVENTS:
        raise ValueError("too few samples")
    exact = share_bounds(_EVENTS, samples, CONFIDENCE)[1]
    unit = 10.0 ** math.floor(math.log10(exact))
    return min(float(f"{math.ceil(exact / unit) * unit:.0e}"), 0.99)


def _replay(sessions: Sequence[Samples], boots: int, share: float) -> Proof:
    trials = alarms = 0
    for held_out in sessions:
        rest = [histogram for session in sessions if session is not held_out for histogram in session.boots]
        if not rest:
            continue
        level = _level(Histogram.merge(rest))
        for start in range(0, len(held_out.boots) - boots + 1, boots):
            run = Histogram.merge(held_out.boots[start : start + boots])
            trials += 1
            alarms += share_bounds(run.over(level), run.total, CONFIDENCE)[1] > share
    return replay_proof([_as_numbers(session) for session in sessions], trials, alarms)


def _as_numbers(session: Samples) -> Session:
    return Session(session.name, tuple(float(max(histogram.counts, default=0)) for histogram in session.boots))
