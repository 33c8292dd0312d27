# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rtgate import site
from rtgate.cli import demo, main
from rtgate.errors import ChangedError, InfrastructureError, RtgateError
from rtgate.files import exclusive_lock
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel import source
from rtgate.kernel.identity import SourceIdentity
from rtgate.kernel.source import Tree
from rtgate.kernel.version import KernelVersion
from rtgate.kernel.work import Options
from rtgate.report import html
from rtgate.rootfs import images
from rtgate.workflow import gate as gate_workflow
from rtgate.workflow import kernels, suite_process
from rtgate.workflow.judging import Criteria, Judging, JudgingRequest

if TYPE_CHECKING:
    from selftests.unit.cli.conftest import Lab

LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}
"""
COMMON = ("gate", "--board", "virt-arm64", "--profile", "smoke", "-k", "idle", "--thresholds", "limits.yaml")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No Allure, and SIGTERM as it was."""

    def page(_: Path, output: Path, __: Path | None = None) -> Path:
        (output / "index.html").write_text("<html>")
        return output / "index.html"

    monkeypatch.setattr(html, "generate", page)
    (tmp_path / "limits.yaml").write_text(LIMITS)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _verdicts(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "verdict.json").read_text())
    return found


# --- whole, with programs of its own


def test_a_good_kernel_passes_and_leaves_everything(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "3-4"]) == 0
    report = tmp_path / "report"
    assert sorted(path.name for path in report.iterdir()) == [
        *(".lock", "allure-results", "index.html", "junit.xml", "measure.log", "records"),
        *("records.sha256", "summary.html", "verdict.json", "verdict.sha256"),
    ]
    left = sorted(path.name for path in (report / "records" / "virt-arm64" / "candidate").glob("*/*"))
    assert left == ["003", "004", "planned.json"]
    found = _verdicts(report)
    assert (found["outcome"], found["exit_code"]) == ("PASS", 0)
    assert not (report / "records" / "verdict.json").exists()
    (suite,) = ET.parse(report / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    told = capfd.readouterr()
    assert "PASS: every limit was kept" in told.out
    assert "== measuring" in told.err
    assert "seed 3 candidate: max 45.4 virtual us (5670 instructions)" in told.err


def test_a_slow_candidate_fails_and_its_baseline_is_measured_too(lab: Lab, tmp_path: Path) -> None:
    lab.make("slow-2")
    assert main.main([*COMMON, "--kernel", "kernel", "--baseline", "kernel", "-o", "out"]) == 1
    found = _verdicts(tmp_path / "out")
    assert [(one["status"], one["kind"], one["boot"]) for one in found["verdicts"]] == [
        ("FAIL", "limit", "seed 2"),
        ("SKIP", "not exercised", ""),  # the comparison: one image, and nobody knows what it was built from
    ]
    assert {one["arm"] for one in found["verdicts"]} == {"candidate"}
    arms = {path.name for path in (tmp_path / "out" / "records" / "virt-arm64").iterdir()}
    assert arms == {"baseline", "candidate"}


@pytest.mark.long("a whole gate with a fake QEMU; a good and a slow kernel are in make test")
def test_who_replaces_the_kernel_meanwhile_changes_nothing(lab: Lab, tmp_path: Path) -> None:
    """From the second record on, the directory holds a kernel that is late with every seed."""
    began = (lab.kernel / "Image").read_bytes()

    def replace_it() -> None:
        while not list((tmp_path / "report").rglob("record.json")):
            time.sleep(0.01)
        (lab.kernel / "Image").write_bytes(began + b"slow")

    replacing = threading.Thread(target=replace_it)
    replacing.start()
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "1-12"]) == 0
    replacing.join()
    records = [json.loads(path.read_text()) for path in (tmp_path / "report").rglob("record.json")]
    digests = {(one["kernel"]["image_sha256"], one["machine"]["image_sha256"]) for one in records}
    assert (len(records), digests) == (12, {(hashlib.sha256(began).hexdigest(),) * 2})


