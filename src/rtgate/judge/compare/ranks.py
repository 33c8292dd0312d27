# SPDX-License-Identifier: MIT
"""Rank statistics of two small samples: exact, without a law of distribution, and with ties.

Latencies of a counted-instruction machine are few different numbers, with ties and with boots that lie far off: means
and t tests are for other data. The test is Wilcoxon's rank sum (Biometrics Bulletin 1, 1945) with its conditional
distribution over all divisions of the ranks that were seen, which ties do not disturb; it is counted by the shift
algorithm of Streitberg and Roehmel (Statistical Software Newsletter 12, 1986). The shift is Hodges and Lehmann's
(Annals of Mathematical Statistics 34, 1963).

Counting takes memory with the cube of the number of boots, so that from about a hundred boots of each kernel on the
normal law stands in, with the variance that ties leave and a correction for continuity. Rank sums have lighter tails
than it, so it errs on the side of equal kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_CELLS = 4_000_000  # of the table of sums: 32 MB, a second


def worse(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return the probability that equal kernels show a candidate as high above the baseline as this one.

    Raises:
        ValueError: one of them is empty.
    """
    if not baseline or not candidate:
        raise ValueError("two samples are needed")
    ranks = _doubled_ranks((*baseline, *candidate))
    rank_sum = sum(ranks[len(baseline) :])
    order = tuple(sorted(ranks))
    if _too_many(order, len(candidate)):
        return _normal(ranks, len(candidate), rank_sum)
    ways = _sums(order, len(candidate))
    return float(ways[rank_sum:].sum() / ways.sum())


def shift(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return how far the candidate lies above the baseline: the median of all differences. Raises ValueError."""
    order = np.sort(_differences(baseline, candidate))
    middle = len(order) // 2
    # numpy.median does the same, and takes four times as long over so few; a comparison asks ten thousand times.
    return float(order[middle] if len(order) % 2 else (order[middle - 1] + order[middle]) / 2)


def at_most(baseline: Sequence[float], candidate: Sequence[float], confidence: float) -> float:
    """Return the upper bound of the shift at a one-sided confidence; infinite if so few boots cannot give one.

    Raises:
        ValueError: a sample is empty.
    """
    differences = np.sort(_differences(baseline, candidate))
    beyond = _critical_value(len(baseline), len(candidate), 1 - confidence)
    return math.inf if beyond == 0 else float(differences[len(differences) - beyond])


def at_least(baseline: Sequence[float], candidate: Sequence[float], confidence: float) -> float:
    """Return the lower bound of the shift at a one-sided confidence; as `at_most`."""
    return -at_most(candidate, baseline, confidence)


def least_p(baseline: int, candidate: int) -> float:
    """Return the smallest probability that `worse` can give for so many boots: all of one above all of the other."""
    return 1 / math.comb(baseline + candidate, candidate)


def _differences(baseline: Sequence[float], candidate: Sequence[float]) -> NDArray[np.float64]:
    if not baseline or not candidate:
        raise ValueError("two samples are needed")
    new, old = np.array(candidate, dtype=np.float64), np.array(baseline, dtype=np.float64)
    return np.subtract.outer(new, old).ravel()


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; equal values share the middle of theirs, which doubled is whole."""
    order = sorted(values)
    first = {value: index for index, value in reversed(list(enumerate(order, start=1)))}
    last = {value: index for index, value in enumerate(order, start=1)}
    return [first[value] + last[value] for value in values]


def _too_many(order: Sequence[int], count: int) -> bool:
    """Return whether the sums of so many ranks are too many to be counted."""
    return (count + 1) * sum(order[-count:]) > _CELLS


def _normal(ranks: Sequence[int], count: int, rank_sum: int) -> float:
    """Return the probability of a sum of `count` doubled ranks that reaches so far, by the normal law."""
    total, whole = len(ranks), sum(ranks)
    centre = count * whole / total
    # Of a sum drawn without putting back.
    spread = math.fsum((rank - whole / total) ** 2 for rank in ranks) / (total - 1)
    variance = count * (total - count) / total * spread
    if variance <= 0:
        return 1.0
    # Doubled ranks without ties are even: half a rank is one.
    return min(1.0, 0.5 * math.erfc((rank_sum - 1 - centre) / math.sqrt(2 * variance)))


@lru_cache(maxsize=256)
def _sums(ranks: tuple[int, ...], count: int) -> NDArray[np.float64]:
    """Return in how many ways `count` of the ranks come to each sum."""
    ways = np.zeros((count + 1, sum(ranks[-count:]) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] = ways[1:, rank:] + ways[:-1, : ways.shape[1] - rank]
    return np.array(ways[count])


@lru_cache(maxsize=64)
def _critical_value(baseline: int, candidate: int, error: float) -> int:
    """Return the largest c with P(U < c) <= error, U as Mann and Whitney's: so many differences lie beyond a bound."""
    ranks = tuple(range(1, baseline + candidate + 1))
    if _too_many(ranks, candidate):
        spread = math.sqrt(baseline * candidate * (baseline + candidate + 1) / 12)
        return max(0, math.floor(baseline * candidate / 2 + 0.5 + NormalDist().inv_cdf(error) * spread))
    ways = _sums(ranks, candidate)[candidate * (candidate + 1) // 2 :]
    shares = np.cumsum(ways) / ways.sum()
    return int(np.searchsorted(shares, error, side="right"))
