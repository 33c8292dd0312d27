# SPDX-License-Identifier: MIT
"""The limits of a bound that are shipped are those of the harmless kernels that were measured (`bench/sections.py`)."""

from __future__ import annotations

import re

import pytest
from selftests.unit.test_section_rates import CHANGES, HARMLESS, bounds_of, compared

from rtgate.judge.thresholds import Threshold
from rtgate.records.bound import MEASUREMENT, Bound
from rtgate.units import Unit
from rtgate.workflow.verdicts import limits

LIMITS = {(limit.board, limit.case): limit for limit in limits(None).entries if limit.measurement == MEASUREMENT}
UNTRACKED = {
    ("virt-arm64", "latency/cyclictest:disk"): "24 boots of the profile paths, of which none is stored",
    ("virt-arm64", "latency/cyclictest:network"): "24 boots of the profile paths, of which none is stored",
    ("virt-arm64", "latency/cyclictest:syscalls"): "24 boots of the profile paths, of which none is stored",
}
"""Limits of harmless kernels whose bounds are not stored, and why."""


def harmless_bounds(place: tuple[str, str]) -> dict[str, Bound]:
    """Return the bounds of a place's harmless kernels by name; that of the kernel without a change is `unpatched`."""
    kernels: dict[str, Bound] = {}
    for name in HARMLESS:
        if (CHANGES[name].board, str(CHANGES[name].case)) == place and bounds_of(name):
            kernels["unpatched"], kernels[name] = bounds_of(name)
    return kernels


def numbers(limit: Threshold) -> tuple[float, float, float]:
    """Return the largest bound that a limit names, its factor, and the limit, times in virtual us."""
    largest, factor = re.search(r"largest of .* ([0-9.]+);", limit.source), re.fullmatch(r"x([0-9.]+)", limit.margin)
    assert largest is not None
    assert factor is not None
    assert limit.limit is not None
    return float(largest[1]), float(factor[1]), limit.limit.to(Unit.VIRTUAL_US).value


def test_each_limit_is_of_stored_kernels_or_has_a_reason_why_not() -> None:
    assert {place for place in LIMITS if not harmless_bounds(place)} == {*UNTRACKED}


@pytest.mark.parametrize("place", sorted(LIMITS), ids=" ".join)
def test_a_limit_is_as_much_above_the_largest_bound_as_it_says(place: tuple[str, str]) -> None:
    largest, factor, limit = numbers(LIMITS[place])
    assert factor == 1.2  # docs/explanation/critical-sections.md
    assert limit == round(factor * largest)


@pytest.mark.parametrize("place", sorted({*LIMITS} - {*UNTRACKED}), ids=" ".join)
def test_the_largest_bound_is_that_of_all_harmless_kernels_of_the_place(place: tuple[str, str]) -> None:
    bounds, limit = harmless_bounds(place), LIMITS[place]
    (seeds,) = {compared(name).seeds for name in bounds if name != "unpatched"}
    boots = f"{len(bounds) * len(seeds)} boots of {len(bounds)} harmless kernels (seeds {seeds[0]}-{seeds[-1]})"
    largest = max(microseconds(bound) for bound in bounds.values())
    assert limit.source.startswith(f"largest of {boots} {largest:.1f};")


def microseconds(bound: Bound) -> float:
    return bound.instructions * 8 / 1000