def test_every_batch_of_a_gate_boots_the_kernels_that_it_began_with(lab: Lab, tmp_path: Path) -> None:
    """Further boots, another board and the trace come minutes after the first, each from a process of its own."""
    options = suite_process.SuiteOptions(board="virt-arm64", profile="smoke")
    suites = suite_process.prepare_suites(options, {"candidate": lab.kernel}, tmp_path / "out")
    began = (lab.kernel / "Image").read_bytes()
    (lab.kernel / "Image").write_bytes(began + b"slow")
    assert (suites.kernels["candidate"] / "Image").read_bytes() == began
    assert suites.kernels["candidate"].name == lab.kernel.name


def test_a_qemu_that_is_replaced_meanwhile_ends_the_run_with_an_error(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bin" / "qemu-system-aarch64"

    def replace_it() -> None:
        # Not what is just being written: `.writing-...` vanishes while it is looked into.
        while not list((tmp_path / "report").glob("records/*/*/*/[!.]*/record.json")):
            time.sleep(0.01)
        other = tmp_path / "bin" / "other"
        other.write_text(program.read_text() + "# patched\n")
        other.chmod(0o755)
        other.rename(program)

    replacing = threading.Thread(target=replace_it)
    replacing.start()
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "1-24"]) == 4
    replacing.join()
    assert "changed while it was measured: " in capfd.readouterr().err
    records = [json.loads(path.read_text()) for path in (tmp_path / "report").rglob("record.json")]
    assert len({one["machine"]["qemu_sha256"] for one in records}) == 1


@pytest.mark.long("a whole gate with a fake QEMU; a good and a slow kernel are in make test")
def test_one_image_in_both_arms_is_booted_once(lab: Lab, tmp_path: Path) -> None:
    words = ("--kernel", "kernel", "--baseline", "kernel", "--seeds", "1-4")
    main.main([*COMMON, *words])
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "report").rglob("record.json"))]
    assert [(one["arm"], "shared" in one["machine"]) for one in records] == [
        *[("baseline", False)] * 4,
        *[("candidate", True)] * 4,
    ]


def test_suites_that_ran_no_test_are_a_mistake(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = lab.fake / "python"
    python.write_text("#!/bin/sh\necho 3 deselected\nexit 5\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert main.main([*COMMON, "--kernel", "kernel"]) == 2
    assert "the suites did not run (pytest's exit code 5): 3 deselected; see " in capsys.readouterr().err


@pytest.mark.long("a whole gate with a fake QEMU; a good and a slow kernel are in make test")
def test_suites_that_ran_no_test_harm_no_older_report(lab: Lab, tmp_path: Path) -> None:
    report = tmp_path / "report"
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "1"]) == 0
    before = _contents(report)
    assert main.main([*COMMON, "--kernel", "kernel", "-k", "nothing"]) == 2
    after = _contents(report)
    assert {name for name in before if before[name] != after.get(name)} == {"measure.log"}
    assert b"deselected" in after["measure.log"]
    assert set(after) == set(before)


def _contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# --- steps, with the suites replaced


class Steps:
    """Stands in for pytest and for judging: notes what was asked, and has verdicts."""

    def __init__(self, verdicts: tuple[tuple[Status, Kind], ...], measured: int = 0) -> None:
        self.asked: list[list[str]] = []
        self.judged: list[JudgingRequest] = []
        self._verdicts = verdicts
        self._measured = measured

    def __call__(self, arguments: object, options: list[str], log: Path) -> int:
        self.asked.append(options)
        log.write_text("measuring\n1 failed in 2 s\n")
        return self._measured

    def judge(self, request: JudgingRequest) -> Judging:
        self.judged.append(request)
        judging = Judging(request.criteria)
        judging.verdicts += [
            Verdict(
                status=status,
                kind=kind,
                sentence="said",
                board="virt-arm64",
                arm="candidate",
                flavour="preempt_rt",
                case="latency/cyclictest:idle",
            )
            for status, kind in self._verdicts
        ]
        return judging


def _steps(patch: pytest.MonkeyPatch, *verdicts: tuple[Status, Kind], measured: int = 0) -> Steps:
    made = Steps(verdicts, measured)
    patch.setattr(suite_process, "pytest", made)
    patch.setattr(suite_process, "judge_run", made.judge)
    return made


PASSED, FAILED = (Status.PASS, Kind.LIMIT), (Status.FAIL, Kind.LIMIT)
UNJUDGED = (Status.DONE, Kind.UNJUDGED)


