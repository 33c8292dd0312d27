# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest
from selftests.examples import examples
from selftests.unit.judge.conftest import maximum, number, record, share, without

from rtgate.board.boot import TimeBase
from rtgate.judge.distributions import share_bounds
from rtgate.judge.learn.planning import samples_needed
from rtgate.judge.limits import apply, format_quantity
from rtgate.judge.thresholds import LimitKind
from rtgate.judge.verdict import Figure, Kind, Status
from rtgate.records.record import Record
from rtgate.tools.measurement import Histogram
from rtgate.units import Quantity, Unit

RANKED = {Status.FAIL: 0, Status.DONE: 1, Status.PASS: 2}


# --- Clopper and Pearson's interval


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.975, 0.99, 0.999])
@pytest.mark.parametrize(
    ("events", "samples"), [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (1, 4000), (36, 43_200), (2, 5_000_000)]
)
def test_the_bounds_are_those_of_scipy_s_own_test(events: int, samples: int, confidence: float) -> None:
    low, high = share_bounds(events, samples, confidence)
    above = binomtest(events, samples, alternative="greater").proportion_ci(confidence, method="exact")
    below = binomtest(events, samples, alternative="less").proportion_ci(confidence, method="exact")
    assert low == pytest.approx(above.low, rel=1e-6, abs=1e-11)
    assert high == pytest.approx(below.high, rel=1e-6, abs=1e-11)  # its solver stops at 2e-12


@pytest.mark.parametrize(
    ("events", "samples", "low", "high"),
    # The published shares of two RK3568 boards, with their two-sided intervals of 95 %.
    [(36, 43_200_000, 5.84e-7, 1.15e-6), (2, 50_000_000, 4.8e-9, 1.44e-7)],
)
def test_published_shares_have_the_intervals_that_were_worked_out(
    events: int, samples: int, low: float, high: float
) -> None:
    assert share_bounds(events, samples, 0.975) == pytest.approx((low, high), rel=0.01)


@pytest.mark.parametrize(("share_", "needed"), [(8.33e-7, 3.6e6), (4e-8, 74.9e6)])
def test_samples_that_bound_a_published_share_without_an_event(share_: float, needed: float) -> None:
    assert samples_needed(share_, 0.95) == pytest.approx(needed, rel=0.002)


@examples(200)
@given(st.floats(1e-8, 0.5), st.floats(0.5, 0.9999))
def test_the_samples_needed_suffice_and_one_fewer_does_not(limit: float, confidence: float) -> None:
    needed = samples_needed(limit, confidence)
    assert share_bounds(0, needed, confidence)[1] <= limit * (1 + 1e-9)
    assert needed == 1 or share_bounds(0, needed - 1, confidence)[1] > limit * (1 - 1e-9)


@examples(100)
@given(st.data())
def test_the_bounds_enclose_the_share_and_widen_with_confidence(data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, 10_000))
    events = data.draw(st.integers(0, samples))
    low, high = share_bounds(events, samples, 0.9)
    wider_low, wider_high = share_bounds(events, samples, 0.99)
    assert 0 <= wider_low <= low <= events / samples <= high <= wider_high <= 1


# --- limits on numbers


def test_over_a_maximum() -> None:
    found = apply(maximum(), [record({30_000: 2000}), record({30_000: 1999, 131_400: 1}, seed=2)])
    assert (found.status, found.kind, found.boot) == (Status.FAIL, Kind.LIMIT, "seed 2")
    assert found.sentence == (
        "latency.max was 131.4 virtual us (16425 instructions) on CPU 0 in seed 2, over the limit of 100.0 virtual us "
        "(12500 instructions) (calibration; thresholds.yaml:7)"
    )
    assert str(found.value) == "131.4 virtual us (16425 instructions)"
    assert (found.measurement, found.source) == ("latency.max", "calibration; thresholds.yaml:7")


