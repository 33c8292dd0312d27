# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import shutil
import signal
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.pytester import RunResult
from selftests.fake_target import FakeTarget, arm, arms, measured_outcome, skipped_outcome, slow

from rtgate.board import boards
from rtgate.cli import suite_options
from rtgate.cli.main import main
from rtgate.errors import InfrastructureError, Interrupted
from rtgate.measure import run as run_module
from rtgate.measure.case import Arm, Case
from rtgate.measure.profiles import profile
from rtgate.measure.run import BootPool, Run
from rtgate.records import record as records_file
from rtgate.report import allure as results_writer
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow import placebo_notice, verdicts
from rtgate.workflow.judging import Criteria, JudgingRequest, judge_run

pytest_plugins = ["pytester"]

SUITE = """
from rtgate.plugin import cases
from rtgate.tools.cyclictest import Cyclictest

@cases(Cyclictest(), "idle", "hackbench")
def test_cyclictest(measure):
    measure()
"""
LIMIT = '      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}\n'
LIMITS = "virt-arm64:\n  preempt_rt:\n" + "".join(
    f"    latency/cyclictest:{load}:\n{LIMIT}" for load in ("idle", "hackbench")
)
ARMS = ("baseline", "candidate")
IDLE, LOADED = "latency/cyclictest:idle", "latency/cyclictest:hackbench"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Suite:
    """A suite of two cases in a directory of its own, with limits."""

    def __init__(self, pytester: pytest.Pytester, patch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.patch = patch
        self.records = pytester.path / "records"
        self.tests = pytester.mkdir("latency") / "test_latency.py"
        self.tests.write_text(SUITE)
        (pytester.path / "limits.yaml").write_text(LIMITS)

    def pytest(self, *options: str) -> RunResult:
        common = ("-p", "rtgate.plugin", "-p", "no:cacheprovider", "--thresholds", "limits.yaml")
        return self.pytester.runpytest_inprocess(*common, str(self.tests), *options)

    def fake(self, *made: Arm) -> None:
        self.patch.setattr(suite_options, "make_arms", arms(*made))

    def measured(self, *options: str) -> RunResult:
        return self.pytest("--board", "virt-arm64", "--kernel", "k", "--seeds", "1-2", *options)

    def verdict(self, path: str = "records/verdict.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.pytester.path / path).read_text())
        return found

    def told(self) -> dict[str, list[str]]:
        """Return the statuses by case."""
        found: dict[str, list[str]] = {}
        for one in self.verdict()["verdicts"]:
            found.setdefault(one["case"], []).append(one["status"])
        return found


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.delenv("RTGATE_SITE", raising=False)
    return Suite(pytester, monkeypatch)


def by_case(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(verdicts, key=lambda one: str(one["case"]))


def _store(
    suite: Suite, script: FakeTarget, load: str = "idle", name: str = "candidate", board: str = "virt-arm64"
) -> None:
    run = Run(arms=(arm(script, name, board=board),), seeds=(1, 2), records=suite.records)
    run.measure(Case(suite="latency", tool=Cyclictest(), load=load), lambda _: None)


def _both(suite: Suite, script: Callable[[], FakeTarget]) -> None:
    for load in ("idle", "hackbench"):
        _store(suite, script(), load)


def test_measuring_judges_and_writes_verdicts(suite: Suite) -> None:
    target = FakeTarget()
    suite.fake(arm(target))
    suite.measured().assert_outcomes(passed=2)
    found = suite.verdict()
    assert (found["format"], found["outcome"], found["exit_code"], found["whole"]) == (1, "PASS", 0, True)
    assert suite.told() == {IDLE: ["PASS"], LOADED: ["PASS"]}
    assert sorted(plan.seed for plan in target.plans) == [1, 1, 2, 2]
    assert len(list(suite.records.glob("*/*/*/*/record.json"))) == 4


def test_a_slow_kernel_fails_with_one_sentence(suite: Suite) -> None:
    suite.fake(arm(FakeTarget({2: slow()})))
    result = suite.measured("-k", "idle")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["*FAIL: latency.max was 99.0 virtual us (12375 instructions) on CPU 0 in seed 2, over *"]
    )
    assert suite.verdict()["exit_code"] == 1


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (measured_outcome(), "PASS", 0),
        (slow(), "FAIL", 1),
        (measured_outcome(cyclictest_json=b"{"), "ERROR", 4),
        (measured_outcome(uptime_end=None), "ERROR", 4),
        (Outcome(state=State.HANG, message="no sign of life"), "FAIL", 1),
        (Outcome(state=State.LAB, message="QEMU ended"), "MISS", 3),
        (skipped_outcome(), "MISS", 3),
        (measured_outcome(facts_start=None), "ERROR", 4),
    ],
    ids=["pass", "over the limit", "unreadable", "invalid", "hang", "lab", "skipped", "settings unread"],
)
def test_a_replay_judges_stored_records(suite: Suite, outcome: Outcome, status: str, code: int) -> None:
    _both(suite, lambda: FakeTarget({2: outcome}))
    result = suite.pytest("--replay", "records", "--verdict", "out/v.json")
    result.assert_outcomes(**({"passed": 2} if status == "PASS" else {"failed": 2}))
    found = suite.verdict("out/v.json")
    assert (found["outcome"], found["exit_code"]) == (status, code)
    assert {one["status"] for one in found["verdicts"]} == {status}
    assert {(one["board"], one["arm"], one["flavour"]) for one in found["verdicts"]} == {
        ("virt-arm64", "candidate", "preempt_rt")
    }
    assert not list((suite.pytester.path / "out").glob(".*"))
    # What the suites say and what a gate says come from one service.
    judging = judge_run(JudgingRequest(records=suite.records, criteria=Criteria(thresholds=Path("limits.yaml"))))
    from_service = json.loads(json.dumps([one.as_json() for one in judging.verdicts]))
    assert by_case(from_service) == by_case(found["verdicts"])


