# SPDX-License-Identifier: MIT
"""A/A pairs: two boots of one kernel, neighbours in time, and the boot-to-boot variance that they lend a comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot
from rtgate.judge.paired import Prior
from rtgate.record import Record

# A variance known from more pairs than this would drown what the merge request's own boots say.
MOST_PAIRS = 30
Summarise = Callable[[Record], Mapping[str, float]]


def pairs(boots: Iterable[Boot]) -> tuple[tuple[Boot, Boot], ...]:
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


def _group(boots: Sequence[Boot]) -> list[tuple[Boot, Boot]]:
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


def differences(history: History, boots: Sequence[Boot], summarise: Summarise) -> dict[str, list[float]]:
    """Return, by summary, its differences between the boots of each A/A pair. Raises as `queries.records`."""
    found: dict[str, list[float]] = defaultdict(list)
    paired = pairs(boots)
    records = iter(queries.records(history, [boot for pair in paired for boot in pair]))
    for first, second in zip(records, records, strict=True):
        before, after = summarise(first), summarise(second)
        for name in before.keys() & after.keys():
            found[name].append(after[name] - before[name])
    return dict(found)


def priors(history: History, like: Record, summarise: Summarise, *, most: int = MOST_PAIRS) -> dict[str, Prior]:
    """Return what history knows of the boot-to-boot variance of each summary of comparable boots.

    On virtual time it is empty: two boots of one kernel and seed are equal there, and a variance of nothing would make
    every difference significant.

    Args:
        history: where to look.
        like: a record of the comparison.
        summarise: gives a record's summaries: natural logarithms by name.
        most: how many pairs to use at most, the newest ones.

    Raises:
        ConfigError, InfrastructureError: as `queries.records`.
    """
    if like.virtual_time:
        return {}
    boots = queries.comparable_boots(history, like)
    newest = {boot.id for pair in _newest(pairs(boots), most) for boot in pair}
    found = differences(history, [boot for boot in boots if boot.id in newest], summarise)
    return {
        name: Prior(variance=sum(one * one for one in values) / len(values), degrees=len(values))
        for name, values in sorted(found.items())
    }


def _newest(found: Sequence[tuple[Boot, Boot]], most: int) -> list[tuple[Boot, Boot]]:
    return sorted(found, key=lambda pair: max(boot.id for boot in pair))[-most:]
