# SPDX-License-Identifier: MIT
"""From records to a comparison's evidence, and from what was found to a verdict's sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rtgate.judge.compare.looks import Comparison, Outcome, Result, cost_minutes
from rtgate.judge.compare.paired import Evidence, Prior, Series, SpikeSeries
from rtgate.judge.compare.summaries import (
    SPIKES,
    THROUGHPUT,
    Levels,
    Spikes,
    levels,
    measurement_of,
    spikes,
    summaries,
)
from rtgate.judge.verdict import Figure, Finding, Kind, Status
from rtgate.records.record import Record
from rtgate.units import Quantity, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """What the history knows of one case on one board; empty without a history.

    Attributes:
        levels: those of its boots.
        priors: by metric.
        spikes: those of each of its boots at these levels.
        sessions: by metric, for each session the summaries of two boots of one kernel, close in time.
        screen: level of the screen that was calibrated for the device; None if nobody did.
    """

    levels: Levels | None = None
    priors: Mapping[str, Prior] = field(default_factory=dict)
    spikes: tuple[Spikes, ...] = ()
    sessions: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    screen: float | None = None


def evidence(
    case: str, pairs: Sequence[tuple[Record, Record]], case_history: CaseHistory, first_look: int
) -> tuple[Evidence, ...]:
    """Return the evidence of every metric of a case.

    Without a history the levels come from the baseline's boots of the first look, so that they stay the same when pairs
    are added. A metric that only some boots have stays in it, and cannot come out as no worse. A case without anything
    that can be compared has no evidence; that is no good news.

    Args:
        case: the case.
        pairs: (baseline, candidate), neighbours in time on one device, in the order of measuring. A boot that must not
            be judged is left out by who calls, with its partner.
        case_history: what is known of it.
        first_look: pairs of the first look.
    """
    case_levels = case_history.levels or levels([baseline for baseline, _ in pairs[:first_look]])
    summary_pairs = [
        (summaries(baseline, case_levels), summaries(candidate, case_levels)) for baseline, candidate in pairs
    ]
    metrics = sorted({metric for pair in summary_pairs for boot in pair for metric in boot})
    series = tuple(
        Series(
            case=case,
            metric=metric,
            differences=tuple(_difference(pair, metric) for pair in summary_pairs),
            prior=case_history.priors.get(metric, Prior()),
        )
        for metric in metrics
    )
    baseline, candidate = (tuple(spikes(pair[arm], case_levels) for pair in pairs) for arm in (0, 1))
    if not any((*baseline, *candidate)):
        return series
    return (*series, SpikeSeries(case=case, baseline=baseline, candidate=candidate, history=case_history.spikes))


def _difference(pair: tuple[Mapping[str, float], Mapping[str, float]], metric: str) -> float | None:
    baseline, candidate = pair
    if metric not in baseline or metric not in candidate:
        return None
    return candidate[metric] - baseline[metric]


def findings(comparison: Comparison, measured_minutes: float = 0.0, boot_minutes: float = 0.0) -> tuple[Finding, ...]:
    """Return what is to be said of a case: one finding, or one of each measurement that became worse.

    So that who answers for one measurement does not answer for another (waivers).

    Args:
        comparison: what was found.
        measured_minutes: of one boot of the case, to say what more pairs cost; 0 if nobody knows.
        boot_minutes: what a boot costs beside.
    """
    if comparison.outcome is Outcome.REGRESSION:
        return tuple(_regression(comparison.pairs, worse) for worse in _regressions(comparison))
    decisive = comparison.decisive
    if comparison.outcome is Outcome.NO_WORSE:
        return (_finding(Status.PASS, Kind.NO_WORSE, _no_worse(comparison), decisive),)
    sentence = _inconclusive(comparison)
    if decisive.enough and measured_minutes:
        cost = cost_minutes(decisive.enough - comparison.pairs, measured_minutes, boot_minutes)
        sentence += f", {cost:.0f} board-minutes"
    return (_finding(Status.DONE, Kind.INCONCLUSIVE, sentence, decisive),)


def _finding(status: Status, kind: Kind, sentence: str, result: Result) -> Finding:
    """Return a finding with the figure of one metric."""
    is_rate = result.metric.startswith(f"{THROUGHPUT} ")
    return Finding(
        status=status,
        kind=kind,
        sentence=sentence,
        value=_ratio(_as_measured(result.metric, result.effect.ratio)) if result.effect else None,
        baseline=_ratio(1.0) if is_rate else None,  # a rate that falls is below it, and so not waived
        measurement=result.metric,
    )


def _regressions(comparison: Comparison) -> list[list[Result]]:
    """Return the metrics that became worse, by measurement; the surest first."""
    worse = [result for result in comparison.results if result.outcome is Outcome.REGRESSION]
    by_measurement: dict[str, list[Result]] = {}
    for result in sorted(worse, key=lambda result: result.adjusted):
        by_measurement.setdefault(measurement_of(result.metric), []).append(result)
    return list(by_measurement.values())


def _regression(pairs: int, worse: Sequence[Result]) -> Finding:
    """Return that a measurement became worse, with the largest ratio of its metrics: what a waiver must cover."""
    largest = max(worse, key=lambda result: result.effect.ratio if result.effect else 0.0)
    effects = "; ".join(f"{format_effect(result)}, p {result.adjusted:.2g}" for result in worse)
    sentence = f"worse than the baseline in {pairs} pairs: {effects}"
    return _finding(Status.FAIL, Kind.REGRESSION, sentence, largest)


def _no_worse(comparison: Comparison) -> str:
    ratios = ", ".join(
        f"{result.metric} {times(_as_measured(result.metric, result.smallest))}"
        for result in comparison.results
        if result.smallest is not None
    )
    return f"no worse than the baseline in {comparison.pairs} pairs, which would have shown {ratios or 'nothing'}"


def _inconclusive(comparison: Comparison) -> str:
    result = comparison.decisive
    if comparison.pairs == 0:
        return f"not enough data: the first interim analysis takes {comparison.next_look} pairs"
    start = f"not enough data in {comparison.pairs} pairs: {format_effect(result)}"
    if result.enough is None:
        return f"{start}; nobody can tell how many would decide"
    return f"{start}; if it goes on like this {result.enough - comparison.pairs} more pairs would decide"


def format_effect(result: Result) -> str:
    """Return a metric's effect and its interval as people read it."""
    effect = result.effect
    if effect is None:
        return f"{result.metric} has no figure"
    ratio = _as_measured(result.metric, effect.ratio)
    low, high = sorted(_as_measured(result.metric, end) for end in effect.interval)
    what = "rate of spikes" if result.metric == SPIKES else result.metric
    return f"{what} {times(ratio)} (between {times(low)} and {times(high)})"


def _as_measured(metric: str, ratio: float) -> float:
    """Return a ratio of which more is worse as one of the measurement itself: a throughput that falls is below one."""
    if not metric.startswith(f"{THROUGHPUT} "):
        return ratio
    return 1 / ratio if ratio else math.inf


def _ratio(ratio: float) -> Figure:
    return Figure.of(Quantity(ratio, Unit.RATIO), times(ratio))


def times(ratio: float) -> str:
    """Return a ratio as people read it: `x1.12`."""
    return f"x{ratio:.3g}"