@pytest.mark.parametrize(
    ("outcome", "limits", "ret", "code"),
    [
        (measured_outcome(), "preempt_rt", pytest.ExitCode.OK, 0),
        (measured_outcome(), "generic", pytest.ExitCode.OK, 5),
        (skipped_outcome(), "generic", pytest.ExitCode.OK, 5),
        (slow(), "preempt_rt", pytest.ExitCode.TESTS_FAILED, 1),
        (measured_outcome(cyclictest_json=b"{"), "preempt_rt", pytest.ExitCode.TESTS_FAILED, 4),
        (Outcome(state=State.LAB, message="QEMU ended"), "preempt_rt", pytest.ExitCode.TESTS_FAILED, 3),
    ],
    ids=["pass", "not judged", "skipped", "over the limit", "unreadable", "lab"],
)
def test_pytest_keeps_its_own_exit_codes(suite: Suite, outcome: Outcome, limits: str, ret: int, code: int) -> None:
    """As docs/reference/files.md has them; usage and interruption have tests of their own."""
    (suite.pytester.path / "limits.yaml").write_text(LIMITS.replace("preempt_rt", limits))
    suite.fake(arm(FakeTarget({None: outcome})))
    assert suite.measured().ret == ret
    assert suite.verdict()["exit_code"] == code


