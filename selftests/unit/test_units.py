# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.units import Quantity, Unit

UNITS = st.sampled_from(list(Unit))


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("150 us", 150, Unit.US),
        ("150us", 150, Unit.US),
        (" 150 us ", 150, Unit.US),
        ("69.5 virtual us", 69.5, Unit.VIRTUAL_US),
        ("3 count", 3, Unit.COUNT),
        ("1 s", 1, Unit.S),
        ("1s", 1, Unit.S),
        ("2e-6 ratio", 2e-6, Unit.RATIO),
        ("1E3 ns", 1000, Unit.NS),
        ("-4 ms", -4, Unit.MS),
        ("+4 ms", 4, Unit.MS),
        (".5 ms", 0.5, Unit.MS),
        ("1510 MB/s", 1510, Unit.MB_S),
        ("69 virtual MB/s", 69, Unit.VIRTUAL_MB_S),
        ("203000 /s", 203000, Unit.PER_S),
        ("7 virtual /s", 7, Unit.VIRTUAL_PER_S),
    ],
)
def test_a_quantity_is_read(text: str, value: float, unit: Unit) -> None:
    assert Quantity.parse(text) == Quantity(value, unit)


@pytest.mark.parametrize(
    "text",
    [
        *("", "us", "150", "150 µs", "150 usec", "150 US", "1.2.3 us", ". us", "1,5 us", "150 us us"),
        *("virtual us", "1 virtual", "1  virtual  us", "nan us", "inf us", "1e999 us", "-1e999 us", "1e us", "0x10 us"),
        *("1 mb/s", "1 MB", "1 MB / s", "1 /", "1 Mb/s"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"units: ns, us, .* virtual us|too large"):
        Quantity.parse(text)


def test_virtual_time_is_not_time() -> None:
    for virtual, real in ((Unit.VIRTUAL_MB_S, Unit.MB_S), (Unit.VIRTUAL_PER_S, Unit.PER_S)):
        with pytest.raises(ValueError, match="cannot be converted"):
            Quantity(1, virtual).to(real)
    for virtual in (unit for unit in Unit if unit.virtual):
        for real in (Unit.NS, Unit.US, Unit.MS, Unit.S, Unit.COUNT, Unit.RATIO):
            with pytest.raises(ValueError, match=f"{virtual} cannot be converted to {real}"):
                Quantity(1, virtual).to(real)
            with pytest.raises(ValueError, match=f"{real} cannot be converted to {virtual}"):
                Quantity(1, real).to(virtual)


def test_only_virtual_time_is_virtual() -> None:
    assert {unit for unit in Unit if unit.virtual} == {
        Unit.VIRTUAL_NS,
        Unit.VIRTUAL_US,
        Unit.VIRTUAL_MS,
        Unit.VIRTUAL_S,
    }


@pytest.mark.parametrize(
    ("quantity", "unit", "value"),
    [
        (Quantity(1, Unit.S), Unit.US, 1e6),
        (Quantity(1500, Unit.NS), Unit.US, 1.5),
        (Quantity(2, Unit.VIRTUAL_MS), Unit.VIRTUAL_NS, 2e6),
        (Quantity(7, Unit.COUNT), Unit.COUNT, 7),
        (Quantity(1, Unit.MB_S), Unit.B_S, 1e6),
        (Quantity(1, Unit.MIB_S), Unit.MB_S, 1.048576),
    ],
)
def test_units_of_one_dimension_convert(quantity: Quantity, unit: Unit, value: float) -> None:
    assert quantity.to(unit) == Quantity(value, unit)


@given(st.floats(min_value=-1e12, max_value=1e12), UNITS, UNITS)
def test_converting_there_and_back_changes_nothing(value: float, unit: Unit, other: Unit) -> None:
    if unit.dimension != other.dimension:
        return
    assert math.isclose(Quantity(value, unit).to(other).to(unit).value, value, rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (100, "100"), (83.25, "83.25"), (0.1234, "0.123"), (1e6, "1000000"), (1234567.8, "1234568"), (-3, "-3")],
)
def test_a_quantity_is_written_as_people_write_it(value: float, text: str) -> None:
    assert str(Quantity(value, Unit.US)) == f"{text} us"


@given(st.integers(-(10**9), 10**9), UNITS)
def test_a_whole_number_is_read_as_it_was_written(value: int, unit: Unit) -> None:
    assert Quantity.parse(str(Quantity(value, unit))) == Quantity(value, unit)


@given(st.text())
def test_reading_gives_a_finite_number_or_a_value_error(text: str) -> None:
    try:
        found = Quantity.parse(text)
    except ValueError:
        return
    assert math.isfinite(found.value)


def test_the_same_unit_changes_nothing() -> None:
    """524.7566321330402 * 1000 / 1000 is one bit more: a maximum of 524.7566321330402 broke the limit of the same."""
    assert Quantity(524.7566321330402, Unit.VIRTUAL_US).to(Unit.VIRTUAL_US).value == 524.7566321330402
