# SPDX-License-Identifier: MIT
"""Sections and the bound of a wake-up by the kernel's tracepoints, against known lengths and against instructions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from selftests.integration.conftest import ROOT, build_kernel, rtgate
from selftests.integration.test_pcie import measured

from rtgate.records.record import Record, read
from rtgate.units import Unit

KNOWN = ROOT / "selftests" / "data" / "sections" / "known-lengths"
TEST = "tests/latency/test_preemptirq.py"
LONG_LOCK_US = 2 * 150_000 * 0.008  # of `known_raw_lock_long`: instructions of 8 ns
LOADS = ("idle", "hackbench", "stress-ng")
PROBES_US = 8  # what the driver does not see of a section, or adds to it


@pytest.mark.long("a kernel of its own")
@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_the_longest_section_is_the_one_that_is_known_to_be(arch: str, tmp_path: Path) -> None:
    kernel = build_kernel(tmp_path / "kernel", f"virt-{arch}-preemptirq", "--patches", KNOWN)
    code, verdicts = measured(f"virt-{arch}", kernel, tmp_path / "records", TEST)
    assert code == 0, verdicts
    records = by_case(tmp_path)
    assert set(records) == {f"latency/preemptirq:{load}" for load in LOADS}
    for record in records.values():
        for kind in ("preemptoff", "preemptirqsoff"):
            site, length = figures(record, f"{kind}.site")[0]
            assert site.startswith("known_raw_lock_long")
            assert "(_raw_spin_lock)" in site
            # Interrupts that come meanwhile are left out, but for their entry and for what following their end takes.
            assert LONG_LOCK_US < length < 1.05 * LONG_LOCK_US
            assert figures(record, f"{kind}.max") == [("", length)]
        # Longer sections in assembler have no tracepoints: a wake-up is longer than its bound, and that is said.
        assert figures(record, "latency.unexplained")[0][1] > 100
        assert not figures(record, "bound")
        for kind in ("irqsoff", "preemptoff", "preemptirqsoff"):
            assert figures(record, f"{kind}.sections")[0][1] > 1000


@pytest.mark.long("a kernel of its own")
def test_the_bound_is_that_of_the_instructions(tmp_path: Path) -> None:
    """The same boots, bit by bit, are followed by the driver within them and by the plugin around them."""
    kernel = build_kernel(tmp_path / "kernel", "virt-arm64-preemptirq")
    code, verdicts = measured("virt-arm64", kernel, tmp_path / "records", TEST)
    assert code == 0, verdicts
    records = by_case(tmp_path)
    assert set(records) == {f"latency/preemptirq:{load}" for load in LOADS}
    for case, record in records.items():
        words = ("--board", "virt-arm64", "--kernel", str(kernel), "--case", case, "--seeds", "1")
        text = rtgate("sections", *words).stdout
        plugin = rows(text)
        ((_, longest),) = figures(record, "latency.max")
        ((_, bound),) = figures(record, "bound")
        ((site, postponed),) = figures(record, "bound.postponed")
        assert not figures(record, "latency.unexplained")
        # The plugin leaves threads above cyclictest's out, and what ran before and after it measured.
        assert longest < bound
        assert plugin["longest wake-up measured"] < plugin["bound"] < bound
        if case.endswith(":idle"):
            assert "__run_timer_base" in site
            (same,) = re.findall(r"^__run_timer_base .* preemptirqsoff .* ([0-9.]+)$", text, re.MULTILINE)
            assert abs(postponed - float(same)) < PROBES_US


def by_case(directory: Path) -> dict[str, Record]:
    """Return the records below a directory by their case."""
    return {record.case: record for record in (read(path.parent) for path in directory.rglob("record.json"))}


def figures(record: Record, name: str) -> list[tuple[str, float]]:
    """Return the measurements of a name, with their site; times in virtual us."""
    quantities = [(one.labels.get("site", ""), one.quantity) for one in record.measurements if one.name == name]
    return [
        (site, quantity.value if quantity.unit is Unit.COUNT else quantity.to(Unit.VIRTUAL_US).value)
        for site, quantity in quantities
        if quantity
    ]


def rows(text: str) -> dict[str, float]:
    """Return the rows of the table of a bound, in virtual us."""
    found = re.findall(r"^([a-z][a-z -]*[a-z])  +[0-9,]+  +([0-9.,]+)", text, re.MULTILINE)
    return {name: float(number.replace(",", "")) for name, number in found}