def test_a_lab_that_cannot_begin_and_a_choice_of_nothing_have_codes_of_pytest(suite: Suite) -> None:
    def away(*_: object) -> object:
        raise InfrastructureError("no lab")

    suite.fake(arm(FakeTarget()))
    assert suite.measured("-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    suite.patch.setattr(suite_options, "make_arms", away)
    assert suite.measured().ret == 3
    assert not (suite.records / "verdict.json").exists()


def test_a_replay_changes_no_record_and_repeats_itself(suite: Suite) -> None:
    _both(suite, FakeTarget)
    before = {path: path.read_bytes() for path in suite.records.rglob("*") if path.is_file()}
    suite.pytest("--replay", "records")
    first = suite.verdict()
    suite.pytest("--replay", "records")
    assert suite.verdict() == first
    assert {path: path.read_bytes() for path in before} == before


def test_a_case_without_a_record_is_a_miss(suite: Suite) -> None:
    _store(suite, FakeTarget())
    suite.pytest("--replay", "records").assert_outcomes(passed=1, failed=1)
    assert suite.told() == {IDLE: ["PASS"], LOADED: ["MISS"]}
    assert suite.verdict()["exit_code"] == 3


def test_a_candidate_that_left_no_record_is_missed_beside_a_baseline(suite: Suite) -> None:
    _both(suite, FakeTarget)
    for load in ("idle", "hackbench"):
        _store(suite, FakeTarget(), load, "baseline")
    for path in suite.records.glob("*/candidate/*/00*"):
        shutil.rmtree(path)
    suite.pytest("--replay", "records").assert_outcomes(failed=2)
    assert {one["arm"] for one in suite.verdict()["verdicts"]} == {"candidate"}
    assert suite.verdict()["outcome"] == "MISS"


def test_measuring_again_misses_nothing_of_before(suite: Suite) -> None:
    suite.fake(arm(FakeTarget()))
    suite.measured()
    again = ("--board", "virt-arm64", "--kernel", "k", "--seeds", "3")
    suite.pytest(*again).assert_outcomes(passed=2)
    suite.pytest("--replay", "records").assert_outcomes(passed=2)


def test_boots_of_another_kernel_in_the_directory_are_judged_as_well(suite: Suite) -> None:
    """A report shows them together, so a verdict about the new ones alone would stand for the others, too."""
    suite.fake(arm(FakeTarget()))
    suite.measured("-k", "idle").assert_outcomes(passed=1, deselected=1)
    again = ("--board", "virt-arm64", "--kernel", "k", "-k", "idle", "--seeds")
    booted = measured_outcome()
    other = arm(FakeTarget({None: replace(booted, machine={**booted.machine, "image_sha256": "c" * 64})}))
    suite.fake(replace(other, kernel=replace(other.kernel, image_sha256="c" * 64)))
    suite.pytest(*again, "3-4").assert_outcomes(failed=1, deselected=1)
    from_session = suite.verdict()["verdicts"]
    assert {one["status"] for one in from_session} == {"ERROR"}
    assert "its boots are of 2 kernels" in from_session[0]["sentence"]
    judging = judge_run(JudgingRequest(records=suite.records, criteria=Criteria(thresholds=Path("limits.yaml"))))
    assert json.loads(json.dumps([one.as_json() for one in judging.verdicts])) == from_session
    # With the same numbers the new boots take the place of the old ones.
    suite.pytest(*again, "1-2").assert_outcomes(passed=1, deselected=1)


def test_a_wrong_history_ends_the_session_before_it_measures(suite: Suite) -> None:
    target = FakeTarget()
    suite.fake(arm(target))
    result = suite.measured("--history", "bogus")
    assert result.ret == 4
    result.stdout.fnmatch_lines_random(["*'bogus' is not the URL*"])
    assert not target.plans


def test_what_goes_wrong_at_the_end_is_told_without_a_traceback(suite: Suite) -> None:
    suite.fake(arm(FakeTarget()))
    (suite.pytester.path / "file").touch()
    result = suite.measured("-k", "idle", "--verdict", "file/verdict.json")
    assert result.ret == 3
    result.stdout.fnmatch_lines(["*= not judged to the end =*", "*file*", "The records are kept: rtgate judge *"])
    assert "Traceback" not in result.stdout.str()


def test_the_comparison_joins_pytest_s_junit_in_a_home_directory(suite: Suite) -> None:
    suite.patch.setenv("HOME", str(suite.pytester.path))
    suite.fake(arm(FakeTarget(), "baseline"), arm(FakeTarget()))
    suite.measured("-k", "idle", "--junit-xml", "~/junit.xml").assert_outcomes(passed=1, deselected=1)
    suites = ET.parse(suite.pytester.path / "junit.xml").getroot()
    assert [one.get("name") for one in suites] == ["pytest", "comparison with the baseline"]


def test_a_damaged_record_in_the_directory_ends_the_session_before_it_measures(suite: Suite) -> None:
    suite.fake(arm(FakeTarget()))
    suite.measured("-k", "idle").assert_outcomes(passed=1, deselected=1)
    (record,) = suite.records.glob("virt-arm64/candidate/latency.cyclictest:idle/002/record.json")
    record.write_text("{")
    result = suite.measured("-k", "idle")
    assert result.ret == 4
    result.stdout.fnmatch_lines_random(["*record.json*"])


def test_a_replay_takes_the_profile_of_the_records(suite: Suite) -> None:
    _both(suite, FakeTarget)
    other = SUITE.replace("Cyclictest()", "Ssdd()").replace("test_cyclictest", "test_ssdd")
    suite.tests.write_text(f"{SUITE}\nfrom rtgate.tools.ssdd import Ssdd\n{other}")
    names = {record.profile for record in records_file.read_all(suite.records)}
    assert names == {"smoke"}  # which has no ssdd
    suite.pytest("--replay", "records").assert_outcomes(passed=2, deselected=2)


def test_two_tests_of_one_case_are_a_mistake(suite: Suite) -> None:
    suite.tests.write_text(SUITE + SUITE.partition("Cyclictest\n")[2].replace("def test_", "def test_again_"))
    suite.fake(arm(FakeTarget()))
    result = suite.measured()
    assert result.ret == 4
    result.stdout.fnmatch_lines_random(["*two tests measure latency/cyclictest:hackbench, latency/cyclictest:idle*"])


def test_no_record_at_all_is_a_miss(suite: Suite) -> None:
    suite.records.mkdir()
    suite.pytest("--replay", "records").assert_outcomes(failed=2)
    assert suite.verdict()["outcome"] == "MISS"


def test_without_limits_it_is_measured_and_not_judged(suite: Suite) -> None:
    _both(suite, FakeTarget)
    (suite.pytester.path / "limits.yaml").write_text(LIMITS.replace("preempt_rt", "generic"))
    suite.pytest("--replay", "records").assert_outcomes(passed=2)
    assert (suite.verdict()["outcome"], suite.verdict()["exit_code"]) == ("DONE", 5)


def test_what_cannot_run_and_has_no_limits_is_skipped(suite: Suite) -> None:
    _both(suite, lambda: FakeTarget({None: skipped_outcome("needs two CPUs\n")}))
    (suite.pytester.path / "limits.yaml").write_text(LIMITS.replace("preempt_rt", "generic"))
    result = suite.pytest("--replay", "records", "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*SKIP: seed 1: needs two CPUs; SKIP: seed 2: needs two CPUs*"])
    assert (suite.verdict()["outcome"], suite.verdict()["exit_code"]) == ("SKIP", 5)


def test_what_the_baseline_can_the_candidate_must(suite: Suite) -> None:
    suite.fake(arm(FakeTarget(), "baseline"), arm(FakeTarget({None: skipped_outcome()})))
    suite.measured("-k", "idle").assert_outcomes(failed=1, deselected=1)
    found = suite.verdict()
    assert {(one["status"], one["kind"]) for one in found["verdicts"]} == {("FAIL", "missing")}
    assert found["exit_code"] == 1


def test_a_planned_boot_that_left_no_record_is_a_miss(suite: Suite) -> None:
    _both(suite, FakeTarget)
    (lost,) = suite.records.glob("virt-arm64/candidate/latency.cyclictest:idle/002")
    shutil.rmtree(lost)
    suite.pytest("--replay", "records").assert_outcomes(passed=1, failed=1)
    assert suite.told() == {IDLE: ["MISS"], LOADED: ["PASS"]}
    (miss,) = (one for one in suite.verdict()["verdicts"] if one["status"] == "MISS")
    assert miss["sentence"].startswith("seed 2 left no record: ")


