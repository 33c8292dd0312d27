# SPDX-License-Identifier: MIT
"""Xenomai's Cobalt, whole: built, booted, measured and judged, from source trees that the user names.

`make test-xenomai KERNEL=DIR XENOMAI=DIR`. Stand-ins of both trees are in the unit tests (selftests/data/fake-xenomai).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from selftests.integration.conftest import records_of, rtgate, verdicts_of

from rtgate.kernel.xenomai import VARIABLE

COMPARED = "latency/xenomai-latency:idle"
PLACEBOS = ("one-word", "dotted-word", "four-words", "24-words", "boot-nops-1", "boot-nops-100")
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


def statuses(
    board: str, kernel: Path, report: Path, *words: str | Path, options: tuple[str | Path, ...] = ()
) -> dict[str, str]:
    """Return the worst status of each case of a gate; `options` are those of every command."""
    rtgate(*options, "gate", "--board", board, "--kernel", kernel, *words, "-o", report, timeout=1800)
    ranks = ("PASS", "SKIP", "DONE", "ERROR", "FAIL")
    found: dict[str, str] = {}
    for verdict in verdicts_of(report):
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
    records = records_of(tmp_path / "report" / "records")
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


@pytest.fixture(scope="module")
def site(xenomai: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site directory that says what harmless changes of this kernel do."""
    site = tmp_path_factory.mktemp("site")
    changes = [word for name in PLACEBOS for word in ("--change", name)]
    words = ("--board", ARM64, "--tree", os.environ[KERNEL], "--case", COMPARED, "--seeds", "1-8", *changes)
    out = ("-o", site / "placebos.yaml", "--work", site / "work")
    done = rtgate("placebos", "learn", *words, *out, timeout=7200, RTGATE_XENOMAI=str(xenomai))
    assert done.returncode == 0, done.stderr[-2000:]
    return site


@pytest.fixture
def changed(xenomai: Path, tmp_path: Path) -> Path:
    """Return a directory with a copy of Xenomai's source, `xenomai`."""
    shutil.copytree(xenomai, tmp_path / "xenomai", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (SLOW, "FAIL", r"regression: .* instructions in xnclock_tick \(changed and slower\)"),
        (HARMLESS, "PASS", r"(no worse|slower, below what blocks): .* ran: xnclock_tick; changed instructions: "),
    ],
)
def test_a_change_of_cobalt(changed: Path, cobalt: Path, site: Path, change: str, status: str, sentence: str) -> None:
    """Compared with the kernel without the change, and judged by limits."""
    tree, report = changed / "xenomai", changed / "report"
    code = (tree / "kernel/cobalt/clock.c").read_text()
    assert code.count(TICK) == 1
    (tree / "kernel/cobalt/clock.c").write_text(code.replace(TICK, TICK + change))
    kernel = build(ARM64, changed / "kernel", tree)
    words = ("--baseline", cobalt, "-k", "test_latency and idle")
    assert statuses(ARM64, kernel, report, *words, options=("--site", site)) == {COMPARED: status}
    told = [f"{one['kind']}: {one['sentence']}; {one['cause']}" for one in verdicts_of(report)]
    assert any(re.search(sentence, one) for one in told)
