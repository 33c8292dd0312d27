# SPDX-License-Identifier: MIT
"""How late an interrupt is answered, for real: the driver is part of the kernel, QEMU's timer raises the interrupts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selftests.integration.conftest import ROOT, Patched, records_of, rtgate, verdicts_of

CASES = {f"irq/irq-{context}:{load}" for context in ("hard", "threaded") for load in ("idle", "hackbench")}
INTERRUPTS_OFF = ROOT / "selftests" / "data" / "comparisons" / "harmful" / "interrupts-off-50us"


def gate(kernel: Path, report: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    options = ("--board", "virt-arm64", "--kernel", kernel, "--profile", "irq", "--seeds", "1", "--no-boot-cache")
    done = rtgate("gate", *options, *words, "-o", report)
    return done.returncode, verdicts_of(report)


def histograms(report: Path) -> dict[str, Any]:
    records = records_of(report)
    return {record["case"]: [one for one in record["measurements"] if "histogram" in one] for record in records}


@pytest.mark.long("eight boots of 10 s, four of them under load; the parser and what a kernel needs are unit tests")
def test_responses_keep_their_limits_and_repeat_bit_by_bit(irq_kernel: Path, tmp_path: Path) -> None:
    code, verdicts = gate(irq_kernel, tmp_path / "one")
    assert code == 0
    assert {verdict["case"] for verdict in verdicts if verdict["status"] == "PASS"} == CASES
    assert gate(irq_kernel, tmp_path / "two")[0] == 0
    first = histograms(tmp_path / "one")
    assert set(first) == CASES
    assert all(len(found) == 1 and sum(found[0]["histogram"]["counts"].values()) == 10_000 for found in first.values())
    assert first == histograms(tmp_path / "two")


@pytest.mark.long("a kernel of its own")
def test_a_section_with_interrupts_off_fails(irq_kernel: Path, patched: Patched, tmp_path: Path) -> None:
    slow = patched("irq-interrupts-off-50us", INTERRUPTS_OFF, irq_kernel)
    code, verdicts = gate(slow, tmp_path / "report", "-k", "idle")
    assert code == 1
    failed = [verdict for verdict in verdicts if verdict["status"] == "FAIL"]
    # A thread of its own takes as long as the section, now and then: its limit is too far for one boot.
    assert {verdict["case"] for verdict in failed} >= {"irq/irq-hard:idle"}
    assert {verdict["measurement"] for verdict in failed} == {"response.max"}


@pytest.mark.long("another kernel is built; what happens is known before anything boots, which a unit test holds")
def test_a_kernel_without_the_driver_skips(pcie_kernel: Path, tmp_path: Path) -> None:
    code, verdicts = gate(pcie_kernel, tmp_path / "report", "--allow-unjudged")
    assert code == 0
    assert {verdict["status"] for verdict in verdicts} == {"SKIP"}
    assert all("the build virt-arm64-irq has it" in verdict["sentence"] for verdict in verdicts)