def test_two_arms_judge_the_candidate_and_excuse_what_the_baseline_shows_too(suite: Suite) -> None:
    warned = measured_outcome(
        dmesg=b"[    0.000000] Linux version 6.12\n[    1.000000] WARNING: CPU: 0 PID: 1 at kernel/x.c:3 f+0x1/0x2\n"
    )
    both = replace(slow(), files={**slow().files, "dmesg": warned.files["dmesg"]})
    suite.fake(arm(FakeTarget({None: both, 1: warned}), "baseline"), arm(FakeTarget({None: warned})))
    suite.measured("-k", "idle", "--junit-xml", "junit.xml").assert_outcomes(passed=1, deselected=1)
    assert {one["arm"] for one in suite.verdict()["verdicts"]} == {"candidate"}
    # The comparison comes last: here one image gave other data, which virtual time never does.
    assert suite.told() == {IDLE: ["DONE", "PASS", "ERROR"]}
    # pytest's own JUnit must not be green where its exit code is not.
    suites = ET.parse(suite.pytester.path / "junit.xml").getroot()
    assert [(one.get("name"), one.get("tests"), one.get("errors")) for one in suites] == [
        ("pytest", "1", "0"),
        ("comparison with the baseline", "1", "1"),
    ]
    told = suites.find("testsuite/testcase/error")
    assert told is not None
    assert str(told.get("message")).startswith("ERROR: ")


def test_a_candidate_that_was_not_measured_is_not_replaced_by_its_baseline(suite: Suite) -> None:
    for load in ("idle", "hackbench"):
        _store(suite, FakeTarget(), load, "baseline")
    _store(suite, FakeTarget(), "idle")
    suite.pytest("--replay", "records").assert_outcomes(passed=1, failed=1)
    assert suite.told() == {IDLE: ["PASS", "SKIP"], LOADED: ["MISS"]}


def test_a_baseline_alone_is_judged(suite: Suite) -> None:
    for load in ("idle", "hackbench"):
        _store(suite, FakeTarget(), load, "baseline")
    suite.pytest("--replay", "records").assert_outcomes(passed=2)
    assert {one["arm"] for one in suite.verdict()["verdicts"]} == {"baseline"}


def test_every_board_must_have_every_case(suite: Suite) -> None:
    _both(suite, FakeTarget)
    _store(suite, FakeTarget(), "idle", board="virt-arm64-smp2")
    suite.pytest("--replay", "records", "-k", "hackbench").assert_outcomes(failed=1, deselected=1)
    assert {one["board"]: one["status"] for one in suite.verdict()["verdicts"]} == {
        "virt-arm64": "PASS",
        "virt-arm64-smp2": "MISS",
    }
    suite.pytest("--replay", "records", "-k", "hackbench", "--board", "virt-arm64").assert_outcomes(
        passed=1, deselected=1
    )


BESIDE = """
own:
  description: another case on another board
  duration: 2 s
  seeds: 1-2
  boots: 1
  loads: {hackbench: {}}
  boards: {virt-x86_64: {beside: virt-arm64, only: [cyclictest], loads: {idle: {}}}}
"""


def test_a_board_must_have_the_cases_that_the_profile_has_there(suite: Suite) -> None:
    site = suite.pytester.mkdir("site")
    (site / "profiles.yaml").write_text(BESIDE)
    suite.patch.setenv("RTGATE_SITE", str(site))
    _store(suite, FakeTarget(), "hackbench")
    _store(suite, FakeTarget(), "idle", board="virt-x86_64")
    suite.pytest("--replay", "records", "--profile", "own").assert_outcomes(passed=2)
    told = {(one["board"], one["case"]): one["status"] for one in suite.verdict()["verdicts"]}
    assert told == {("virt-arm64", LOADED): "PASS", ("virt-x86_64", IDLE): "DONE"}
    # A case of which nothing is left is missed where it belongs, and nowhere else.
    shutil.rmtree(suite.records / "virt-x86_64" / "candidate")
    _store(suite, FakeTarget(), "hackbench", board="virt-x86_64")
    suite.pytest("--replay", "records", "--profile", "own").assert_outcomes(passed=1, failed=1)
    told = {(one["board"], one["case"]): one["status"] for one in suite.verdict()["verdicts"]}
    assert told[("virt-x86_64", IDLE)] == "MISS"
    assert ("virt-arm64", IDLE) not in told


def test_on_a_board_the_profile_s_cases_of_it_are_measured(suite: Suite) -> None:
    site = suite.pytester.mkdir("site")
    (site / "profiles.yaml").write_text(BESIDE)
    suite.patch.setenv("RTGATE_SITE", str(site))
    target = FakeTarget()
    suite.fake(arm(target, board="virt-x86_64"))
    words = ("--board", "virt-x86_64", "--kernel", "k", "--profile", "own", "--no-judge")
    suite.pytest(*words).assert_outcomes(passed=1, deselected=1)
    assert {plan.case for plan in target.plans} == {IDLE}


def test_the_placebos_of_every_board_are_told_before_the_first_is_measured(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placebo_notice, "version", lambda _: "QEMU emulator version 7.2.22 (Debian)")
    said: list[Any] = []
    monkeypatch.setattr(placebo_notice, "say", said.append)
    site = suite.pytester.mkdir("site")
    (site / "profiles.yaml").write_text(BESIDE)
    suite.patch.setenv("RTGATE_SITE", str(site))
    (suite.pytester.path / "k").mkdir()
    (suite.pytester.path / "k" / "Image").write_bytes(bytes(56) + b"ARMd" + bytes(4))
    target = FakeTarget()
    notices = placebo_notice.notices
    monkeypatch.setattr(placebo_notice, "notices", lambda *asked: [*notices(*asked), len(target.plans)])
    suite.fake(*(replace(arm(target, name), profile=profile("own").on("virt-arm64")) for name in ARMS))
    both = ("--arm", "baseline=k", "--arm", "candidate=k", "--profile", "own", "--no-judge")
    tell = ("--tell-placebos", "--tree linux", "--also-tell", "virt-x86_64")
    suite.pytest("--board", "virt-arm64", *both, *tell).assert_outcomes(passed=1, deselected=1)
    first, second, measured_before = said
    assert first.startswith(f"harmless changes of {LOADED} on virt-arm64: none with this command")
    assert second.startswith(f"harmless changes of {IDLE} on virt-x86_64: none with this command")
    assert (measured_before, len(target.plans)) == (0, 4)


