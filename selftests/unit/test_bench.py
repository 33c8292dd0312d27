# SPDX-License-Identifier: MIT
"""What the programs of `bench/` do when what they measure goes wrong."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import bench, comparisons, history, reviews, sections
from bench.kernel_repository import KernelRepository
from selftests.campaigns.sections import MEASURED, Change, How, changes

from rtgate.kernel.harmless import UNPATCHED
from rtgate.records.bound import MEASUREMENT as BOUND
from rtgate.records.longer_sections import CALL
from rtgate.records.longer_sections import MEASUREMENT as SECTION
from rtgate.workflow.harmless_boots import Boot


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pytest and rtgate end at once, with an exit code that nobody expects."""
    program = tmp_path / "rtgate"
    program.write_text("#!/bin/sh\nexit 4\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("broken")
def test_what_ends_at_once_is_no_good_time(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 4"):
        bench._every_suite(tmp_path)
    with pytest.raises(subprocess.CalledProcessError, match="exit status 4"):
        bench._gate([])


@pytest.mark.usefixtures("broken")
def test_a_review_that_ends_at_once_is_no_good_time(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with exit code 4"):
        reviews._review(KernelRepository(tmp_path), "change", tmp_path)


@pytest.fixture
def small_lab(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have one board with two cases, each with four boots a night."""
    monkeypatch.setattr(history, "BOARDS", 1)
    monkeypatch.setattr(history, "CASES", 2)
    return monkeypatch


def test_a_short_history_is_measured(small_lab: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small_lab.setattr(sys, "argv", ["history", "--records", "40", "--repeat", "1"])
    history.main()
    assert "(6 to 8 pairs of each)" in capsys.readouterr().out  # of ten; boots that are not valid have none


def test_nothing_is_measured_of_a_history_without_pairs(small_lab: pytest.MonkeyPatch) -> None:
    small_lab.setattr(sys, "argv", ["history", "--records", "2", "--repeat", "1"])
    with pytest.raises(SystemExit, match="so few records"):
        history.main()


@pytest.mark.parametrize(("words", "seeds"), [(["--seeds", "12"], 12), (["--seeds", "3"], 3), ([], 36)])
def test_no_other_boots_are_made_than_those_of_the_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], seeds: int
) -> None:
    boots: list[Boot] = []

    def measure(arguments: argparse.Namespace, *_: object) -> int:
        every = comparisons._jobs(arguments.build, [UNPATCHED], range(1, comparisons.LAST + 1))
        boots.extend(comparisons._requested_boots(arguments, every))
        return 0

    monkeypatch.setattr(comparisons, "_measure", measure)
    (tmp_path / "kernels" / UNPATCHED).mkdir(parents=True)
    assert comparisons.main(["measure", "--work", str(tmp_path), *words]) == 0
    assert {boot.seed for boot in boots} == set(range(1, seeds + 1))


TRACKED = json.loads(MEASURED.read_text())
FORK, TASK_SWITCH, TWO_CPUS = "planted/fork", "harmless/task-switch", "two-cpus/planted/wake-up"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Let measuring a change give what is stored of it, and note the change and its boots."""
    names: list[tuple[str, str]] = []

    def measure(_: sections.Kernels, change: Change, boots: str) -> dict[str, Any]:
        names.append((change.name, boots))
        document: dict[str, Any] = TRACKED[change.name]
        return document

    few = {name: change for name, change in changes().items() if name in {FORK, TASK_SWITCH, TWO_CPUS}}
    monkeypatch.setattr("selftests.campaigns.sections.changes", lambda: few)
    monkeypatch.setattr(sections.Kernels, "build", lambda *_: None)
    monkeypatch.setattr(sections, "MEASURES", dict.fromkeys(How, measure))
    return names


def test_every_change_is_measured_with_its_seeds_and_not_twice(tmp_path: Path, measured: list[tuple[str, str]]) -> None:
    words = ["measure", "--work", str(tmp_path)]
    before = MEASURED.read_text()
    assert sections.main([*words, FORK, TWO_CPUS]) == 0
    assert measured == [(FORK, "1-7"), (TWO_CPUS, "1-12")]
    assert sections.main(words) == 0
    assert measured[2:] == [(TASK_SWITCH, "1-7")]
    assert sections.main(words) == 0
    assert len(measured) == 3
    assert sections.main([*words, "--seeds", "1-3", FORK]) == 0
    assert measured[3:] == [(FORK, "1-3")]
    assert MEASURED.read_text() == before
    assert sections.main(["compare", "--work", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("words", "says"), [(["measure", "planted/none"], "no such change"), (["compare", FORK], "measure first")]
)
def test_what_sections_does_not_know_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    with pytest.raises(SystemExit):
        sections.main([*words, "--work", str(tmp_path)])
    assert says in capsys.readouterr().err


def test_answers_are_compared_with_the_tracked_ones_and_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracked, results = tmp_path / "tracked.json", tmp_path / "mine.json"
    monkeypatch.setattr(sections, "MEASURED", tracked)
    tracked.write_text(json.dumps({FORK: TRACKED[TASK_SWITCH], TASK_SWITCH: TRACKED[TASK_SWITCH]}))
    results.write_text(json.dumps({FORK: TRACKED[FORK], TASK_SWITCH: TRACKED[TASK_SWITCH]}))
    words = ["--results", str(results)]
    assert sections.main(["compare", *words]) == 1
    assert f"{FORK}: DONE, nothing longer -> DONE, copy_process, +10,051\n1 of 2" in capsys.readouterr().out
    assert sections.main(["compare", *words, TASK_SWITCH]) == 0
    assert sections.main(["keep", *words]) == 0
    assert json.loads(tracked.read_text()) == json.loads(results.read_text())
    assert sections.main(["compare", *words]) == 0


@pytest.mark.parametrize("measurement", [SECTION, CALL])
def test_the_verdict_of_a_gate_on_sections_is_kept_beside_that_on_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measurement: str
) -> None:
    def verdict(measurement: str, status: str) -> dict[str, str]:
        return {"measurement": measurement, "status": status, "sentence": f"{measurement} is {status}"}

    def write_report(*words: object) -> int:
        report = Path(str(words[-1]))
        boots = report / "records" / "virt-arm64" / "candidate" / "case"
        boots.mkdir(parents=True)
        (boots / "sections.json").write_text(json.dumps(TRACKED[FORK]["sections"]))
        verdicts = [verdict("latency.max", "PASS"), verdict(measurement, "FAIL"), verdict(BOUND, "ERROR")]
        (report / "verdict.json").write_text(json.dumps({"verdicts": verdicts}))
        return 1

    monkeypatch.setattr(sections, "rtgate", write_report)
    document = sections.gate(sections.Kernels(work=tmp_path, campaigns=tmp_path), changes()[FORK], "1-7")
    assert document["section_verdict"] == {"status": "FAIL", "sentence": f"{measurement} is FAIL"}
    assert document["samples"] == {"status": "PASS", "sentences": ["latency.max is PASS"]}
    assert sections.answer(document) == "PASS, copy_process, +10,051"


def test_a_gate_that_judges_nothing_leaves_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "rtgate", lambda *_: 3)
    kernels = sections.Kernels(work=tmp_path, campaigns=tmp_path)
    with pytest.raises(SystemExit, match="planted/fork: the gate ended with exit code 3"):
        sections.gate(kernels, changes()[FORK], "1-7")


def test_kernels_of_campaigns_are_built_by_another_program(tmp_path: Path) -> None:
    kernels = sections.Kernels(work=tmp_path, campaigns=tmp_path / "campaigns")
    change = changes()["placebos/one-word virt-arm64 latency/cyclictest:idle"]
    with pytest.raises(SystemExit, match=r"campaigns/kernels/unpatched is not built: run `python -m bench.comparisons"):
        kernels.build(change)
