# SPDX-License-Identifier: MIT
"""A/A pairs: two boots of one kernel, neighbours in time, and what they lend a comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import Boot
from rtgate.judge.compare.paired import priors
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
        identity = (boot.image,) if boot.image else (boot.kernel_release, boot.arm)
        groups[(boot.run, boot.comparable, *identity)].append(boot)
    return tuple(pair for group in groups.values() for pair in _group(group))


def _group(boots: Sequence[Boot]) -> list[Pair]:
    by_arm: dict[str, dict[int, Boot]] = defaultdict(dict)
    for boot in sorted(boots, key=lambda boot: (boot.number, boot.id)):
        by_arm[boot.arm].setdefault(boot.number, boot)
    arms = [by_arm[arm] for arm in sorted(by_arm)]  # the baseline first
    both = sorted(set(arms[0]) & set(arms[1])) if len(arms) == 2 else []
    aa_pairs = [(arms[0][number], arms[1][number]) for number in both]
    for arm in arms:
        rest = [boot for number, boot in sorted(arm.items()) if number not in both]
        aa_pairs += list(zip(rest[::2], rest[1::2], strict=False))
    return aa_pairs


def newest(aa_pairs: Sequence[Pair], most: int = MOST_PAIRS) -> tuple[Pair, ...]:
    """Return the pairs that were stored last."""
    return tuple(sorted(aa_pairs, key=lambda pair: max(boot.id for boot in pair))[-most:])


def borrow(history: History, like: Record, own_records: Sequence[Record] = ()) -> CaseHistory:
    """Return everything that a comparison may borrow from comparable boots of good kernels; nothing on virtual time.

    There two boots of one kernel and seed are equal, and a variance of nothing would make every difference significant.
    Levels, variances, spikes and sessions are of the same boots: those of the newest A/A pairs. A run that is judged
    again lends itself nothing.

    Args:
        history: where to look.
        like: a record of the comparison, of either arm.
        own_records: the records of the comparison.

    Raises:
        ConfigError, InfrastructureError: as `queries.records`.
    """
    if like.virtual_time:
        return CaseHistory()
    aa_pairs = newest(pairs(queries.comparable_boots(history, like, without=queries.runs_of(history, own_records))))
    records = queries.measured_like(history, [boot for pair in aa_pairs for boot in pair], like)
    case_levels = levels(records)
    if case_levels is None:
        return CaseHistory()
    summary_maps = [summaries(record, case_levels) for record in records]
    summary_pairs = list(zip(summary_maps[::2], summary_maps[1::2], strict=True))
    return CaseHistory(
        levels=case_levels,
        priors=priors(summary_pairs),
        spikes=tuple(spike for spike in (spikes(record, case_levels) for record in records) if spike is not None),
        sessions=_sessions(aa_pairs, summary_pairs),
    )


def nights(aa_pairs: Sequence[Pair], records: Sequence[Record]) -> tuple[SessionPair, ...]:
    """Return the newest pair of each run, summarised at the levels that all of them fix.

    Args:
        aa_pairs: A/A pairs of one case.
        records: of their boots, in turns.
    """
    by_run = {run: (records[2 * number], records[2 * number + 1]) for run, number in _last_of_runs(aa_pairs).items()}
    case_levels = levels([record for pair in by_run.values() for record in pair])
    return tuple(
        SessionPair(
            run,
            (summaries(first, case_levels), summaries(second, case_levels)),
            (spikes(first, case_levels), spikes(second, case_levels)),
        )
        for run, (first, second) in by_run.items()
    )


def _last_of_runs(aa_pairs: Sequence[Pair]) -> dict[str, int]:
    """Return which pair is the newest of each run."""
    return {first.run: number for number, (first, _) in enumerate(aa_pairs)}


def _sessions(
    aa_pairs: Sequence[Pair], summary_pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> dict[str, list[tuple[float, float]]]:
    """Return by metric one pair of each run: pairs of one run share its drift."""
    sessions: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in sorted(_last_of_runs(aa_pairs).values()):
        before, after = summary_pairs[number]
        for name in sorted(before.keys() & after.keys()):
            sessions[name].append((before[name], after[name]))
    return dict(sessions)