def test_it_measures_without_judging_and_judges_what_is_stored(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _steps(monkeypatch, PASSED)
    words = ("--kernel", "kernel", "--boots", "9", "--console", "host", "--flavour", "generic")
    assert main.main([*COMMON, *words]) == 0
    (measure,) = (" ".join(options) for options in steps.asked)
    measure = re.sub(rf"={tmp_path}/cache/pinned/[\w-]+/kernel ", "=PINNED/kernel ", measure)
    assert measure == (
        f"--board virt-arm64 --records {tmp_path}/report/records --no-judge --profile smoke --tuning default "
        f"--arm candidate=PINNED/kernel --boots 9 --console host --flavour generic"
    )
    (judged,) = steps.judged
    assert judged == JudgingRequest(
        records=tmp_path / "report" / "records",
        board="virt-arm64",
        criteria=Criteria(thresholds=Path("limits.yaml")),
    )
    assert (tmp_path / "report" / "verdict.json").exists()


TWO = ("gate", "--board", "virt-arm64", "--thresholds", "limits.yaml", "--baseline", "kernel", "--kernel", "other")


@pytest.mark.parametrize(
    ("words", "boards"),
    [
        ((), ["virt-arm64", "virt-arm64-smp2"]),
        (("--console", "host", "--boots", "1"), ["virt-arm64"]),
        pytest.param(("--profile", "smoke"), ["virt-arm64"], marks=pytest.mark.long("another profile of the same")),
    ],
    ids=["virtual time", "host time", "another profile"],
)
def test_two_kernels_are_compared_on_the_boards_of_the_profile_and_judged_together(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], boards: list[str]
) -> None:
    shutil.copytree(lab.kernel, lab.kernel.with_name("other"))
    image = lab.kernel.with_name("other") / "Image"
    image.write_bytes(image.read_bytes() + b"another")
    steps = _steps(monkeypatch, PASSED)
    main.main([*TWO, "--no-explain", *words])
    assert [options[options.index("--board") + 1] for options in steps.asked] == boards
    (judged,) = steps.judged
    assert judged.board == ("virt-arm64" if len(boards) == 1 else "")


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("gate", "--board", "virt-riscv64", "--baseline", "kernel", "--kernel", "kernel"),
            "--sections: virt-riscv64 is not a virtual board of arm64 or x86_64",
        ),
        ((*TWO, "--console", "host"), "--sections follows boots on virtual time: leave --console away"),
        (
            ("gate", "--board", "virt-arm64-smp2", "--kernel", "kernel"),
            "--sections judges one kernel by the bound of its wake-ups, and virt-arm64-smp2 has 2 CPUs",
        ),
    ],
)
def test_where_sections_cannot_be_followed_it_is_said_before_anything_is_measured(
    words: tuple[str, ...], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*words, "--sections"]) == 2
    told = capfd.readouterr().err
    assert why in told
    assert "measuring" not in told


@pytest.mark.usefixtures("lab")
def test_sections_are_refused_with_a_tuning_that_masks_interrupts_by_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shipped = (site.shipped_directory() / "boards" / "virt-arm64.yaml").read_text()
    tuning = "{description: by priority, command_line: irqchip.gicv3_pseudo_nmi=1}"
    (tmp_path / "site" / "boards").mkdir(parents=True)
    (tmp_path / "site" / "boards" / "mine.yaml").write_text(f"{shipped}tunings:\n  nmi: {tuning}\n")
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    assert main.main(["gate", "--board", "mine", "--kernel", "kernel", "--tuning", "nmi", "--sections"]) == 2
    told = capfd.readouterr().err
    assert "--sections: tuning nmi of mine masks interrupts by priority (pseudo_nmi)" in told
    assert "measuring" not in told


def test_what_is_looked_into_after_measuring_is_judged_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(lab.kernel, lab.kernel.with_name("other"))
    image = lab.kernel.with_name("other") / "Image"
    image.write_bytes(image.read_bytes() + b"another")
    steps = _steps(monkeypatch, PASSED)
    looks: list[str] = []

    def look(name: str, *_: object) -> bool:
        looks.append(name)
        return name != "trace"

    for name in ("trace", "follow_sections"):
        monkeypatch.setattr(gate_workflow, name, partial(look, name))
    main.main([*TWO, "--sections"])
    assert looks == ["trace", "follow_sections"]
    assert len(steps.judged) == 2
    main.main([*TWO, "--no-explain"])
    assert looks == ["trace", "follow_sections"]
    main.main([*COMMON, "--kernel", "kernel", "--sections"])
    assert looks == ["trace", "follow_sections", "follow_sections"]


