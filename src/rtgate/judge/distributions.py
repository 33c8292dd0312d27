# SPDX-License-Identifier: MIT
"""Tail areas and quantiles of the distributions that judgement uses.

The functions of `scipy.special` behind them are called directly: `scipy.stats` takes a second to import.
"""

from __future__ import annotations

import math

from scipy.special import betainc, betaincinv, gammaincinv, stdtr, stdtrit


def t_above(t: float, degrees: float) -> float:
    """Return the probability that Student's t with `degrees` degrees of freedom is at least `t`."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    return float(stdtr(degrees, -t))


def t_point(probability: float, degrees: float) -> float:
    """Return the value that Student's t exceeds with `probability`."""
    return -float(stdtrit(degrees, probability))


def negative_binomial_at_least(count: float, size: float, success: float) -> float:
    """Return P(X >= count) of a negative binomial law; `count` need not be whole, the law is continued."""
    return 1.0 if count <= 0 else float(betainc(count, size, 1 - success))


def poisson_upper(count: float, confidence: float) -> float:
    """Return Garwood's one-sided upper bound of a Poisson mean of which `count` were seen (Biometrika 28, 1936)."""
    return float(gammaincinv(count + 1, confidence))


def poisson_lower(count: float, confidence: float) -> float:
    """Return Garwood's one-sided lower bound of a Poisson mean of which `count` were seen."""
    return 0.0 if count <= 0 else float(gammaincinv(count, 1 - confidence))


def share_bounds(events: float, samples: float, confidence: float) -> tuple[float, float]:
    """Return one-sided lower and upper bounds of a share, each at `confidence` (Clopper and Pearson)."""
    low = 0.0 if events <= 0 else float(betaincinv(events, samples - events + 1, 1 - confidence))
    high = 1.0 if events >= samples else float(betaincinv(events + 1, samples - events, confidence))
    return low, high