def test_what_was_deselected_is_no_error(suite: Suite) -> None:
    _both(suite, FakeTarget)
    suite.pytest("--replay", "records", "-k", "idle").assert_outcomes(passed=1, deselected=1)
    assert suite.told() == {IDLE: ["PASS"]}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ((), "latency/cyclictest:memory"),
        (("-k", "idle"), "latency/cyclictest:memory"),
        (("--case", IDLE), "latency/cyclictest:memory"),
        (("--profile", "own"), LOADED),
    ],
)
def test_a_record_that_no_test_here_would_judge_is_no_verdict_without_it(
    suite: Suite, options: tuple[str, ...], name: str
) -> None:
    """A kernel that died in that case would pass."""
    site = suite.pytester.mkdir("site")
    own = BESIDE.replace("hackbench: {}", "idle: {}").partition("  boards:")[0]
    (site / "profiles.yaml").write_text(own)
    suite.patch.setenv("RTGATE_SITE", str(site))
    _store(suite, FakeTarget())
    load = name.partition(":")[2]
    _store(suite, FakeTarget({None: Outcome(state=State.FAULT, message="the kernel died")}), load)
    result = suite.pytest("--replay", "records", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = " ".join((result.stdout.str() + result.stderr.str()).split())
    assert f"no test here measures {name}, so nobody would judge" in said
    assert "or judge all with rtgate judge records" in said
    assert not (suite.records / "verdict.json").exists()


def test_one_tuning_of_stored_records_may_be_chosen(suite: Suite) -> None:
    board = "virt-arm64-smp2"
    for tuning in ("default", "isolated"):
        own = replace(arm(FakeTarget(), board=board), tuning=boards.board(board).tuning(tuning))
        case = Case(suite="latency", tool=Cyclictest(), load="idle", tuning=tuning)
        Run(arms=(own,), seeds=(1, 2), records=suite.records).measure(case, lambda _: None)
    assert suite.pytest("--replay", "records").ret == pytest.ExitCode.USAGE_ERROR
    suite.pytest("--replay", "records", "--tuning", "isolated", "-k", "idle").assert_outcomes(failed=1, deselected=1)
    assert [*suite.told()] == [f"{IDLE}+isolated"]


def test_a_failure_that_a_site_expects_is_not_told_a_second_time(suite: Suite) -> None:
    _store(suite, FakeTarget({None: Outcome(state=State.FAULT, message="the kernel died")}))
    expected = SUITE.replace("@cases", "@pytest.mark.xfail\n@cases", 1).replace("from", "import pytest\nfrom", 1)
    suite.tests.write_text(expected)
    result = suite.pytest("--replay", "records", "-k", "idle")
    result.assert_outcomes(xfailed=1, deselected=1)
    assert (result.ret, {*suite.told()[IDLE]}) == (pytest.ExitCode.OK, {"FAIL"})


def test_a_planned_case_that_no_test_here_would_miss_is_said(suite: Suite) -> None:
    _both(suite, FakeTarget)
    _store(suite, FakeTarget(), "memory", board="virt-x86_64")
    shutil.rmtree(next(suite.records.glob("virt-x86_64/candidate/*memory/001")))
    shutil.rmtree(next(suite.records.glob("virt-x86_64/candidate/*memory/002")))
    assert suite.pytest("--replay", "records").ret == pytest.ExitCode.USAGE_ERROR
    suite.pytest("--replay", "records", "--board", "virt-arm64").assert_outcomes(passed=2)


def test_a_test_that_crashes_is_an_error(suite: Suite) -> None:
    _both(suite, FakeTarget)
    broken = "@cases(Cyclictest(), 'stress-ng')\ndef test_broken(measure):\n    raise RuntimeError('oh')\n"
    suite.tests.write_text(SUITE + broken)
    suite.pytest("--replay", "records").assert_outcomes(passed=2, failed=1)
    (told,) = (one for one in suite.verdict()["verdicts"] if one["status"] == "ERROR")
    assert ("missing", "latency/cyclictest:stress-ng") == (told["kind"], told["case"])
    assert suite.verdict()["exit_code"] == 4


def test_a_test_that_never_measures_is_no_success(suite: Suite) -> None:
    _both(suite, FakeTarget)
    suite.tests.write_text(SUITE.replace("    measure()", "    pass"))
    result = suite.pytest("--replay", "records")
    result.assert_outcomes(passed=2)
    assert suite.told() == {IDLE: ["ERROR"], LOADED: ["ERROR"]}
    assert (result.ret, suite.verdict()["exit_code"]) == (pytest.ExitCode.TESTS_FAILED, 4)
    result.stdout.fnmatch_lines([f"ERROR {IDLE}: the test ended without a verdict: see its own output"])


def test_a_test_that_does_not_say_what_it_measures_is_told(suite: Suite) -> None:
    _both(suite, FakeTarget)
    suite.tests.write_text(SUITE + "\ndef test_vague(measure):\n    measure()\n")
    done = suite.pytest("--replay", "records")
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*says what with @cases(TOOL, LOAD, ...)*"])


def test_a_test_that_crashes_while_measuring_is_an_error_of_its_case(suite: Suite) -> None:
    suite.fake(arm(FakeTarget({1: RuntimeError("a defect")})))
    suite.measured("-k", "idle").assert_outcomes(failed=1, deselected=1)
    assert suite.told() == {IDLE: ["ERROR"]}


def test_a_machine_that_cannot_measure_one_case_is_a_miss_of_that_case(suite: Suite) -> None:
    def act(plan: Plan) -> Outcome:
        if plan.load.name == "idle":
            raise InfrastructureError("the disk is full")
        return measured_outcome()

    suite.fake(arm(FakeTarget({None: act})))
    result = suite.measured()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*MISS: the disk is full*"])
    assert suite.told() == {IDLE: ["MISS"], LOADED: ["PASS"]}


@pytest.mark.parametrize("error", [InfrastructureError("has 3 MiB left"), KeyboardInterrupt()], ids=["room", "ctrl-c"])
def test_boots_that_were_begun_end_when_the_rest_cannot_be(suite: Suite, error: BaseException) -> None:
    """Cases are begun all at once: what was begun before the error must not go on in the background."""
    rooms: list[Path] = []
    left: list[BootPool] = []

    def room(path: Path) -> None:
        rooms.append(path)
        if len(rooms) == 2:
            raise error

    class Watched(BootPool):
        def __init__(self, run: Run) -> None:
            super().__init__(run)
            left.append(self)

        def close(self) -> None:
            super().close()
            if self in left:
                left.remove(self)

    suite.patch.setattr("rtgate.files.require_free_space", room)
    suite.patch.setattr(run_module, "os", SimpleNamespace(sched_getaffinity=lambda _: range(2)))
    suite.patch.setattr("rtgate.cli.suite_runs.BootPool", Watched)
    suite.fake(arm(FakeTarget()))
    options = ("--board", "virt-arm64", "--kernel", "k", "--seeds", "1-2", "--thresholds", "limits.yaml")
    suite.pytester.runpytest_inprocess(
        *("-p", "rtgate.plugin", "-p", "no:cacheprovider", str(suite.tests), *options), no_reraise_ctrlc=True
    )
    assert len(rooms) >= 2
    assert left == []
    assert suite.told()[IDLE] != ["PASS"]


def test_no_judge_writes_no_verdicts_and_does_not_fail(suite: Suite) -> None:
    suite.fake(arm(FakeTarget({None: slow()})))
    (suite.pytester.path / "limits.yaml").write_text("not even YAML: [")
    suite.measured("--no-judge").assert_outcomes(passed=2)
    assert not (suite.records / "verdict.json").exists()
    assert len(list(suite.records.glob("*/*/*/*/record.json"))) == 4


def test_ctrl_c_leaves_whole_records_and_says_what_is_missing(suite: Suite) -> None:
    suite.fake(arm(FakeTarget({2: KeyboardInterrupt()}), time="virtual"))
    result = suite.pytester.runpytest_inprocess(
        *("-p", "rtgate.plugin", "-p", "no:cacheprovider", "--thresholds", "limits.yaml", str(suite.tests)),
        *("--board", "virt-arm64", "--kernel", "k", "--seeds", "1-2"),
        no_reraise_ctrlc=True,
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not list(suite.records.rglob(".writing*"))
    assert all(json.loads(path.read_text())["seed"] == 1 for path in suite.records.rglob("record.json"))
    assert (suite.verdict()["exit_code"], suite.verdict()["whole"]) == (4, False)
    assert {status for found in suite.told().values() for status in found} == {"ERROR"}


# Python cannot close the directory that pathlib lists at the moment a signal comes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_comes_again_and_again_ends_it_once(suite: Suite) -> None:
    """The kernel sends one for each thread of a parent that was killed: none may interrupt the orderly end."""

    def killed(_: Plan) -> Outcome:
        for _again in range(4):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(0.1)
        return measured_outcome()

    def later(_: Plan) -> Outcome:
        time.sleep(0.05)
        return measured_outcome()

    target = FakeTarget({2: killed, None: later})
    suite.fake(arm(target, time="virtual"))
    result = suite.pytester.runpytest_inprocess(
        *("-p", "rtgate.plugin", "-p", "no:cacheprovider", "--thresholds", "limits.yaml", str(suite.tests)),
        *("--board", "virt-arm64", "--kernel", "k", "--seeds", "1-100"),
        no_reraise_ctrlc=True,
    )
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(timeout=20)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len(target.plans) < 30


def test_a_boot_that_was_stopped_ends_the_run_though_the_signal_got_lost(suite: Suite) -> None:
    """An exception that a signal raises in a destructor is printed, and forgotten."""

    def stopped(_: Plan) -> Outcome:
        raise Interrupted("stopped")

    suite.fake(arm(FakeTarget({2: stopped}), time="virtual"))
    result = suite.pytester.runpytest_inprocess(
        *("-p", "rtgate.plugin", "-p", "no:cacheprovider", "--thresholds", "limits.yaml", str(suite.tests)),
        *("--board", "virt-arm64", "--kernel", "k", "--seeds", "1-4"),
        no_reraise_ctrlc=True,
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_measuring_on_host_time_counts_boots(suite: Suite) -> None:
    target = FakeTarget()
    suite.fake(arm(target, time="host"))
    options = ("--board", "virt-arm64", "--console", "host", "--boots", "3", "-k", "idle")
    suite.pytest(*options).assert_outcomes(passed=1, deselected=1)
    assert [plan.seed for plan in target.plans] == [1, 2, 3]
    assert suite.told() == {IDLE: ["DONE"]}


WARNED = b"[    1.000000] Linux version 6.12\n[   50.000000] WARNING: CPU: 0 PID: 12 at kernel/x.c:3 foo+0x1/0x2\n"


def one_boot(plan: Plan) -> Outcome:
    """Measure two cases of one boot, which warns during the first one."""
    began = b"40.00 1.00\n" if plan.case == IDLE else b"90.00 1.00\n"
    return measured_outcome(dmesg=WARNED, uptime_start=began, uptime_end=b"%d.15 1.00\n" % (int(began[:2]) + 8))


def test_a_fault_fails_the_case_in_which_it_happened_and_no_later_one_of_its_boot(suite: Suite) -> None:
    made = replace(arm(FakeTarget({None: one_boot}), time="real"), attached=True)
    suite.fake(made)
    options = ("--board", "virt-arm64", "--console", "host", "--boots", "1")
    suite.pytest(*options).assert_outcomes(passed=1, failed=1)
    measured_now = suite.told()
    assert measured_now == {IDLE: ["FAIL", "DONE"], LOADED: ["DONE"]}  # limits of virtual time are not for it
    suite.pytest("--replay", "records").assert_outcomes(passed=1, failed=1)
    assert suite.told() == measured_now
    # Nobody judges the other case here: what it saw is told by this one.
    suite.pytest("--replay", "records", "-k", "hackbench").assert_outcomes(failed=1, deselected=1)
    assert suite.told() == {LOADED: ["FAIL", "DONE"]}
    assert "said 40.0 s before the measurement began" in suite.verdict()["verdicts"][0]["sentence"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "suites need a board: --board NAME --kernel DIR, or stored records: --replay DIR"),
        (("--replay", "nowhere"), "--replay nowhere: no such directory"),
        (("--board", "virt-mips"), "unknown name 'virt-mips' in boards (allowed: "),
        (("--board", "virt-arm64"), "a virtual board needs a kernel: --kernel DIR"),
        (("--board", "virt-arm64", "--arm", "third=k"), "--arm third=k: expected baseline=DIR or candidate=DIR"),
        (("--board", "virt-arm64", "--arm", "candidate"), "--arm candidate: expected baseline=DIR or candidate=DIR"),
        (("--board", "virt-arm64", "--kernel", "k", "--arm", "candidate=l"), "each once"),
        (
            ("--board", "virt-arm64", "--kernel", "k", "--flavour", "fast"),
            "argument --flavour: invalid choice: 'fast'",
        ),
        (("--board", "virt-arm64", "--console", "telepathy"), "telepathy"),
        (("--replay", "records", "--thresholds", "none.yaml"), "none.yaml: no such file"),
    ],
)
def test_a_wrong_option_ends_it_before_anything_runs(suite: Suite, options: tuple[str, ...], message: str) -> None:
    _store(suite, FakeTarget())
    result = suite.pytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stdout.str() + result.stderr.str()
    assert not (suite.records / "verdict.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seeds", "9-1"), "'9-1' names no seeds"),
        (("--seeds", "0"), "names no seeds from 1 to 100000"),
        (("--profile", "daily"), "unknown profile 'daily' (allowed: "),
    ],
)
def test_wrong_lengths(suite: Suite, options: tuple[str, ...], message: str) -> None:
    suite.fake(arm(FakeTarget()))
    result = suite.pytest("--board", "virt-arm64", "--kernel", "k", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize(
    ("time", "options", "message"),
    [
        ("virtual", ("--boots", "2"), "--boots is for boards that do not run on virtual time: name seeds with --seeds"),
        ("host", ("--seeds", "1-2"), "--seeds is for virtual time: say how many boots with --boots"),
    ],
)
def test_boots_are_named_as_the_board_counts_them(
    suite: Suite, time: str, options: tuple[str, ...], message: str
) -> None:
    target = FakeTarget()
    suite.fake(arm(target, time=time))
    result = suite.pytest("--board", "virt-arm64", "--kernel", "k", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stdout.str() + result.stderr.str()
    assert target.plans == []


def test_a_profile_measures_only_its_tools(suite: Suite) -> None:
    suite.tests.write_text(
        SUITE.replace("@cases(", '@cases(Pmqtest(), "idle")\ndef test_pmqtest(measure):\n    measure()\n\n@cases(', 1)
        .replace("from rtgate.plugin", "from rtgate.tools.pairs import Pmqtest\nfrom rtgate.plugin")
    )  # fmt: skip
    target = FakeTarget()
    suite.fake(arm(target))
    suite.measured("--profile", "smoke").assert_outcomes(passed=2, deselected=1)
    assert {plan.case for plan in target.plans} == {IDLE, LOADED}
    assert suite.told() == {IDLE: ["PASS"], LOADED: ["PASS"]}


OWN = """
own:
  description: options of its own
  duration: 2 s
  seeds: 1
  boots: 1
  tools:
    cyclictest: {options: {mlock: false}}
  loads:
    stress: {cpu: 1, timeout: 9s}
"""


def test_a_profile_s_options_and_loads_are_measured_and_not_judged(suite: Suite) -> None:
    suite.tests.write_text(SUITE.replace('"hackbench")', '"hackbench", named=("stress",))'))
    site = suite.pytester.mkdir("site")
    (site / "profiles.yaml").write_text(OWN)
    suite.patch.setenv("RTGATE_SITE", str(site))
    target = FakeTarget()
    suite.fake(replace(arm(target), profile=profile("own")))
    suite.measured("--profile", "own").assert_outcomes(passed=1, deselected=2)
    assert {plan.case for plan in target.plans} == {"latency/cyclictest:stress"}
    assert all("--mlockall" not in plan.argv for plan in target.plans)
    assert {plan.load.argv for plan in target.plans} == {("stress", "--quiet", "--cpu", "1", "--timeout", "9s")}
    assert suite.told() == {"latency/cyclictest:stress": ["DONE"]}


def test_a_load_that_nobody_has_is_said_before_anything_is_measured(suite: Suite) -> None:
    """It is a mistake of whoever wrote the suite, and not of the lab."""
    suite.tests.write_text(SUITE.replace('"hackbench")', '"hackbnech")'))
    target = FakeTarget()
    suite.fake(arm(target))
    result = suite.measured("--profile", "smoke")
    assert result.ret == 4
    result.stdout.fnmatch_lines_random(["*unknown load 'hackbnech' (allowed: *"])
    assert not suite.records.exists()


def test_a_load_that_no_profile_names_is_not_measured(suite: Suite) -> None:
    suite.tests.write_text(SUITE.replace('"hackbench")', '"hackbench", named=("stress",))'))
    target = FakeTarget()
    suite.fake(arm(target))
    suite.measured().assert_outcomes(passed=2, deselected=1)
    assert {plan.case for plan in target.plans} == {IDLE, LOADED}


@pytest.mark.parametrize("boots", ["0", "-1"])
def test_no_boot_is_no_measurement(suite: Suite, boots: str) -> None:
    suite.fake(arm(FakeTarget(), time="host"))
    result = suite.pytest("--board", "virt-arm64", "--kernel", "k", "--boots", boots)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--boots {boots}: expected at least 1" in result.stdout.str() + result.stderr.str()


def test_a_damaged_record_ends_the_replay(suite: Suite) -> None:
    _store(suite, FakeTarget())
    path = next(suite.records.rglob("record.json"))
    path.write_text("{")
    result = suite.pytest("--replay", "records")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "damaged record" in result.stdout.str() + result.stderr.str()


def test_collecting_needs_no_board(suite: Suite) -> None:
    result = suite.pytest("--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_cyclictest?idle?*"])


def test_other_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_x(): pass")
    pytester.runpytest_inprocess("-p", "rtgate.plugin", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert not list(pytester.path.rglob("verdict.json"))


def test_verdicts_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    verdicts.write_verdicts([], tmp_path / "new" / "verdict.json")
    assert [path.name for path in (tmp_path / "new").glob("*.json")] == ["verdict.json"]
    found = json.loads((tmp_path / "new" / "verdict.json").read_text())
    ended = {"exit_code": 130, "whole": False}  # not before somebody says so
    assert found == {"format": 1, "outcome": "MISS", "verdicts": [], "explained": [], **ended}


# pytester forgets what a session inside imported; matplotlib cannot be imported twice.
assert results_writer


def _allure(directory: Path) -> dict[str, bytes]:
    """Return the content of results by name; Allure's library gives each result file another name each time."""
    found = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        result = path.name.endswith("-result.json")
        found[f"{json.loads(data)['uuid']}-result.json" if result else path.name] = data
    return found


def test_alluredir_has_what_the_report_of_the_same_records_has(suite: Suite) -> None:
    for name in ("baseline", "candidate"):
        for load in ("idle", "hackbench"):
            _store(suite, FakeTarget({2: slow()} if (name, load) == ("candidate", "idle") else {}), load, name)
    suite.pytest("--replay", "records", "--alluredir", "by-pytest").assert_outcomes(passed=1, failed=1)
    assert main(["report", "records", "-o", "by-rtgate", "--no-html"]) == 0
    by_pytest = _allure(suite.pytester.path / "by-pytest")
    results = [json.loads(data) for name, data in by_pytest.items() if name.endswith("-result.json")]
    assert {one["name"]: one["status"] for one in results} == {IDLE: "failed", LOADED: "skipped"}
    assert {"categories.json", "environment.properties", "executor.json"} <= by_pytest.keys()
    assert any(name.endswith("-attachment.svg") for name in by_pytest)
    # Steps, plots, labels, environment and categories: to the byte.
    assert by_pytest == _allure(suite.pytester.path / "by-rtgate" / "allure-results")


@pytest.mark.long("Allure's plugin beside rtgate's; the report of a run is in make test")
def test_alluredir_keeps_what_other_tests_wrote(suite: Suite) -> None:
    _both(suite, FakeTarget)
    suite.tests.write_text(f"{SUITE}\n\ndef test_of_somebody_else():\n    print('said')\n")
    for _ in range(2):
        suite.pytest("--replay", "records", "--alluredir", "allure").assert_outcomes(passed=3)
    found = [json.loads(path.read_text()) for path in (suite.pytester.path / "allure").glob("*-result.json")]
    assert sorted(one["name"] for one in found) == [LOADED, IDLE, *["test_of_somebody_else"] * 2]


def test_without_alluredir_or_judging_no_results_are_written(suite: Suite) -> None:
    suite.fake(arm(FakeTarget()))
    suite.measured("--no-judge", "--alluredir", "allure").assert_outcomes(passed=2)
    # What the tests did, as pytest saw it: nothing was judged.
    found = [json.loads(path.read_text()) for path in (suite.pytester.path / "allure").glob("*-result.json")]
    assert len(found) == 2
    assert not any(
        label["value"] == "rtgate" for one in found for label in one["labels"] if label["name"] == "framework"
    )
