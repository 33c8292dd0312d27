# SPDX-License-Identifier: MIT
"""Xenomai's Cobalt, whole: built, booted, measured and judged, from source trees that the user names.

`make test-xenomai KERNEL=DIR XENOMAI=DIR`. Stand-ins of both trees are in the unit tests (selftests/data/fake-xenomai).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from selftests.integration.conftest import rtgate

from rtgate.kernel.xenomai import VARIABLE

BOARD, BUILD = "virt-arm64-xenomai", "virt-arm64-xenomai"
KERNEL = "RTGATE_DOVETAIL"
TICK = "\tsched->status |= XNINTCK;\n"
"""Stands in Cobalt's handler of its clock (kernel/cobalt/clock.c), before it looks which timers have elapsed."""
SLOW = """
	{
		static unsigned int ticks;
		unsigned int i;

		if (++ticks % 100 == 0)
			for (i = 0; i < 2000; i++)
				barrier();
	}
"""
HARMLESS = """
	{
		static unsigned long ticks;

		WRITE_ONCE(ticks, ticks + 1);
	}
"""

pytestmark = [
    pytest.mark.long("two kernels, and a board of its own"),
    pytest.mark.skipif(
        not (os.environ.get(KERNEL) and os.environ.get(VARIABLE)),
        reason=f"needs a kernel with Dovetail and Xenomai's source: {KERNEL} and {VARIABLE}",
    ),
]


def build(output: Path, xenomai: Path) -> Path:
    words = ("--tree", os.environ[KERNEL], "-o", output)
    assert rtgate("build", BUILD, *words, timeout=3000, RTGATE_XENOMAI=str(xenomai)).returncode == 0
    return output


def statuses(kernel: Path, report: Path, *words: str) -> dict[str, str]:
    """Return the worst status of each case of a gate."""
    rtgate("gate", "--board", BOARD, "--kernel", kernel, *words, "-o", report, timeout=1800)
    ranks = ("PASS", "SKIP", "DONE", "ERROR", "FAIL")
    found: dict[str, str] = {}
    for verdict in json.loads((report / "verdict.json").read_text())["verdicts"]:
        found[verdict["case"]] = max(found.get(verdict["case"], "PASS"), verdict["status"], key=ranks.index)
    return found


@pytest.fixture(scope="module")
def xenomai() -> Path:
    return Path(os.environ[VARIABLE]).resolve()


@pytest.fixture(scope="module")
def cobalt(xenomai: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("kernel") / "cobalt", xenomai)


def test_a_cobalt_kernel_keeps_its_limits(cobalt: Path, tmp_path: Path) -> None:
    found = statuses(cobalt, tmp_path / "report")
    assert found == {f"latency/xenomai-latency:{load}": "PASS" for load in ("idle", "hackbench")}
    described = json.loads((cobalt / "build.json").read_text())
    records = [json.loads(path.read_text()) for path in (tmp_path / "report/records").glob("*/*/*/*/record.json")]
    assert described["xenomai"]["version"]
    assert {record["environment"]["flavour"] for record in records} == {"xenomai"}


def test_what_measures_linux_is_left_out_and_switches_keep_registers(cobalt: Path, tmp_path: Path) -> None:
    found = statuses(cobalt, tmp_path / "report", "--profile", "mr", "-k", "switchtest or (test_cyclictest and idle)")
    assert found["latency/cyclictest:idle"] == "SKIP"
    assert found["scheduling/xenomai-switchtest:idle"] == "PASS"


@pytest.mark.parametrize(("change", "status"), [(SLOW, "FAIL"), (HARMLESS, "PASS")])
def test_a_change_of_cobalt(xenomai: Path, tmp_path: Path, change: str, status: str) -> None:
    tree = tmp_path / "xenomai"
    shutil.copytree(xenomai, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    code = (tree / "kernel/cobalt/clock.c").read_text()
    assert code.count(TICK) == 1
    (tree / "kernel/cobalt/clock.c").write_text(code.replace(TICK, TICK + change))
    found = statuses(build(tmp_path / "kernel", tree), tmp_path / "report", "-k", "idle")
    assert found == {"latency/xenomai-latency:idle": status}
