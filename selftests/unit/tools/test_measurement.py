# SPDX-License-Identifier: MIT
from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit

COUNTS = st.dictionaries(st.integers(0, 99), st.integers(0, 50), max_size=12)


def histogram(counts: dict[int, int], overflow: int = 0, unit: Unit = Unit.US, limit: int = 100) -> Histogram:
    return Histogram(unit=unit, counts=counts, overflow=overflow, limit=limit)


def test_the_total_counts_overflowed_samples() -> None:
    assert histogram({1: 2, 5: 3}, overflow=4).total == 9


@given(COUNTS, st.integers(0, 5), st.integers(0, 99))
def test_over_is_what_counting_one_by_one_gives(counts: dict[int, int], overflow: int, level: int) -> None:
    samples = [value for value, count in counts.items() for _ in range(count)] + [100] * overflow
    assert histogram(counts, overflow).over(Quantity(level, Unit.US)) == sum(sample > level for sample in samples)


def test_over_converts_the_level() -> None:
    assert histogram({69: 1, 70: 1, 71: 2}).over(Quantity(0.07, Unit.MS)) == 2


def test_nobody_knows_what_lies_over_a_level_beyond_the_range() -> None:
    with pytest.raises(ValueError, match="3 samples lie beyond the histogram's range of 100 us"):
        histogram({1: 1}, overflow=3).over(Quantity(100, Unit.US))
    assert histogram({1: 1}, overflow=3).over(Quantity(99, Unit.US)) == 3
    assert histogram({1: 1}).over(Quantity(100, Unit.US)) == 0


def test_a_level_of_another_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="virtual us cannot be converted to us"):
        histogram({1: 1}).over(Quantity(1, Unit.VIRTUAL_US))


@given(COUNTS, st.integers(0, 5), st.integers(1, 100))
def test_a_quantile_is_the_first_value_with_the_share(counts: dict[int, int], overflow: int, percent: int) -> None:
    found = histogram(counts, overflow)
    if not found.total:
        return
    expected = None
    for value in sorted(counts):
        within = sum(count for other, count in counts.items() if other <= value)
        if Fraction(within, found.total) >= Fraction(percent, 100):
            expected = Quantity(value, Unit.US)
            break
    assert found.quantile(percent / 100) == expected


def test_an_empty_histogram_has_no_quantile() -> None:
    assert histogram({}).quantile(0.5) is None


@given(st.lists(st.tuples(COUNTS, st.integers(0, 5)), min_size=1, max_size=4))
def test_a_merged_histogram_is_the_sum_in_any_order(parts: list[tuple[dict[int, int], int]]) -> None:
    histograms = [histogram(counts, overflow) for counts, overflow in parts]
    merged = Histogram.merge(iter(histograms))
    assert merged == Histogram.merge(reversed(histograms))
    assert merged.total == sum(part.total for part in histograms)
    assert list(merged.counts) == sorted(merged.counts)
    for level in (0, 10, 99):
        assert merged.over(Quantity(level, Unit.US)) == sum(part.over(Quantity(level, Unit.US)) for part in histograms)


@pytest.mark.parametrize(
    "parts", [[], [histogram({}), histogram({}, unit=Unit.NS)], [histogram({}), histogram({}, limit=200)]]
)
def test_histograms_that_differ_in_unit_or_range_do_not_add(parts: list[Histogram]) -> None:
    with pytest.raises(ValueError, match="cannot be added"):
        Histogram.merge(parts)


def test_a_measurement_is_a_number_or_a_histogram() -> None:
    quantity, times = Quantity(1, Unit.US), histogram({1: 1}, unit=Unit.NS)
    assert Measurement(name="latency.max", better=Better.LOWER, quantity=quantity).unit is Unit.US
    assert Measurement(name="latency", better=Better.LOWER, histogram=times).unit is Unit.NS
    with pytest.raises(ValueError, match="latency needs either a number or a histogram"):
        Measurement(name="latency", better=Better.LOWER)
    with pytest.raises(ValueError, match="latency needs either a number or a histogram"):
        Measurement(name="latency", better=Better.LOWER, quantity=quantity, histogram=times)


@pytest.mark.parametrize(
    ("labels", "label"), [({}, ""), ({"cpu": "0"}, "CPU 0"), ({"size": "4k", "cpu": "1"}, "CPU 1 size 4k")]
)
def test_labels_are_written_as_people_read_them(labels: dict[str, str], label: str) -> None:
    one = Measurement(name="x", better=Better.NEITHER, quantity=Quantity(1, Unit.COUNT), labels=labels)
    assert one.label == label


def test_what_cannot_be_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="fewer than no samples"):
        histogram({1: -1})
    with pytest.raises(ValueError, match="fewer than no samples"):
        histogram({1: 1}, overflow=-1)
    with pytest.raises(ValueError, match=r"latency\.max is nan, which is not a number"):
        Measurement(name="latency.max", better=Better.LOWER, quantity=Quantity(float("nan"), Unit.US))