def test_within_a_maximum() -> None:
    found = apply(maximum(), [record({30_000: 2000}), record({61_200: 2000}, seed=2)])
    assert (found.status, found.boot) == (Status.PASS, "seed 2")
    assert found.sentence.startswith(
        "latency.max reached 61.2 virtual us (7650 instructions) on CPU 0 in 2 boots, within 100.0 virtual us"
    )


@pytest.mark.parametrize(("value", "status"), [(99_999, Status.PASS), (100_000, Status.PASS), (100_001, Status.FAIL)])
def test_the_limit_itself_is_allowed(value: int, status: Status) -> None:
    assert apply(maximum("100 virtual us"), [record({value: 2000})]).status is status
    assert apply(maximum("100000 virtual ns"), [record({value: 2000})]).status is status
    assert apply(maximum("0.1 virtual ms"), [record({value: 2000})]).status is status


@pytest.mark.parametrize(("value", "status"), [(1999, Status.FAIL), (2000, Status.PASS), (2001, Status.PASS)])
def test_a_minimum(value: int, status: Status) -> None:
    limit = replace(maximum("2000 count", "wakeups"), kind=LimitKind.MIN)
    found = apply(limit, [record({30_000: 5000}), record({30_000: value}, seed=2)])
    assert (found.status, found.boot) == (status, "seed 2")
    assert ("under the limit of 2000 count" in found.sentence) == (status is Status.FAIL)


@pytest.mark.parametrize(("value", "status"), [(1999, Status.FAIL), (2000, Status.PASS), (2001, Status.FAIL)])
def test_an_exact_limit(value: int, status: Status) -> None:
    limit = replace(maximum("2000 count", "wakeups"), kind=LimitKind.EXACT)
    found = apply(limit, [record({30_000: 2000}), record({30_000: value}, seed=2)])
    assert found.status is status
    assert ("must be 2000 count" in found.sentence) == (status is Status.FAIL)


def test_the_worst_cpu_decides() -> None:
    one = record({30_000: 2000})
    both = replace(one, measurements=(*one.measurements, number("latency.max", 120.5, Unit.VIRTUAL_US, cpu=1)))
    found = apply(maximum(), [both])
    assert found.status is Status.FAIL
    assert "on CPU 1 in seed 1" in found.sentence


def test_virtual_time_is_shown_in_microseconds_and_instructions() -> None:
    assert format_quantity(Quantity(80_000, Unit.VIRTUAL_NS), "8") == "80.0 virtual us (10000 instructions)"
    assert format_quantity(Quantity(80_000, Unit.VIRTUAL_NS), "") == "80.0 virtual us"
    assert format_quantity(Quantity(80, Unit.US), "8") == "80 us"


# --- what is missing


def test_a_boot_without_the_measurement_is_a_miss() -> None:
    boots = [record(), without("latency.max", record(seed=2)), without("latency.max", record(seed=3))]
    found = apply(maximum(), boots)
    assert (found.status, found.kind) == (Status.MISS, Kind.MISSING)
    assert "was not measured in seed 2, seed 3" in found.sentence
    found = apply(share(), [record(), without("latency", record(seed=2))])
    assert (found.status, found.kind) == (Status.MISS, Kind.MISSING)


@pytest.mark.parametrize("limit", [maximum(), share()], ids=["maximum", "share"])
def test_no_boot_at_all_is_a_miss(limit: object) -> None:
    found = apply(limit, [])  # type: ignore[arg-type]
    assert (found.status, found.kind) == (Status.MISS, Kind.MISSING)
    assert "was not measured in any boot" in found.sentence


def test_a_broken_limit_stands_although_another_boot_is_silent() -> None:
    assert apply(maximum(), [record({150_000: 2000}), without("latency.max", record(seed=2))]).status is Status.FAIL


def test_a_histogram_without_a_sample_is_a_miss() -> None:
    found = apply(share(), [record({}), record({}, seed=2)])
    assert (found.status, found.kind) == (Status.MISS, Kind.MISSING)


# --- time that is not of the limit's kind


