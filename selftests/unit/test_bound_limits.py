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
COUNTED = {
    ("virt-arm64", "latency/cyclictest:idle"): ("placebos/",),
    ("virt-arm64", "latency/cyclictest:hackbench"): ("harmless/", "placebos/"),
    ("virt-arm64", "latency/cyclictest:stress-ng"): ("placebos/",),
    ("virt-x86_64", "latency/cyclictest:idle"): ("x86-64/harmless/",),
    ("virt-x86_64", "latency/cyclictest:hackbench"): ("x86-64/harmless/",),
}
"""Whose kernels the source of a limit counts."""
LATER = {
    ("virt-arm64", "latency/cyclictest:hackbench"): (
        *("initcall-thread", "link-order", "log-lines", "moved-hrtimer-wakeup", "renamed-ttwu-do-activate"),
        *("driver-i2c", "driver-spi", "driver-gpio", "driver-rtc", "driver-watchdog", "driver-vfat", "log-buffer"),
        *("host-name", "comment-in-the-wake-up", "padding-run-queue", "another-build-path"),
    ),
    ("virt-arm64", "latency/cyclictest:stress-ng"): (
        *("comment-in-the-wake-up", "driver-i2c", "driver-spi", "driver-rtc", "driver-watchdog", "driver-vfat"),
        *("log-buffer", "moved-hrtimer-wakeup", "renamed-ttwu-do-activate", "link-order", "initcall-thread"),
        *("log-lines", "padding-run-queue", "one-word"),
    ),
}
"""Kernels that were followed when the limits were set already, by place."""
LATER_COUNTERS = ("fair-enqueue", "lock-wait", "run-time")
"""The same of `harmless/`, under hackbench."""
UNTRACKED = {
    ("virt-arm64", "latency/cyclictest:disk"): "24 boots of the profile paths, of which none is stored",
    ("virt-arm64", "latency/cyclictest:network"): "24 boots of the profile paths, of which none is stored",
    ("virt-arm64", "latency/cyclictest:syscalls"): "24 boots of the profile paths, of which none is stored",
    ("virt-x86_64", "latency/cyclictest:stress-ng"): "docs/results/critical-sections.md has the least and the largest",
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
    assert {*LIMITS} == {*COUNTED, *UNTRACKED}
    assert not any(harmless_bounds(place) for place in UNTRACKED)


@pytest.mark.parametrize("place", sorted(LIMITS), ids=" ".join)
def test_a_limit_is_as_much_above_the_largest_bound_as_it_says(place: tuple[str, str]) -> None:
    largest, factor, limit = numbers(LIMITS[place])
    assert factor == 1.2  # docs/explanation/critical-sections.md
    assert limit == int(limit)
    assert abs(limit - factor * largest) < 1  # whole us, some rounded up and some to the nearest


@pytest.mark.parametrize("place", sorted(COUNTED), ids=" ".join)
def test_the_largest_bound_is_that_of_the_boots_that_the_source_counts(place: tuple[str, str]) -> None:
    bounds, limit = harmless_bounds(place), LIMITS[place]
    later = {f"placebos/{kernel} {' '.join(place)}" for kernel in LATER.get(place, ())}
    later |= {f"harmless/{kernel}" for kernel in LATER_COUNTERS} & {*bounds}
    assert later <= {*bounds}
    counted = [name for name in bounds if name.startswith(("unpatched", *COUNTED[place])) and name not in later]
    (seeds,) = {compared(name).seeds for name in bounds if name != "unpatched"}
    boots = f"{len(counted) * len(seeds)} boots of {len(counted)} harmless kernels (seeds {seeds[0]}-{seeds[-1]})"
    largest = max(microseconds(bounds[name]) for name in counted)
    assert limit.source.startswith(f"largest of {boots} {largest:.1f};")


@pytest.mark.parametrize("place", sorted(COUNTED), ids=" ".join)
def test_every_harmless_kernel_keeps_the_limit_of_its_bound(place: tuple[str, str]) -> None:
    _, _, limit = numbers(LIMITS[place])
    assert all(microseconds(bound) < limit for bound in harmless_bounds(place).values())


def microseconds(bound: Bound) -> float:
    return bound.instructions * 8 / 1000
