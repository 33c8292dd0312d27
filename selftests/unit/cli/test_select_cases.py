# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.lava.job.test_request import ORDER

from rtgate.board import boards
from rtgate.cli import select_cases
from rtgate.errors import ConfigError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job.request import in_turns
from rtgate.measure.case import Case
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow import job_planner, suites
from rtgate.workflow.case_selection import Wish
from rtgate.workflow.case_selection import select_cases as select_cases_of
from rtgate.workflow.verdicts import write_verdicts

IDLE = "latency/cyclictest:idle"
LISTED = (Case(suite="latency", tool=Cyclictest(), load="idle"),)


def report(directory: Path, status: Status, kind: Kind, flavour: str = "preempt_rt", case: str = IDLE) -> Path:
    one = Verdict(
        status=status, kind=kind, sentence="it is so", board="virt-arm64", arm="candidate", flavour=flavour, case=case
    )
    write_verdicts([one], directory / "verdict.json")
    return directory


def run(directory: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    select_cases.add_options(parser)
    return select_cases.run(parser.parse_args([str(directory), "--suite", "latency", *words]))


def test_the_cases_go_to_a_file_that_submit_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(tmp_path, Status.FAIL, Kind.REGRESSION)
    cases = tmp_path / "cases.json"
    assert run(tmp_path, "--board", "rk3568-evb1", "--budget", "22min", "-o", str(cases)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == [IDLE, "2.0", "min", "flagged:"]
    assert lines[-1].startswith("rk3568-evb1: 3 of ")
    names = [case.name for case in cases_file.read(cases)]
    assert len(names) == 3
    assert {IDLE, "latency/cyclictest:stress-ng"} <= set(names)


@pytest.mark.parametrize("count", [1, 3])
def test_what_fits_the_budget_is_a_job_that_fits_it(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """What is taken from the budget of a job is what was reckoned for its cases."""
    loads = ("idle", "hackbench", "stress-ng")[:count]
    cases = tuple(replace(LISTED[0], load=load) for load in loads)
    monkeypatch.setattr(suites, "cases", lambda *_, **__: cases)
    wish = Wish(board=boards.board("rk3568-evb1"), flavour="preempt_rt", profile="mr", budget=1000.0, pairs=3)
    selection = select_cases_of([], wish)
    assert selection.cases == cases
    boots = in_turns(tuple(ORDER.kernels), wish.pairs)
    order = replace(ORDER, board=wish.board.name, profile=wish.profile, cases=cases, boots=boots)
    assert selection.minutes == pytest.approx(job_planner._minutes(order))


def test_a_virtual_failure_queues_boards_or_blocks_as_the_project_wants(tmp_path: Path) -> None:
    report(tmp_path, Status.FAIL, Kind.REGRESSION)
    assert run(tmp_path, "--board", "rk3568-evb1", "--virtual-fail", "block") == 1
    report(tmp_path, Status.FAIL, Kind.HANG)
    assert run(tmp_path, "--board", "rk3568-evb1") == 1


def test_what_the_board_cannot_run_takes_nothing_of_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, Status.FAIL, Kind.REGRESSION)
    words = ("--board", "rk3568-evb1", "--suite", "latency,irq", "--profile", "nightly", "--budget", "99h")
    assert run(tmp_path, *words, "-o", str(tmp_path / "cases.json")) == 0
    out = capsys.readouterr().out
    assert "4 cases left out: rk3568-evb1 lists no PCI Express function named rtl8139" in out
    assert "xenomai-latency measures Cobalt, and the kernel's flavour is preempt_rt" in out
    names = {case.name for case in cases_file.read(tmp_path / "cases.json")}
    assert IDLE in names
    assert not {name for name in names if "xenomai" in name or name.startswith("irq/irq-hard")}


def test_after_a_gate_of_a_cobalt_kernel_cobalt_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(tmp_path, Status.FAIL, Kind.LIMIT, "xenomai", "latency/xenomai-latency:idle")
    words = ("--board", "rk3568-evb1", "--profile", "nightly", "--budget", "99h", "-o", str(tmp_path / "cases.json"))
    assert run(tmp_path, *words) == 0
    names = {case.name for case in cases_file.read(tmp_path / "cases.json")}
    assert "latency/xenomai-latency:idle" in names
    assert IDLE not in names
    lines = [line for line in capsys.readouterr().out.splitlines() if " left out: cyclictest " in line]
    reasons = [line.partition(" left out: ")[2] for line in lines]
    assert reasons == ["cyclictest measures Linux, not Cobalt: xenomai-latency and xenomai-cyclictest measure Cobalt"]


@pytest.mark.parametrize(
    ("flavour", "minimum"),
    [
        ("preempt_rt", {IDLE, "latency/cyclictest:stress-ng"}),
        ("xenomai", {"latency/xenomai-latency:idle", "latency/xenomai-latency:hackbench"}),
    ],
)
def test_each_flavour_has_a_usual_minimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flavour: str, minimum: set[str]
) -> None:
    report(tmp_path, Status.PASS, Kind.NO_WORSE, flavour)
    words = ("--board", "rk3568-evb1", "--profile", "mr", "--budget", "20 min", "-o", str(tmp_path / "cases.json"))
    assert run(tmp_path, *words) == 0
    names = {case.name for case in cases_file.read(tmp_path / "cases.json")}
    assert names == minimum  # what else there is has no room
    lines = [line for line in capsys.readouterr().out.splitlines() if "always measured" in line]
    assert {line.split()[0] for line in lines} == minimum


def test_what_should_be_measured_and_cannot_is_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, Status.FAIL, Kind.LIMIT, case="irq/irq-hard:idle")
    words = ("--board", "rk3568-evb1", "--suite", "latency,irq", "--profile", "nightly", "--budget", "99h")
    assert run(tmp_path, *words) == 5
    line = (
        "irq/irq-hard:idle (flagged) cannot be measured there: rk3568-evb1 lists no PCI Express function named rtl8139"
    )
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [(Status.FAIL, Kind.REGRESSION, "flagged"), (Status.DONE, Kind.INCONCLUSIVE, "open")],
)
def test_what_the_profile_does_not_measure_is_not_passed_over(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    status: Status,
    kind: Kind,
    reason: str,
) -> None:
    """As after a gate with the profile paths."""
    monkeypatch.setattr(suites, "cases", lambda *_, **__: LISTED)
    report(tmp_path, status, kind, case="latency/cyclictest:network")
    assert run(tmp_path, "--board", "rk3568-evb1", "--profile", "mr", "--budget", "99h") == 5
    line = f"latency/cyclictest:network ({reason}) cannot be measured there: the profile mr does not measure it: choose"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "kind", "case"),
    [
        (Status.PASS, Kind.NO_WORSE, "latency/cyclictest:network"),
        (Status.FAIL, Kind.REGRESSION, "signal/signaltest:idle"),  # of a suite that is not asked for
        (Status.FAIL, Kind.REGRESSION, f"{IDLE}+isolated"),  # measured, without the tuning
    ],
)
def test_nothing_is_missed_that_is_good_or_measured_or_not_asked_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    status: Status,
    kind: Kind,
    case: str,
) -> None:
    monkeypatch.setattr(suites, "cases", lambda *_, **__: LISTED)
    report(tmp_path, status, kind, case=case)
    assert run(tmp_path, "--board", "rk3568-evb1", "--profile", "mr", "--budget", "99h") == 0
    assert "does not measure it" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--board", "virt-arm64"], "virtual board"),
        (["--board", "rk3568-evb1", "--budget", "soon"], "not a duration"),
        (["--board", "rk3568-evb1", "--pairs", "0"], "at least 1"),
        (["--board", "rk3568-evb1", "--minimum", "latency/nothing:idle"], "no such case"),
        (
            ["--board", "rk3568-evb1", "--suite", "irq", "--profile", "irq", "--minimum", "irq/irq-hard:idle"],
            "irq/irq-hard:idle: rk3568-evb1 lists no PCI Express function",
        ),
    ],
)
def test_mistakes_are_told(tmp_path: Path, words: list[str], message: str) -> None:
    report(tmp_path, Status.PASS, Kind.NO_WORSE)
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, *words)