def _host(measured: Record) -> Record:
    unit, micro = Unit.US, measured.environment
    return replace(
        measured,
        environment=replace(micro, time=TimeBase.HOST, instruction_ns=""),
        measurements=tuple(
            replace(one, histogram=Histogram(unit=unit, counts={500: 2000}, overflow=0, limit=1000))
            if one.histogram
            else number(one.name, 500, unit)
            for one in measured.measurements
            if one.unit.virtual
        ),
    )


@pytest.mark.parametrize("limit", [maximum(), share()], ids=["maximum", "share"])
def test_a_latency_of_host_time_is_shown_and_not_judged(limit: object) -> None:
    found = apply(limit, [_host(record())])  # type: ignore[arg-type]
    assert (found.status, found.kind) == (Status.DONE, Kind.NOT_APPLIED)
    assert "was not measured in virtual time, to which the limit of " in found.sentence


def test_a_boot_of_host_time_does_not_hide_a_broken_limit_of_another() -> None:
    assert apply(maximum(), [_host(record()), record({150_000: 2000}, seed=2)]).status is Status.FAIL
    assert apply(maximum(), [_host(record()), record(seed=2)]).status is Status.DONE


# --- shares


@pytest.mark.parametrize(
    ("over", "status", "kind"),
    # Of 4000 samples at most 1 % may be over, at 99 %.
    [
        (0, Status.PASS, Kind.SHARE),
        (25, Status.PASS, Kind.SHARE),
        (26, Status.DONE, Kind.INCONCLUSIVE),
        (55, Status.DONE, Kind.INCONCLUSIVE),
        (56, Status.FAIL, Kind.SHARE),
        (4000, Status.FAIL, Kind.SHARE),
    ],
)
def test_a_share_is_decided_by_its_bounds(over: int, status: Status, kind: Kind) -> None:
    counts = {value: count for value, count in ((30_000, 4000 - over), (60_000, over)) if count}
    found = apply(share(0.01), [record(counts)])
    assert (found.status, found.kind) == (status, kind)
    assert str(found.value) == f"{over} of 4000 over 50 virtual us"
    assert found.value is not None
    assert found.value.quantity == Quantity(over / 4000, Unit.RATIO)
    assert found.limit == Figure.of(Quantity(0.01, Unit.RATIO), "share 0.01")
    assert f": {over} of 4000 over 50 virtual us ({over / 4000:.3g}), " in found.sentence
    below = binomtest(over, 4000, alternative="less").proportion_ci(0.99, method="exact").high
    above = binomtest(over, 4000, alternative="greater").proportion_ci(0.99, method="exact").low
    assert (below <= 0.01, above > 0.01) == (status is Status.PASS, status is Status.FAIL)


def test_an_open_share_says_how_many_samples_it_takes() -> None:
    found = apply(share(1e-6), [record(seed=seed) for seed in (1, 2)])
    assert found.kind is Kind.INCONCLUSIVE
    assert "it takes at least 4605168 samples without one, 77 min of this case at 99% confidence" in found.sentence


def test_boots_are_judged_together() -> None:
    boots = [record({30_000: 500}, seed=seed) for seed in range(1, 21)]
    assert apply(share(0.001), boots[:1]).kind is Kind.INCONCLUSIVE
    assert apply(share(0.001), boots).status is Status.PASS


@pytest.mark.parametrize(("level", "status"), [("199.999 virtual us", Status.PASS), ("200 virtual us", Status.ERROR)])
def test_a_level_beyond_the_range_is_an_error_once_samples_overflowed(level: str, status: Status) -> None:
    found = apply(share(0.5, level), [record({30_000: 2000}, overflow=1, maximum=900_000)])
    assert found.status is status
    assert (found.kind is Kind.VALIDITY) == (status is Status.ERROR)
    assert apply(share(0.5, level), [record({30_000: 2000})]).status is Status.PASS


def test_overflowed_samples_are_over_every_level_within_the_range() -> None:
    found = apply(share(0.5, "199 virtual us"), [record({30_000: 2}, overflow=1998, maximum=900_000)])
    assert found.status is Status.FAIL
    assert str(found.value) == "1998 of 2000 over 199 virtual us"


