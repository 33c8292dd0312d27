# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import number, record

from rtgate.judge.compare.boot_figures import HISTOGRAM_FIGURES, Part, boot_figures
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Quantity, Unit


def test_a_distribution_gives_mean_quantiles_and_maximum() -> None:
    counts = {28_800: 9000, 29_000: 900, 35_000: 90, 45_000: 9, 52_000: 1}
    found = boot_figures(record(counts))
    assert {name: one.value for name, one in found.items() if name.startswith("latency")} == {
        "latency mean": pytest.approx(sum(value * count for value, count in counts.items()) / 10_000),
        "latency p50": 28_800,
        "latency p90": 28_800,
        "latency p99": 29_000,
        "latency p99.9": 35_000,
        "latency maximum": 52_000,
    }
    assert found["latency p99"].part is Part.TAIL
    assert found["latency maximum"].unit is Unit.VIRTUAL_NS


def test_the_names_that_files_may_use_are_those_of_a_boot_with_samples_enough() -> None:
    found = boot_figures(record({28_000: 9900}, overflow=100))
    assert [name for name in found if name.startswith("latency ")] == [f"latency {name}" for name in HISTOGRAM_FIGURES]


def test_a_quantile_needs_samples_beyond_it() -> None:
    assert "latency p99.9" not in boot_figures(record({28_000: 2000}))
    assert "latency p99" in boot_figures(record({28_000: 2000}))


def test_what_lies_beyond_the_range_is_at_least_its_end() -> None:
    found = boot_figures(record({28_000: 9900}, overflow=100))
    assert found["latency maximum"].value == 200_000
    assert found["latency p99.9"].value == 200_000
    assert found["latency mean"].value == pytest.approx(0.99 * 28_000 + 0.01 * 200_000)


def test_a_distribution_without_a_maximum_beside_it_ends_where_its_samples_do() -> None:
    """As of a record from which somebody removed `latency.max`: it is told, and must not end in a traceback."""
    whole = record({28_000: 9900, 52_000: 100})
    without = replace(whole, measurements=tuple(one for one in whole.measurements if one.name != "latency.max"))
    assert len(without.measurements) < len(whole.measurements)
    assert boot_figures(without)["latency maximum"].value == 52_000


def test_numbers_that_the_distribution_holds_are_not_compared_twice() -> None:
    assert not any(name.startswith("latency.") for name in boot_figures(record()))


def test_the_worst_of_all_cpus_counts_and_more_throughput_is_better() -> None:
    made = record()
    rates = tuple(
        Measurement(
            name="bandwidth", better=Better.HIGHER, quantity=Quantity(value, Unit.MB_S), labels={"cpu": str(cpu)}
        )
        for cpu, value in enumerate((900.0, 700.0))
    )
    times = (number("hackbench.time", 2.0, Unit.VIRTUAL_S), number("hackbench.time", 3.0, Unit.VIRTUAL_S, cpu=1))
    found = boot_figures(replace(made, measurements=(*rates, *times)))
    assert found["bandwidth"].value == -700.0
    assert found["hackbench.time"].value == 3.0


def test_the_largest_sample_that_a_tool_reports_is_an_extreme() -> None:
    names = ("roundtrip.max", "roundtrip.avg", "maximum")
    numbers = tuple(number(name, 2.0, Unit.VIRTUAL_US) for name in names)
    found = boot_figures(replace(record(), measurements=numbers))
    assert [found[name].part for name in names] == [Part.EXTREME, Part.NUMBER, Part.NUMBER]


def test_a_boot_that_measured_nothing_has_no_figures() -> None:
    assert boot_figures(record(state="hang")) == {}
