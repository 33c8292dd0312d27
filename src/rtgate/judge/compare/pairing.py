# SPDX-License-Identifier: MIT
"""From records to a comparison's evidence, and from what was found to a verdict's sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rtgate.judge.compare.looks import Comparison, Outcome, Result, cost_minutes
from rtgate.judge.compare.paired import Evidence, Prior, Series, SpikeSeries
from rtgate.judge.compare.summaries import SPIKES, THROUGHPUT, Levels, Spikes, levels, spikes, summaries
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


_VERDICTS = {
    Outcome.REGRESSION: (Status.FAIL, Kind.REGRESSION),
    Outcome.NO_WORSE: (Status.PASS, Kind.NO_WORSE),
    Outcome.INCONCLUSIVE: (Status.DONE, Kind.INCONCLUSIVE),
}


def finding(comparison: Comparison, measured_minutes: float = 0.0, boot_minutes: float = 0.0) -> Finding:
    """Return the verdict on a case.

    Args:
        comparison: what was found.
        measured_minutes: of one boot of the case, to say what more pairs cost; 0 if nobody knows.
        boot_minutes: what a boot costs beside.
    """
    status, kind = _VERDICTS[comparison.outcome]
    decisive = comparison.decisive
    sentence = {
        Outcome.REGRESSION: _regression,
        Outcome.NO_WORSE: _no_worse,
        Outcome.INCONCLUSIVE: _inconclusive,
    }[comparison.outcome](comparison)
    if decisive.enough and measured_minutes and comparison.outcome is Outcome.INCONCLUSIVE:
        cost = cost_minutes(decisive.enough - comparison.pairs, measured_minutes, boot_minutes)
        sentence += f", {cost:.0f} board-minutes"
    worst = _worst(comparison) if comparison.outcome is Outcome.REGRESSION else decisive
    return Finding(
        status=status,
        kind=kind,
        sentence=sentence,
        value=_ratio(_as_measured(worst.metric, worst.effect.ratio)) if worst.effect else None,
        baseline=_ratio(1.0) if _is_rate(worst) else None,  # a rate that falls is below it, and so not waived
        measurement=worst.metric,
    )


def _worst(comparison: Comparison) -> Result:
    """Return the regression that a waiver must cover, which then covers all: a rate, or the largest ratio."""
    return max(
        _regressions(comparison), key=lambda result: (_is_rate(result), result.effect.ratio if result.effect else 0.0)
    )


def _is_rate(result: Result) -> bool:
    return result.metric.startswith(f"{THROUGHPUT} ")


def _regressions(comparison: Comparison) -> list[Result]:
    return [result for result in comparison.results if result.outcome is Outcome.REGRESSION]


def _regression(comparison: Comparison) -> str:
    worse = sorted(_regressions(comparison), key=lambda result: result.adjusted)
    effects = "; ".join(f"{format_effect(result)}, p {result.adjusted:.2g}" for result in worse)
    return f"worse than the baseline in {comparison.pairs} pairs: {effects}"


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
