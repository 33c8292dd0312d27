# SPDX-License-Identifier: MIT
"""Jailhouse, whole: a kernel with its hypervisor built, booted, measured and judged, from a source that the user names.

`make test-jailhouse JAILHOUSE=DIR`. A stand-in of its tree is in the unit tests (selftests/data/fake-jailhouse).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from selftests.integration.conftest import records_of, rtgate, verdicts_of

from rtgate.kernel.jailhouse import VARIABLE

BOARD = "virt-arm64-jailhouse"
INTERRUPT = "void irqchip_handle_irq(void)\n{\n"
"""Where the hypervisor gets each interrupt of its cells (hypervisor/arch/arm-common/irqchip.c)."""
SLOW = "\tfor (volatile int turn = 0; turn < 500; turn++)\n\t\t;\n"
HARMLESS = "\tstatic volatile u32 interrupts;\n\n\tinterrupts++;\n"

pytestmark = [
    pytest.mark.long("a kernel, and a board of its own"),
    pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"needs Jailhouse's source: {VARIABLE}"),
]


def build(output: Path, jailhouse: Path) -> Path:
    assert rtgate("build", BOARD, "-o", output, timeout=3000, RTGATE_JAILHOUSE=str(jailhouse)).returncode == 0
    return output


def gate(kernel: Path, report: Path, *words: str) -> dict[str, str]:
    """Return the status of each case of a gate."""
    words = ("--board", BOARD, "--kernel", str(kernel), "--tuning", "root-cell", *words)
    rtgate("gate", *words, "-o", report, timeout=1800)
    return {one["case"]: one["status"] for one in verdicts_of(report)}


@pytest.fixture(scope="module")
def jailhouse() -> Path:
    return Path(os.environ[VARIABLE]).resolve()


@pytest.fixture(scope="module")
def root_cell(jailhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("kernel") / "jailhouse", jailhouse)


def test_a_root_cell_and_its_inmate_keep_their_limits(root_cell: Path, tmp_path: Path) -> None:
    found = gate(root_cell, tmp_path / "report")
    assert found == {
        f"latency/{case}+root-cell": "PASS"
        for case in ("cyclictest:hackbench", "cyclictest:idle", "jailhouse-demo:hackbench", "jailhouse-demo:idle")
    }
    records = records_of(tmp_path / "report" / "records")
    assert {record["environment"]["flavour"] for record in records} == {"jailhouse"}
    assert json.loads((root_cell / "build.json").read_text())["jailhouse"]["version"]


@pytest.mark.parametrize(("change", "status"), [(SLOW, "FAIL"), (HARMLESS, "PASS")])
def test_a_change_of_the_hypervisor(jailhouse: Path, tmp_path: Path, change: str, status: str) -> None:
    tree = tmp_path / "jailhouse"
    shutil.copytree(jailhouse, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    place = tree / "hypervisor/arch/arm-common/irqchip.c"
    assert place.read_text().count(INTERRUPT) == 1
    place.write_text(place.read_text().replace(INTERRUPT, INTERRUPT + change))
    kernel = build(tmp_path / "kernel", tree)
    assert gate(kernel, tmp_path / "report", "-k", "jailhouse and idle") == {
        "latency/jailhouse-demo:idle+root-cell": status
    }
