# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from selftests.unit.judge.compare.test_summaries import US, exponential, long
from selftests.unit.judge.conftest import CASE, record

from rtgate.judge.compare import looks
from rtgate.judge.compare.looks import Comparison, Outcome, compare
from rtgate.judge.compare.paired import Prior, Series
from rtgate.judge.compare.pairing import CaseHistory, evidence, findings
from rtgate.judge.compare.summaries import Spikes, levels
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import Record

PRIORS = {
    "exceedance rate": Prior(0.02, 12),
    "1 h return level": Prior(0.002, 12),
    "winsorised mean": Prior(0.0002, 12),
}


def boots(count: int, *, scale_us: float = 6.0, spikes: int = 0, seed: int = 1) -> list[Record]:
    source = random.Random(seed)
    found = []
    for number in range(count):
        counts = exponential(scale_us=scale_us * math.exp(source.gauss(0, 0.02)), events=2000, body=2_000_000)
        found.append(long({**counts, **({198 * US: spikes} if spikes else {})}, seed=number + 1, minutes=10))
    return found


def compared(baseline: list[Record], candidate: list[Record], known: CaseHistory | None = None) -> Comparison:
    history = known or CaseHistory(levels=levels(baseline), priors=PRIORS, spikes=(Spikes(0, 10.0),) * 20)
    (found,) = compare(evidence(CASE, list(zip(baseline, candidate, strict=True)), history, 3))
    return found


def finding(comparison: Comparison, measured_minutes: float = 0.0, boot_minutes: float = 0.0) -> Finding:
    (only,) = findings(comparison, measured_minutes, boot_minutes)
    return only


def test_evidence_has_every_metric_and_the_spikes() -> None:
    made = evidence(CASE, list(zip(boots(3), boots(3, seed=2), strict=True)), CaseHistory(), 3)
    assert [one.metric for one in made] == ["1 h return level", "exceedance rate", "winsorised mean", "spikes"]
    assert {one.pairs for one in made} == {3}


def test_equal_kernels_are_no_worse_and_say_what_would_have_been_seen() -> None:
    found = finding(compared(boots(3), boots(3, seed=2)))
    assert (found.status, found.kind) == (Status.PASS, Kind.NO_WORSE)
    assert found.sentence.startswith(
        "no worse than the baseline in 3 pairs, which would have shown 1 h return level x1."
    )


def test_identical_records_are_no_regression() -> None:
    assert compared(boots(12), boots(12)).outcome is Outcome.NO_WORSE


def test_a_grown_tail_is_a_regression_with_its_size() -> None:
    comparison = compared(boots(6), boots(6, scale_us=9, seed=2))
    found = finding(comparison)
    assert (found.status, found.kind) == (Status.FAIL, Kind.REGRESSION)
    assert "worse than the baseline in 3 pairs: " in found.sentence
    assert "exceedance rate x" in found.sentence
    assert "between x" in found.sentence
    assert "winsorised mean" not in found.sentence


def test_new_spikes_are_a_regression() -> None:
    found = finding(compared(boots(3), boots(3, spikes=3, seed=2)))
    assert found.status is Status.FAIL
    assert found.sentence.startswith("worse than the baseline in 3 pairs: rate of spikes x")


def test_too_little_says_what_it_would_take() -> None:
    known = CaseHistory(priors={name: Prior(1.0, 12) for name in PRIORS}, spikes=(Spikes(0, 10.0),) * 20)
    comparison = compared(boots(12), boots(12, scale_us=7.8, seed=2), known)
    found = finding(comparison, measured_minutes=10, boot_minutes=2)
    assert (found.status, found.kind) == (Status.DONE, Kind.INCONCLUSIVE)
    assert "more pairs would decide, " in found.sentence
    assert found.sentence.endswith(" board-minutes")
    assert finding(compared(boots(1), boots(1))).sentence == "not enough data: the first interim analysis takes 3 pairs"


def test_levels_do_not_move_when_pairs_are_added() -> None:
    def rates(count: int) -> tuple[float | None, ...]:
        pairs = list(zip(boots(count), boots(count, scale_us=7, seed=2), strict=True))
        made = evidence(CASE, pairs, CaseHistory(), 3)
        (series,) = [one for one in made if isinstance(one, Series) and one.metric == "exceedance rate"]
        return series.differences

    assert rates(6)[:3] == rates(3)


def test_a_boot_without_the_figure_cannot_be_good_news() -> None:
    candidate = boots(3, seed=2)
    broken = replace(candidate[1], measurements=())
    assert compared(boots(3), [candidate[0], broken, candidate[2]]).outcome is Outcome.INCONCLUSIVE
    lost = [replace(one, measurements=()) for one in candidate]
    found = compared(boots(3), lost)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "has no figure" in finding(found).sentence


def test_nothing_to_compare_is_no_evidence() -> None:
    assert evidence(CASE, [], CaseHistory(), 3) == ()
    empty = [(record(state="hang"), record(state="hang"))] * 3
    assert evidence(CASE, empty, CaseHistory(), 3) == ()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_the_order_of_pairs_does_not_matter(order: list[int]) -> None:
    base, candidate = boots(3), boots(3, scale_us=7.5, seed=2)
    known = CaseHistory(levels=levels(base), priors=PRIORS)
    found = compared([base[n] for n in order], [candidate[n] for n in order], known)
    wanted = compared(base, candidate, known)
    assert found.outcome is wanted.outcome
    assert found.decisive.adjusted == pytest.approx(wanted.decisive.adjusted)


def test_a_throughput_that_falls_is_told_as_a_fall() -> None:
    series = Series(
        case=CASE,
        metric="throughput bandwidth",
        differences=(0.11, 0.10, 0.09, 0.10, 0.11, 0.09),
        prior=Prior(0.0001, 12),
    )
    found = finding(compare([series], looks.once(6))[0])
    assert (found.status, str(found.value), str(found.baseline)) == (Status.FAIL, "x0.905", "x1")
    assert "throughput bandwidth x0.905 (between x0.89" in found.sentence
    level = replace(series, differences=(0.0, 0.01, -0.01, 0.0, 0.01, -0.01))
    assert "which would have shown throughput bandwidth x0.9" in finding(compare([level], looks.once(6))[0]).sentence


def test_each_measurement_that_became_worse_has_a_finding_of_its_own() -> None:
    metrics = {
        "latency exceedance rate": 0.6,
        "latency 1 h return level": 0.3,
        "response winsorised mean": 0.5,
        "completion.p99": 0.4,
        "throughput bandwidth": 0.2,
    }
    family = [
        Series(case=CASE, metric=metric, differences=(change,) * 6, prior=Prior(1e-4 * change, 12))
        for metric, change in metrics.items()
    ]
    found = findings(compare(family, looks.once(6))[0])
    assert {one.measurement: str(one.value) for one in found} == {
        "latency exceedance rate": "x1.82",
        "response winsorised mean": "x1.65",
        "completion.p99": "x1.49",
        "throughput bandwidth": "x0.819",
    }
    assert {(one.status, one.kind) for one in found} == {(Status.FAIL, Kind.REGRESSION)}
    (latency,) = [one for one in found if one.measurement.startswith("latency")]
    assert "latency exceedance rate x1.82" in latency.sentence
    assert "latency 1 h return level x1.35" in latency.sentence
    assert "response" not in latency.sentence
