# SPDX-License-Identifier: MIT
"""Tail areas and quantiles of the distributions that judgement uses.

The functions of `scipy.special` behind them are called directly: `scipy.stats` takes a second to import.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType


@cache
def _special() -> ModuleType:
    """Return `scipy.special`, which takes a third of a second to load: whoever only measures goes without."""
    from scipy import special  # noqa: PLC0415

    module: ModuleType = special
    return module


def t_above(t: float, degrees: float) -> float:
    """Return the probability that Student's t with `degrees` degrees of freedom is at least `t`."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    return float(_special().stdtr(degrees, -t))


def t_point(probability: float, degrees: float) -> float:
    """Return the value that Student's t exceeds with `probability`."""
    return -float(_special().stdtrit(degrees, probability))


def t_power(point: float, degrees: float, shift: float) -> float:
    """Return the probability that Student's t exceeds `point` when the truth is `shift` standard errors away."""
    if shift > 30:  # scipy's function ends near 38; normal law of t's variance-stabilised form
        return float(_special().ndtr((shift - point) / math.sqrt(1 + point * point / (2 * degrees))))
    return 1 - float(_special().nctdtr(degrees, shift, point))


def variance_at_most(variance: float, degrees: float, confidence: float) -> float:
    """Return the one-sided upper bound of a variance that was estimated with so many degrees of freedom."""
    return variance * degrees / (2 * float(_special().gammaincinv(degrees / 2, 1 - confidence)))


def poisson_at_most(count: float, mean: float) -> float:
    """Return the probability of at most `count` events of a Poisson law."""
    return float(_special().gammaincc(count + 1, mean))


def negative_binomial_at_least(count: float, size: float, success: float) -> float:
    """Return P(X >= count) of a negative binomial law; `count` need not be whole, the law is continued."""
    return 1.0 if count <= 0 else float(_special().betainc(count, size, 1 - success))


def poisson_upper(count: float, confidence: float) -> float:
    """Return Garwood's one-sided upper bound of a Poisson mean of which `count` were seen (Biometrika 28, 1936)."""
    return float(_special().gammaincinv(count + 1, confidence))


def poisson_lower(count: float, confidence: float) -> float:
    """Return Garwood's one-sided lower bound of a Poisson mean of which `count` were seen."""
    return 0.0 if count <= 0 else float(_special().gammaincinv(count, 1 - confidence))


def share_bounds(events: float, samples: float, confidence: float) -> tuple[float, float]:
    """Return one-sided lower and upper bounds of a share, each at `confidence` (Clopper and Pearson)."""
    low = 0.0 if events <= 0 else float(_special().betaincinv(events, samples - events + 1, 1 - confidence))
    high = 1.0 if events >= samples else float(_special().betaincinv(events + 1, samples - events, confidence))
    return low, high