def test_histograms_of_different_ranges_are_an_error() -> None:
    one = record()
    other = tuple(
        replace(part, histogram=replace(part.histogram, limit=300_000)) if part.histogram else part
        for part in record().measurements
    )
    found = apply(share(), [one, replace(record(seed=2), measurements=other)])
    assert (found.status, found.kind) == (Status.ERROR, Kind.VALIDITY)


# --- properties

COUNTS = st.dictionaries(st.integers(0, 199_999), st.integers(1, 5000), min_size=1, max_size=6)
BOOTS = st.lists(COUNTS, min_size=1, max_size=4)


@examples(50)
@given(BOOTS, st.integers(0, 200_000), st.integers(0, 200_000))
def test_a_maximum_is_monotone_in_the_limit(boots: list[dict[int, int]], one: int, other: int) -> None:
    records = [record(counts, seed=seed) for seed, counts in enumerate(boots, 1)]
    low, high = (apply(maximum(f"{value} virtual ns"), records).status for value in sorted((one, other)))
    assert RANKED[low] <= RANKED[high]
    worst = max(value for counts in boots for value in counts)
    assert (low is Status.FAIL) == (worst > min(one, other))


@examples(50)
@given(BOOTS, st.floats(1e-9, 0.999), st.floats(1e-9, 0.999), st.integers(0, 199_999))
def test_a_share_is_monotone_in_the_limit(boots: list[dict[int, int]], one: float, other: float, level: int) -> None:
    records = [record(counts, seed=seed) for seed, counts in enumerate(boots, 1)]
    low, high = (apply(share(value, f"{level} virtual ns"), records).status for value in sorted((one, other)))
    assert RANKED[low] <= RANKED[high]


@examples(50)
@given(BOOTS, st.integers(0, 199_999), st.integers(0, 199_999))
def test_a_share_is_monotone_in_the_level(boots: list[dict[int, int]], one: int, other: int) -> None:
    records = [record(counts, seed=seed) for seed, counts in enumerate(boots, 1)]
    low, high = (apply(share(0.01, f"{level} virtual ns"), records).status for level in sorted((one, other)))
    assert RANKED[low] <= RANKED[high]


@examples(60)
@given(BOOTS, st.randoms(use_true_random=False), st.integers(0, 4))
@example([{30_000: 1}, {30_000: 1}], random.Random(1), 1)
def test_the_order_of_records_and_of_measurements_does_not_matter(
    boots: list[dict[int, int]], chance: random.Random, silent: int
) -> None:
    records = [record(counts, seed=seed) for seed, counts in enumerate(boots, 1)]
    records = [without("latency.max", one) if number == silent else one for number, one in enumerate(records)]
    mixed = [
        replace(one, measurements=tuple(chance.sample(one.measurements, len(one.measurements)))) for one in records
    ]
    chance.shuffle(mixed)
    for limit in (maximum(), share()):
        assert apply(limit, mixed).status is apply(limit, records).status
        assert apply(limit, mixed).value == apply(limit, records).value


@examples(100)
@given(
    st.lists(st.tuples(COUNTS, st.booleans(), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(0, 250_000),
    st.floats(1e-6, 0.9),
)
def test_what_is_missing_or_beyond_the_range_never_passes(
    boots: list[tuple[dict[int, int], bool, int]], level: int, limit: float
) -> None:
    records = []
    for seed, (counts, silent, overflow) in enumerate(boots, 1):
        made = record(counts, seed=seed, overflow=overflow, maximum=250_000 if overflow else None)
        records.append(without("latency", without("latency.max", made)) if silent else made)
    missing = any(silent for _, silent, _ in boots)
    number = apply(maximum(f"{level} virtual ns"), records).status
    shared = apply(share(limit, f"{level} virtual ns"), records).status
    assert number is Status.FAIL or (number is Status.MISS) == missing
    beyond = level >= 200_000 and any(overflow for _, silent, overflow in boots if not silent)
    if missing or beyond:
        assert shared in {Status.FAIL, Status.MISS, Status.ERROR}
    if beyond and not missing:
        assert shared is Status.ERROR
