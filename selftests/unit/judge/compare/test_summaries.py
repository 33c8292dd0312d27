# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.judge.conftest import asking, record

from rtgate.judge.compare.summaries import Levels, Spikes, levels, percentile, spikes, summaries
from rtgate.records.record import Record
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit

US = 1000  # a bucket of the records is a virtual nanosecond


def exponential(
    events: int = 400, scale_us: float = 6.0, start_us: float = 30.0, body: int = 400_000
) -> dict[int, int]:
    """Return a body at 20 us and, beyond `start_us`, the quantiles of an exponential tail."""
    counts = {20 * US: body}
    for number in range(events):
        value = round((start_us - scale_us * math.log(1 - (number + 0.5) / events)) * US)
        counts[value] = counts.get(value, 0) + 1
    return counts


def long(counts: dict[int, int], *, seed: int = 1, overflow: int = 0, minutes: float = 2.0) -> Record:
    return asking(record(counts, seed=seed, overflow=overflow), duration_s=minutes * 60)


def made(*records: Record) -> Levels:
    found = levels(records)
    assert found is not None
    return found


def number(name: str, value: float, unit: Unit, better: Better, **labels: str) -> Measurement:
    return Measurement(name=name, better=better, quantity=Quantity(value, unit), labels=labels)


def holding(*measurements: Measurement) -> Record:
    return replace(record(), measurements=measurements)


# --- levels


def test_the_tail_begins_where_one_sample_in_ten_thousand_is_and_has_events_enough() -> None:
    (level,) = made(long(exponential(events=4000, body=4_000_000))).histograms
    assert level.tail is not None
    assert level.share == pytest.approx(1e-4, rel=0.02)
    assert level.tail == pytest.approx((30 + 6 * math.log(4000 / 400)) * US, rel=0.01)
    (level,) = made(*[long(exponential(events=100, body=100_000), seed=seed) for seed in (1, 2)]).histograms
    assert level.share == pytest.approx(30 / 100_100, rel=0.05)


def test_spikes_are_told_from_the_tail_and_do_not_hide_themselves() -> None:
    counts = exponential()
    (plain,) = made(long(counts)).histograms
    (spiked,) = made(long({**counts, 190 * US: 4})).histograms
    assert plain.spike is not None
    assert spiked.spike is not None
    # 400 events in 2 minutes, 6 us each: reached once in 1000 hours at 30 + 6 ln(12e6).
    assert plain.spike == pytest.approx((30 + 6 * math.log(12e6)) * US, rel=0.05)
    assert spiked.spike == pytest.approx(plain.spike, rel=0.05)


def test_too_short_a_range_tells_no_spikes_and_no_hour_level() -> None:
    counts = {value: count for value, count in exponential(scale_us=20).items() if value < 60 * US}
    measured = long(counts)
    (one,) = [each for each in measured.measurements if each.histogram is not None]
    assert one.histogram is not None
    short = replace(one.histogram, limit=60 * US, overflow=90)
    measured = replace(measured, measurements=(replace(one, histogram=short),))
    found = made(measured)
    assert found.histograms[0].spike is None
    assert spikes(measured, found) is None
    assert set(summaries(measured, found)) == {"winsorised mean", "exceedance rate"}
    # The overflowed samples are in the tail all the same.
    assert summaries(measured, found)["exceedance rate"] == pytest.approx(
        math.log((found.histograms[0].share * short.total + 0.5) / short.total), rel=0.05
    )


def test_few_samples_have_no_tail() -> None:
    measured = long({20_000: 90, 30_000: 5, 40_000: 5})
    found = made(measured)
    assert found.histograms[0].tail is None
    assert set(summaries(measured, found)) == {"winsorised mean"}


def test_nothing_measured_fixes_nothing() -> None:
    assert levels([]) is None
    assert levels([record(state="hang")]) is None
    assert summaries(record(state="hang"), Levels()) == {}
    assert spikes(record(state="hang"), Levels()) is None


# --- summaries of histograms


def test_rate_level_and_body_of_an_exponential_tail() -> None:
    measured = long(exponential())
    found = summaries(measured, made(measured))
    level = made(measured).histograms[0]
    assert level.tail is not None
    events = level.share * 400_400
    assert found["exceedance rate"] == pytest.approx(math.log((events + 0.5) / 400_400))
    wanted = level.tail + 6 * US * math.log(events * 30)
    assert math.exp(found["1 h return level"]) == pytest.approx(wanted, rel=0.05)
    assert math.exp(found["winsorised mean"]) == pytest.approx(20 * US, rel=0.01)


def test_a_tail_grown_by_three_tenths_shows_in_rate_and_level_and_not_in_the_body() -> None:
    base, grown = long(exponential()), long(exponential(scale_us=7.8))
    fixed = made(base)
    before, after = summaries(base, fixed), summaries(grown, fixed)
    assert after["exceedance rate"] > before["exceedance rate"] or fixed.histograms[0].tail == 30 * US
    assert after["1 h return level"] - before["1 h return level"] == pytest.approx(math.log(1.17), abs=0.05)
    assert after["winsorised mean"] == pytest.approx(before["winsorised mean"], abs=0.001)


def test_spikes_move_neither_level_nor_body() -> None:
    base, spiked = long(exponential()), long({**exponential(), 195 * US: 4})
    fixed = made(base)
    before, after = summaries(base, fixed), summaries(spiked, fixed)
    assert after == pytest.approx(before, abs=1e-4)
    assert spikes(base, fixed) == Spikes(0, 2.0)
    assert spikes(spiked, fixed) == Spikes(4, 2.0)