@pytest.mark.parametrize("kind", [InfrastructureError, ChangedError])
def test_a_look_that_fails_takes_nothing_away_that_is_judged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: type[RtgateError], capfd: pytest.CaptureFixture[str]
) -> None:
    """As where QEMU is replaced while boots are made again: those that were measured had the former one."""
    shutil.copytree(lab.kernel, lab.kernel.with_name("other"))
    image = lab.kernel.with_name("other") / "Image"
    image.write_bytes(image.read_bytes() + b"another")
    _steps(monkeypatch, PASSED)

    def fail(*_: object) -> bool:
        raise kind("QEMU is another one now")

    for name in ("trace", "follow_sections"):
        monkeypatch.setattr(gate_workflow, name, fail)
    assert main.main([*TWO, "--sections"]) == 0
    told = capfd.readouterr().err
    for name in ("tracing what ran", "following critical sections"):
        assert f"{name} failed: QEMU is another one now" in told


def test_what_a_look_had_written_by_its_failure_is_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(lab.kernel, lab.kernel.with_name("other"))
    image = lab.kernel.with_name("other") / "Image"
    image.write_bytes(image.read_bytes() + b"another")
    steps = _steps(monkeypatch, PASSED)

    def fail(*_: object) -> bool:
        raise ChangedError("QEMU is another one now")

    monkeypatch.setattr(gate_workflow, "trace", fail)
    main.main(TWO)
    assert len(steps.judged) == 2


