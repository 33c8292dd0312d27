# SPDX-License-Identifier: MIT
"""Sections that are known to be long are the longest of their kind, measured by the kernel's own tracepoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from selftests.integration.conftest import ROOT, build_kernel
from selftests.integration.test_pcie import measured

from rtgate.records.record import read

KNOWN = ROOT / "selftests" / "data" / "sections" / "known-lengths"
LONG_LOCK_US = 2 * 150_000 * 0.008  # of `known_raw_lock_long`: instructions of 8 ns
LOADS = ("idle", "hackbench", "stress-ng")


@pytest.mark.long("a kernel of its own")
def test_the_longest_section_is_the_one_that_is_known_to_be(tmp_path: Path) -> None:
    kernel = build_kernel(tmp_path / "kernel", "virt-arm64-preemptirq", "--patches", KNOWN)
    code, verdicts = measured("virt-arm64", kernel, tmp_path / "records", "tests/latency/test_preemptirq.py")
    assert code == 0, verdicts
    records = {record.case: record for record in (read(path.parent) for path in tmp_path.rglob("record.json"))}
    assert set(records) == {f"latency/preemptirq:{load}" for load in LOADS}
    for record in records.values():
        values = [(one.name, one.labels, one.quantity.value) for one in record.measurements if one.quantity]
        longest = {name: value for name, labels, value in values if not labels}
        (site, length) = next((labels["site"], value) for name, labels, value in values if name == "preemptoff.site")
        assert "known_raw_lock_long" in site
        # The tracing, and interrupts that come meanwhile, are in it.
        assert LONG_LOCK_US < length < 1.5 * LONG_LOCK_US
        assert longest["preemptoff.max"] == length
        assert min(longest["preemptoff.sections"], longest["irqsoff.sections"]) > 1000