def test_overflowed_samples_are_spikes() -> None:
    fixed = made(long(exponential()))
    assert spikes(long(exponential(), overflow=3), fixed) == Spikes(3, 2.0)


def test_cpus_are_taken_together_and_kinds_of_cpu_apart() -> None:
    (one,) = [each for each in long(exponential()).measurements if each.histogram is not None]
    twice = replace(long(exponential()), measurements=(one, replace(one, labels={"cpu": "1"})))
    fixed = made(twice)
    assert [level.name for level in fixed.histograms] == [""]
    assert summaries(twice, fixed)["exceedance rate"] == pytest.approx(
        summaries(long(exponential()), made(long(exponential())))["exceedance rate"], abs=0.01
    )
    apart = tuple(replace(one, labels={"cpu": str(n), "class": kind}) for n, kind in enumerate(("housekeeping", "rt")))
    apart_record = replace(long(exponential()), measurements=apart)
    fixed = made(apart_record)
    assert [level.name for level in fixed.histograms] == ["latency housekeeping", "latency rt"]
    assert {"latency rt winsorised mean", "latency rt 1 h return level"} <= set(summaries(apart_record, fixed))


def test_a_histogram_that_does_not_fit_the_levels_gives_nothing() -> None:
    fixed = made(long(exponential()))
    measured = long(exponential())
    (one,) = [each for each in measured.measurements if each.histogram is not None]
    assert one.histogram is not None
    for other in (replace(one.histogram, limit=150_000), replace(one.histogram, unit=Unit.NS)):
        different = replace(measured, measurements=(replace(one, histogram=other),))
        assert summaries(different, fixed) == {}
        assert spikes(different, fixed) is None


def test_a_boot_with_too_few_samples_has_a_body_only() -> None:
    fixed = made(long(exponential()))
    assert set(summaries(long({20 * US: 1000, 40 * US: 3}), fixed)) == {"winsorised mean"}


def test_a_boot_without_an_event_has_the_level_of_its_tail_s_start() -> None:
    fixed = made(long(exponential()))
    (level,) = fixed.histograms
    found = summaries(long({20 * US: 400_000}), fixed)
    assert level.tail is not None
    assert found["exceedance rate"] == pytest.approx(math.log(0.5 / 400_000))
    assert math.exp(found["1 h return level"]) == pytest.approx(level.tail + 0.5 * math.log(30))


@examples(60)
@given(st.integers(0, 399), st.integers(1, 150_000))
def test_the_body_never_falls_when_a_sample_gets_later(which: int, later: int) -> None:
    counts = exponential()
    fixed = made(long(counts))
    values = sorted(counts)
    value = values[which % len(values)]
    moved = {**counts, value: counts[value] - 1}
    moved[min(value + later, 199_999)] = moved.get(min(value + later, 199_999), 0) + 1
    assert summaries(long(moved), fixed)["winsorised mean"] >= summaries(long(counts), fixed)["winsorised mean"] - 1e-12


# --- summaries of numbers


def test_throughput_counts_the_other_way_round() -> None:
    found = summaries(
        holding(
            number("bandwidth", 100, Unit.MB_S, Better.HIGHER),
            number("round.bandwidth", 5, Unit.MB_S, Better.HIGHER, round="01"),
            number("link.width", 4, Unit.COUNT, Better.HIGHER, function="nvme"),
        ),
        Levels(),
    )
    assert found == {"throughput bandwidth": pytest.approx(-math.log(100e6))}


def test_means_percentiles_and_lengths_of_time_are_compared_and_extremes_are_not() -> None:
    found = summaries(
        holding(
            number("completion.mean", 2, Unit.MS, Better.LOWER),
            number("completion.p50", 2, Unit.MS, Better.LOWER),
            number("completion.p99.9", 4, Unit.MS, Better.LOWER),
            number("completion.max", 9, Unit.MS, Better.LOWER),
            number("latency.avg", 20, Unit.US, Better.LOWER, cpu="0"),
            number("latency.avg", 30, Unit.US, Better.LOWER, cpu="1"),
            number("failures", 3, Unit.COUNT, Better.LOWER),
        ),
        Levels(),
    )
    assert set(found) == {"completion.mean", "completion.p99.9", "latency.avg"}
    assert found["latency.avg"] == pytest.approx(math.log(25_000))


def test_the_average_of_a_histogram_is_its_body() -> None:
    assert "latency.avg" not in summaries(long(exponential()), None)


def test_no_throughput_has_no_logarithm_and_is_left_out() -> None:
    assert summaries(holding(number("bandwidth", 0, Unit.MB_S, Better.HIGHER)), Levels()) == {}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("completion.p99.99", 99.99), ("fio-read.completion.p99", 99), ("noise.period.max", 0), ("a", 0)],
)
def test_percentiles(name: str, wanted: float) -> None:
    assert percentile(name) == wanted


def test_histograms_of_one_unit_only_fix_levels() -> None:
    one, two = long(exponential()), long(exponential(), seed=2)
    (found,) = [each for each in two.measurements if each.histogram is not None]
    assert found.histogram is not None
    shorter = Histogram(unit=Unit.VIRTUAL_NS, counts={20_000: 1000}, overflow=0, limit=50_000)
    assert made(one, replace(two, measurements=(replace(found, histogram=shorter),))).histograms == ()