@pytest.mark.long("boards of a profile, as two kernels on them are compared in make test")
def test_a_choice_of_cases_may_leave_nothing_for_one_of_the_boards(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(lab.kernel, lab.kernel.with_name("other"))
    _steps(monkeypatch, PASSED)
    codes = iter([0, 5])
    monkeypatch.setattr(suite_process, "pytest", lambda *_: next(codes))
    assert main.main([*TWO, "--no-explain", "-k", "latency"]) == 0


@pytest.mark.parametrize(
    ("verdicts", "options", "code"),
    [
        ([PASSED], [], 0),
        ([PASSED, FAILED], [], 1),
        ([(Status.MISS, Kind.LAB)], [], 3),
        ([(Status.ERROR, Kind.OUTPUT), (Status.MISS, Kind.LAB)], [], 4),
        ([UNJUDGED], [], 5),
        ([UNJUDGED], ["--allow-unjudged"], 0),
        ([], ["--allow-unjudged"], 3),
    ],
)
def test_the_exit_code_is_that_of_the_verdicts(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    verdicts: list[tuple[Status, Kind]],
    options: list[str],
    code: int,
) -> None:
    _steps(monkeypatch, *verdicts)
    assert main.main([*COMMON, "--kernel", "kernel", *options]) == code


@pytest.mark.parametrize(("verdict", "code"), [(PASSED, 3), (UNJUDGED, 3), (FAILED, 1)])
def test_what_was_not_measured_to_its_end_never_passes(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdict: tuple[Status, Kind],
    code: int,
) -> None:
    _steps(monkeypatch, verdict, measured=1)
    assert main.main([*COMMON, "--kernel", "kernel"]) == code
    told = capsys.readouterr().err
    log = tmp_path / "report" / "measure.log"
    assert f"rtgate: not everything was measured: measuring / 1 failed in 2 s; see {log}\n" in told
    assert (f"not everything was measured: see {log}" in told) == (code == 3)


def test_what_was_measured_to_its_end_is_not_said_to_be_incomplete(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _steps(monkeypatch, PASSED)
    assert main.main([*COMMON, "--kernel", "kernel"]) == 0
    assert "not everything was measured" not in capsys.readouterr().err


@pytest.mark.long("a whole gate with a fake QEMU; that plugin and judging miss it is in make test")
def test_a_boot_that_lacks_what_a_tool_with_limits_needs_is_a_miss(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.make("skip-2")
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "1-2"]) == 3
    (found,) = _verdicts(tmp_path / "report")["verdicts"]
    assert (found["status"], found["kind"], found["boot"]) == ("MISS", "missing", "seed 2")
    assert found["sentence"] == "seed 2: needs two CPUs, and thresholds.yaml has limits for it"


@pytest.mark.long("a whole gate with a fake QEMU; a good and a slow kernel are in make test")
def test_what_cannot_run_and_has_no_limits_is_skipped(lab: Lab, tmp_path: Path) -> None:
    lab.make("skip-1")
    (tmp_path / "limits.yaml").write_text(LIMITS.replace(":idle", ":hackbench"))
    assert main.main([*COMMON, "--kernel", "kernel", "--seeds", "1", "--allow-unjudged"]) == 0
    found = _verdicts(tmp_path / "report")
    assert [(one["status"], one["kind"]) for one in found["verdicts"]] == [("SKIP", "not judged")]
    (suite,) = ET.parse(tmp_path / "report" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("1", "1", "0")


def test_seeds_and_boots_are_handed_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _steps(monkeypatch, PASSED)
    assert main.main([*COMMON, "--kernel", "kernel", "--console", "host", "--boots", "7"]) == 0
    (measure,) = steps.asked
    assert measure[measure.index("--boots") + 1] == "7"


def test_an_unknown_tuning_shows_before_anything_runs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = _steps(monkeypatch, PASSED)
    assert main.main([*COMMON, "--kernel", "kernel", "--tuning", "fast"]) == 2
    assert "virt-arm64 has no tuning 'fast' (allowed: default" in capsys.readouterr().err
    assert steps.asked == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--base", "v6.12"), "--base and --candidate are commits of a kernel tree: name it with --tree DIR"),
        (("--candidate", "v6.12"), "name it with --tree DIR"),
        (("--kernel", "kernel", "--tree", "linux"), "--kernel names a kernel that is built already"),
        (("--kernel", "kernel", "--patches", "series"), "--kernel names a kernel that is built already"),
        (("--kernel", "none"), "none holds no kernel build"),
        (("--build", "virt-x86_64-generic"), "virt-x86_64-generic.yaml is for x86_64, virt-arm64 is arm64"),
        (("--build", "mine"), "mine"),
        (("--profile", "daily"), "unknown profile 'daily'"),
        (("--seeds", "4-1"), "'4-1' names no seeds"),
        (("--tree", "linux", "--boots", "4"), "--boots is for boards that do not run on virtual time"),
        (("--tree", "linux", "--console", "host", "--seeds", "1-4"), "--seeds is for virtual time"),
        (("--tree", "linux", "--console", "host", "--boots", "many"), "--boots many: expected at least 1"),
        (("--tree", "linux", "--power-cycle", "true"), "--power-cycle is for boards that are attached"),
        (
            ("--tree", "linux", "--base", "v6.12", "--console", "serial:/dev/ttyUSB0:1500000"),
            "is attached to one running kernel, and a baseline is a second one: leave it out",
        ),
        (("--tree", "linux", "--console", "lava"), "--console lava: the job says which kernel it has booted"),
        (("--thresholds", "none.yaml"), "none.yaml: no such file"),
        (("--kernel", "kernel", "--console", "telepathy:"), "telepathy"),
        (("--kernel", "kernel", "-o", "limits.yaml"), "is not a directory: name another one with -o"),
    ],
)
def test_a_mistake_shows_before_anything_runs_and_harms_no_older_report(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    steps = _steps(monkeypatch, PASSED)
    older = tmp_path / "report" / "records" / "x"
    older.mkdir(parents=True)
    assert main.main([*COMMON, *words]) == 2
    assert message in capsys.readouterr().err
    assert steps.asked == []
    assert older.is_dir()


def test_two_gates_cannot_have_one_report_directory(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive_lock(Path("report/.lock"), "report"):
        assert main.main([*COMMON, "--kernel", "kernel"]) == 3
    assert "is in use by another rtgate (process " in capsys.readouterr().err


def test_a_report_directory_that_cannot_be_made_is_no_defect(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*COMMON, "--kernel", "kernel", "-o", "limits.yaml/report"]) == 3
    assert "limits.yaml/report cannot be written: Not a directory" in capsys.readouterr().err


def test_the_suites_do_not_fail_for_their_log(lab: Lab, tmp_path: Path) -> None:
    """Their output is read to its end on a full disk too: a pipe that nobody reads would stop them."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said, os.fdopen(writing, "wb") as suites:
        keeping = threading.Thread(target=suite_process.keep, args=(said, Path("/dev/full")))
        keeping.start()
        suites.write(b"a line\n" * 100_000)
        suites.close()
        keeping.join(timeout=10)
        assert not keeping.is_alive()


def test_a_disk_that_filled_up_ends_it_before_anything_is_judged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = _steps(monkeypatch, PASSED, measured=1)

    def room(directory: Path, needed_mib: int = 64) -> None:
        if steps.asked:
            raise InfrastructureError(f"{directory} has 0 MiB left")

    monkeypatch.setattr("rtgate.files.require_free_space", room)
    assert main.main([*COMMON, "--kernel", "kernel"]) == 3
    assert len(steps.asked) == 1
    told = capsys.readouterr()
    assert "not everything was measured: measuring / 1 failed in 2 s; see " in told.err
    assert "has 0 MiB left" in told.err
    assert "PASS" not in told.out


def test_a_report_directory_of_somebody_else_is_not_touched(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _steps(monkeypatch, PASSED)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    (tmp_path / "thesis" / "records").mkdir()
    assert main.main([*COMMON, "--kernel", "kernel", "-o", "thesis"]) == 2
    assert "holds something else (chapter1.tex): name another directory with -o" in capsys.readouterr().err
    assert (tmp_path / "thesis" / "records").is_dir()


def test_an_older_report_makes_room_but_its_history_stays(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _steps(monkeypatch, PASSED)
    report = tmp_path / "report"
    (report / "records" / "virt-arm64" / "candidate" / "old" / "001").mkdir(parents=True)
    (report / "history.jsonl").write_text("{}\n")
    (report / ".hidden").touch()
    assert main.main([*COMMON, "--kernel", "kernel"]) == 0
    assert list((report / "records").rglob("*")) == []
    assert (report / "history.jsonl").read_text() == "{}\n"


def _tree(path: Path) -> Tree:
    identity = SourceIdentity(kind="directory", version="6.12", path=str(path), fingerprint="f")
    return Tree(path=path, version=KernelVersion(6, 12), identity=identity)


class Builds:
    """Stands in for building kernels."""

    def __init__(self, lab: Lab, patch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, str | None, str, Path | None]] = []
        self.by_content: list[bool] = []
        self.held: list[str] = []
        self._lab = lab
        patch.setattr(kernels, "build_kernel", self._build)
        patch.setattr(kernels, "checkout", self._checkout)
        patch.setattr(source, "open_tree", _tree)

    @contextmanager
    def _checkout(self, _: Path, reference: str, label: str, notice: object, **__: bool) -> Iterator[Tree]:
        self.held.append(label)
        yield _tree(Path("/c") / label / reference)
        self.held.remove(label)

    def _build(
        self, name: str, tree: Tree | None, directory: Path, options: Options, *, by_content: bool
    ) -> SimpleNamespace:
        assert self.held == ([tree.path.parent.name] if tree else [])  # nobody else changes it
        self.made.append((name, str(tree.path) if tree else None, str(directory), options.patches))
        self.by_content.append(by_content)
        return SimpleNamespace(directory=self._lab.kernel)


def test_without_a_kernel_the_board_s_default_is_built(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    builds, steps = Builds(lab, monkeypatch), _steps(monkeypatch, PASSED)
    assert main.main([*COMMON]) == 0
    assert builds.made == [("virt-arm64-preempt_rt", None, "build/virt-arm64-preempt_rt", None)]
    assert builds.by_content == [False]
    assert "candidate=" in " ".join(steps.asked[0])


def test_a_root_filesystem_that_cannot_be_had_is_said_before_a_kernel_is_built(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def image(*_: Any, **__: Any) -> None:
        raise InfrastructureError("no mirror of Debian")

    monkeypatch.setattr(images, "image", image)
    monkeypatch.setattr(kernels, "build_kernel", lambda *_, **__: pytest.fail("a kernel was built"))
    assert main.main(["gate", "--board", "virt-arm64"]) == 3
    assert "no mirror of Debian" in capsys.readouterr().err


def test_a_base_is_built_beside_the_candidate_in_a_directory_named_by_its_content(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds, steps = Builds(lab, monkeypatch), _steps(monkeypatch, PASSED)
    words = ("--tree", "linux", "--base", "v1", "--candidate", "mine", "--build", "virt-arm64-generic")
    assert main.main([*COMMON, *words, "--patches", "series"]) == 0
    (base, candidate) = builds.made
    assert base[:2] == ("virt-arm64-generic", "/c/base/v1")
    assert candidate[:2] == ("virt-arm64-generic", "/c/candidate/mine")
    assert builds.by_content == [True, True]
    assert (base[3], candidate[3]) == (None, Path("series"))  # patches are the candidate's
    arms = [word.partition("=") for word in steps.asked[0] if "=" in word]
    assert [(arm, Path(directory).name) for arm, _, directory in arms] == [
        ("baseline", "kernel"),
        ("candidate", "kernel"),
    ]


def test_a_series_of_the_build_is_not_taken_from_the_candidate_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds, _ = Builds(lab, monkeypatch), _steps(monkeypatch, PASSED)
    series = site.shipped_directory() / "kernel-configs" / "patches" / "jailhouse"
    (tmp_path / "mine.yaml").write_text(f"extends: virt-arm64-preempt_rt\npatches: {series}\n")
    words = ("--tree", "linux", "--candidate", "mine", "--build", str(tmp_path / "mine.yaml"))
    assert main.main([*COMMON, *words, "--base", "v1", "--patches", "series"]) == 2
    assert builds.made == []
    told = " ".join(capsys.readouterr().err.split())
    assert "mine.yaml has a patch series of its own" in told
    assert "commit the change to linux and name that commit with --candidate" in told
    assert main.main([*COMMON, *words, "--base", "v1"]) == 0
    assert main.main([*COMMON, *words, "--patches", "series"]) == 0
    assert [made[3] for made in builds.made] == [None, None, Path("series")]


def test_a_live_console_runs_a_kernel_of_its_own(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    builds, steps = Builds(lab, monkeypatch), _steps(monkeypatch, PASSED)
    assert main.main([*COMMON, "--console", "command:sh"]) == 0
    assert builds.made == []
    assert "--arm" not in steps.asked[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--console", "command:sh", "--patches", "series"), "runs a kernel of its own: --build and --patches need"),
        (("--console", "command:sh", "--build", "virt-arm64-generic"), "runs a kernel of its own: --build and --patch"),
        (("--kernel", "k", "--build", "virt-arm64-generic"), "--kernel names a kernel that is built already: leave"),
    ],
)
def test_an_option_that_would_build_nothing_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    builds = Builds(lab, monkeypatch)
    assert main.main([*COMMON, *words]) == 2
    assert builds.made == []
    assert told in capsys.readouterr().err


# --- the demo


@pytest.mark.parametrize(
    ("verdicts", "code", "told"),
    [
        ([FAILED, (Status.FAIL, Kind.SHARE), PASSED], 0, "was found out by 2 limits; the report: demo/index.html"),
        ([PASSED], 1, "the slow kernel got through: that is a defect of rtgate or of its limits"),
        ([(Status.FAIL, Kind.BOOT)], 1, "the gate ended with exit code 1 for another reason"),
        ([(Status.ERROR, Kind.VALIDITY)], 4, "the gate ended with exit code 4 for another reason"),
    ],
)
def test_the_demo_is_good_when_its_slow_kernel_fails_by_a_limit(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdicts: list[tuple[Status, Kind]],
    code: int,
    told: str,
) -> None:
    builds, steps = Builds(lab, monkeypatch), _steps(monkeypatch, *verdicts)
    assert main.main(["demo"]) == code
    assert told in capsys.readouterr().out
    assert (len(steps.asked), len(steps.judged)) == (1, 1)
    (made,) = builds.made
    patches = made[3]
    assert patches is not None
    assert (patches / "series").is_file()
    assert made[2] == "build/virt-arm64-preempt_rt-demo-slow-wakeup"
    assert builds.by_content == [True]
    assert demo.__doc__
