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

ARM64, X86_64 = "virt-arm64-xenomai", "virt-x86_64-xenomai"
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


def build(name: str, output: Path, xenomai: Path) -> Path:
    words = ("--tree", os.environ[KERNEL], "-o", output)
    assert rtgate("build", name, *words, timeout=3000, RTGATE_XENOMAI=str(xenomai)).returncode == 0
    return output


def statuses(board: str, kernel: Path, report: Path, *words: str) -> dict[str, str]:
    """Return the worst status of each case of a gate."""
    rtgate("gate", "--board", board, "--kernel", kernel, *words, "-o", report, timeout=1800)
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
    return build(ARM64, tmp_path_factory.mktemp("kernel") / "cobalt", xenomai)


@pytest.fixture(scope="module")
def cobalt_x86(xenomai: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(X86_64, tmp_path_factory.mktemp("kernel") / "cobalt", xenomai)


CASES = [
    f"latency/xenomai-latency{where}:{load}" for where in ("", "-kernel", "-irq") for load in ("idle", "hackbench")
]
WORKS = ["clocktest:hackbench", "clocktest:idle", "smokey:idle", "switchtest:idle"]


@pytest.mark.parametrize(("board", "kernel"), [(ARM64, "cobalt"), (X86_64, "cobalt_x86")])
def test_a_cobalt_kernel_keeps_its_limits(
    board: str, kernel: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cobalt = request.getfixturevalue(kernel)
    found = statuses(board, cobalt, tmp_path / "report")
    assert found == dict.fromkeys(CASES, "PASS")
    described = json.loads((cobalt / "build.json").read_text())
    records = [json.loads(path.read_text()) for path in (tmp_path / "report/records").glob("*/*/*/*/record.json")]
    assert described["xenomai"]["version"]
    assert {record["environment"]["flavour"] for record in records} == {"xenomai"}


@pytest.mark.parametrize(("board", "kernel"), [(ARM64, "cobalt"), (f"{ARM64}-smp2", "cobalt"), (X86_64, "cobalt_x86")])
def test_cobalt_works_and_what_measures_linux_is_left_out(
    board: str, kernel: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chosen = "smokey or clocktest or switchtest or (test_cyclictest and idle and not xenomai)"
    cobalt = request.getfixturevalue(kernel)
    found = statuses(board, cobalt, tmp_path / "report", "--profile", "mr", "-k", chosen)
    assert found.pop("latency/cyclictest:idle") == "SKIP"
    assert {case: found[f"scheduling/xenomai-{case}"] for case in WORKS} == dict.fromkeys(WORKS, "PASS")


@pytest.mark.parametrize(("change", "status"), [(SLOW, "FAIL"), (HARMLESS, "PASS")])
def test_a_change_of_cobalt(xenomai: Path, tmp_path: Path, change: str, status: str) -> None:
    tree = tmp_path / "xenomai"
    shutil.copytree(xenomai, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    code = (tree / "kernel/cobalt/clock.c").read_text()
    assert code.count(TICK) == 1
    (tree / "kernel/cobalt/clock.c").write_text(code.replace(TICK, TICK + change))
    kernel = build(ARM64, tmp_path / "kernel", tree)
    found = statuses(ARM64, kernel, tmp_path / "report", "-k", "test_latency and idle")
    assert found["latency/xenomai-latency:idle"] == status
