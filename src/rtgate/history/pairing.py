# SPDX-License-Identifier: MIT
"""A/A pairs: two boots of one kernel, neighbours in time, and what they lend a comparison."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot
from rtgate.judge.compare.paired import Prior
from rtgate.judge.compare.pairing import CaseHistory
from rtgate.judge.compare.summaries import levels, spikes, summaries
from rtgate.judge.learn.screening import SessionPair
from rtgate.records.record import Record

# A variance known from more pairs than this would drown what the merge request's own boots say.
MOST_PAIRS = 30
Pair = tuple[Boot, Boot]


def pairs(boots: Iterable[Boot]) -> tuple[Pair, ...]:
    """Return the A/A pairs among boots; each boot is in one pair at most.

    Pairs are of one run, one kernel and one comparable environment. Where both arms were the same kernel image, the
    boots of one number are a pair, as they would be in a comparison; what is left is paired with its neighbour.
    """
    groups: dict[tuple[str, ...], list[Boot]] = defaultdict(list)
    for boot in boots:
        # Two kernels whose images nobody knew may differ, so only boots of one arm are of one kernel.
        known = (boot.image,) if boot.image else (boot.kernel_release, boot.arm)
        groups[(boot.run, boot.comparable, *known)].append(boot)
    return tuple(pair for group in groups.values() for pair in _group(group))


def _group(boots: Sequence[Boot]) -> list[Pair]:
    by_arm: dict[str, dict[int, Boot]] = defaultdict(dict)
    for boot in sorted(boots, key=lambda one: (one.number, one.id)):
        by_arm[boot.arm].setdefault(boot.number, boot)
    arms = [by_arm[arm] for arm in sorted(by_arm)]  # the baseline first
    both = sorted(set(arms[0]) & set(arms[1])) if len(arms) == 2 else []
    found = [(arms[0][number], arms[1][number]) for number in both]
    for arm in arms:
        left = [boot for number, boot in sorted(arm.items()) if number not in both]
        found += list(zip(left[::2], left[1::2], strict=False))
    return found


def newest(found: Sequence[Pair], most: int = MOST_PAIRS) -> tuple[Pair, ...]:
    """Return the pairs that were stored last."""
    return tuple(sorted(found, key=lambda pair: max(boot.id for boot in pair))[-most:])


def variances(summed: Iterable[tuple[Mapping[str, float], Mapping[str, float]]]) -> Mapping[str, Prior]:
    """Return the mean square of the differences in pairs, by summary; a pair of which one boot lacks it is left out."""
    squares: dict[str, list[float]] = defaultdict(list)
    for first, second in summed:
        for name in first.keys() & second.keys():
            squares[name].append((second[name] - first[name]) ** 2)
    return {name: Prior(math.fsum(found) / len(found), len(found)) for name, found in sorted(squares.items())}


def borrow(history: History, like: Record, judged: Sequence[Record] = ()) -> CaseHistory:
    """Return everything that a comparison may borrow from comparable boots of good kernels; nothing on virtual time.

    There two boots of one kernel and seed are equal, and a variance of nothing would make every difference significant.
    Levels, variances, spikes and sessions are of the same boots: those of the newest A/A pairs. A run that is judged
    again lends itself nothing.

    Args:
        history: where to look.
        like: a record of the comparison, of either arm.
        judged: the records of the comparison.

    Raises:
        ConfigError, InfrastructureError: as `queries.records`.
    """
    if like.virtual_time:
        return CaseHistory()
    chosen = newest(pairs(queries.comparable_boots(history, like, without=queries.runs_of(history, judged))))
    records = queries.measured_like(history, [boot for pair in chosen for boot in pair], like)
    fixed = levels(records)
    if fixed is None:
        return CaseHistory()
    each = [summaries(record, fixed) for record in records]
    summed = list(zip(each[::2], each[1::2], strict=True))
    return CaseHistory(
        levels=fixed,
        priors=variances(summed),
        spikes=tuple(one for one in (spikes(record, fixed) for record in records) if one is not None),
        sessions=_sessions(chosen, summed),
    )


def nights(found: Sequence[Pair], records: Sequence[Record]) -> tuple[SessionPair, ...]:
    """Return the newest pair of each run, summarised at the levels that all of them fix.

    Args:
        found: A/A pairs of one case.
        records: of their boots, in turns.
    """
    last = {first.run: number for number, (first, _) in enumerate(found)}
    chosen = {run: (records[2 * number], records[2 * number + 1]) for run, number in last.items()}
    fixed = levels([record for pair in chosen.values() for record in pair])
    return tuple(
        SessionPair(run, (summaries(one, fixed), summaries(other, fixed)), (spikes(one, fixed), spikes(other, fixed)))
        for run, (one, other) in chosen.items()
    )


def _sessions(
    chosen: Sequence[Pair], summed: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> dict[str, list[tuple[float, float]]]:
    """Return by metric one pair of each run: pairs of one run share its drift."""
    last = {first.run: number for number, (first, _) in enumerate(chosen)}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in sorted(last.values()):
        before, after = summed[number]
        for name in sorted(before.keys() & after.keys()):
            found[name].append((before[name], after[name]))
    return dict(found)
