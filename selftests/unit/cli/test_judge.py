# SPDX-License-Identifier: MIT
"""The stages one by one: what `rtgate measure` left is judged, as often as wanted, and reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selftests.fake_target import FakeTarget, arm, measured_outcome
from selftests.suites_in_process import use_this_process
from selftests.unit.measure.test_case import CASE

from rtgate.cli import main
from rtgate.measure.case_record import measure
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place
from rtgate.report import html

if TYPE_CHECKING:
    from selftests.unit.cli.conftest import Lab

LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}
"""
OURS = (
    "--board",
    "virt-arm64",
    "--kernel",
    "kernel",
    "--profile",
    "smoke",
    "--seeds",
    "1-2",
    "-k",
    "cyclictest and idle",
)
IDLE = "latency/cyclictest:idle"


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Allure, and suites in this process."""
    monkeypatch.setattr(html, "generate", lambda _results, output, _history=None: output / "index.html")
    use_this_process(monkeypatch)
    monkeypatch.delenv("RTGATE_HISTORY", raising=False)
    (tmp_path / "limits.yaml").write_text(LIMITS)


def _measure(lab: Lab, *made: str) -> None:
    lab.make(*made)
    assert main.main(["measure", *OURS, "-o", "night"]) == 0


def _judge(*words: str) -> int:
    return main.main(["judge", "night/records", "--thresholds", "limits.yaml", *words])


def _verdicts(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["verdicts"]
    return found


def test_measuring_judges_nothing_and_succeeds_whatever_the_kernel_does(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _measure(lab, "slow-1", "die-2")
    records = sorted(path.parent.name for path in (tmp_path / "night").rglob("record.json"))
    assert records == ["001", "002"]
    assert sorted(path.name for path in (tmp_path / "night").iterdir()) == [".lock", "measure.log", "records"]
    told = capfd.readouterr()
    assert told.out == ""
    assert f"next: rtgate judge {tmp_path}/night/records\n" in told.err


def test_a_gate_comes_to_the_verdicts_of_its_stages(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _measure(lab, "slow-2")
    assert _judge() == 1
    assert "exit code 1)" in capfd.readouterr().out
    assert main.main(["gate", *OURS, "--thresholds", "limits.yaml"]) == 1
    mine, gate = tmp_path / "night" / "records" / "verdict.json", tmp_path / "report" / "verdict.json"
    assert _verdicts(mine) == _verdicts(gate)
    assert [(one["status"], one["boot"]) for one in _verdicts(mine)] == [("FAIL", "seed 2")]
    assert main.main(["report", "night/records", "-o", "page"]) == 0
    assert (tmp_path / "page" / "junit.xml").exists()


@pytest.mark.parametrize(
    ("limit", "code"),
    [pytest.param("90", 0, marks=pytest.mark.long("the limit that every gate here keeps")), ("40", 1)],
)
def test_other_limits_are_tried_without_a_board(lab: Lab, tmp_path: Path, limit: str, code: int) -> None:
    _measure(lab)
    (tmp_path / "limits.yaml").write_text(LIMITS.replace("90", limit))
    before = {path: path.read_bytes() for path in (tmp_path / "night").rglob("*") if path.is_file()}
    assert _judge("--verdict", "out/tried.json") == code
    assert json.loads((tmp_path / "out" / "tried.json").read_text())["exit_code"] == code
    assert {path: path.read_bytes() for path in (tmp_path / "night").rglob("*") if path.is_file()} == before


@pytest.mark.long("measures with a fake QEMU, as others here do in make test")
def test_what_no_limit_is_about_is_allowed_only_where_somebody_says_so(lab: Lab, tmp_path: Path) -> None:
    _measure(lab)
    (tmp_path / "limits.yaml").write_text(LIMITS.replace("preempt_rt", "generic"))
    assert _judge() == 5
    assert _judge("--allow-unjudged") == 0


@pytest.mark.long("measures with a fake QEMU, as others here do in make test")
def test_a_case_that_was_planned_and_left_nothing_is_missed(lab: Lab, tmp_path: Path) -> None:
    _measure(lab)
    for path in (tmp_path / "night").rglob("00[12]"):
        shutil.rmtree(path)
    assert _judge() == 3
    (miss,) = _verdicts(tmp_path / "night" / "records" / "verdict.json")
    assert (miss["board"], miss["case"], miss["status"]) == ("virt-arm64", IDLE, "MISS")


@pytest.mark.long("measures with a fake QEMU, as others here do in make test")
def test_a_profile_names_cases_that_nobody_planned(lab: Lab, tmp_path: Path) -> None:
    _measure(lab)
    assert _judge("--profile", "smoke") == 3
    found = {one["case"]: one["status"] for one in _verdicts(tmp_path / "night" / "records" / "verdict.json")}
    assert found.pop(IDLE) == "PASS"
    assert "latency/cyclictest:hackbench" in found
    assert set(found.values()) == {"MISS"}
    assert _judge("--profile", "smoke", "--case", IDLE) == 0


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of one boot of one case, with a verdict of it."""
    monkeypatch.chdir(tmp_path)
    record, outcome = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    records_file.write(record, outcome.files, outcome.console, tmp_path / "records")
    (tmp_path / "records" / "verdict.json").write_text("of the gate")
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--case", "latency/cyclictest:idel"), f"case latency/cyclictest:idel: {{}} (there are: {CASE.name})"),
        (("--case", CASE.name, "--case", IDLE), f"case {IDLE}: {{}} (there are: {CASE.name})"),
        (
            ("--board", "virt-x86_64", "--case", CASE.name),
            f"case {CASE.name}: {{}} on virt-x86_64 (there are: none)",
        ),
    ],
)
def test_a_case_that_nobody_measured_or_planned_is_a_mistake(
    records: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["judge", "records", *words]) == 2
    assert message.format("neither measured nor planned in records") in capsys.readouterr().err
    assert (records / "verdict.json").read_text() == "of the gate"


def test_a_tuning_without_a_profile_is_a_mistake(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["judge", str(records), "--tuning", "nonsense"]) == 2
    assert "--tuning chooses the cases of a profile: add --profile" in capsys.readouterr().err


def test_a_board_that_nobody_measured_is_a_mistake(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["judge", "records", "--board", "virt-x86_64"]) == 2
    message = "records: nothing was measured or planned on virt-x86_64 (boards there: virt-arm64)"
    assert message in capsys.readouterr().err
    assert (records / "verdict.json").read_text() == "of the gate"


def test_a_named_case_that_was_only_planned_is_missed(records: Path) -> None:
    planned.plan(Place(records=records, board="virt-arm64", arm="candidate", case=IDLE), [1, 2], virtual=True)
    assert main.main(["judge", "records", "--case", IDLE]) == 3
    (miss,) = _verdicts(records / "verdict.json")
    assert (miss["board"], miss["case"], miss["status"]) == ("virt-arm64", IDLE, "MISS")


@pytest.mark.long("measures with a fake QEMU; test_raw_output has changed files in make test")
def test_records_of_raw_output_that_changed_are_no_pass(lab: Lab, tmp_path: Path) -> None:
    _measure(lab)
    (raw, *_) = (tmp_path / "night").rglob("raw/cyclictest.json")
    raw.write_bytes(raw.read_bytes() + b" ")
    assert _judge() == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("judge", "nowhere"),
            "nowhere: no such directory of records: name what `rtgate measure` or `gate` has written",
        ),
        (("judge", ".", "--thresholds", "none.yaml"), "none.yaml"),
        (("measure", "--board", "virt-arm64"), "a virtual board needs a kernel"),
        (("measure", "--board", "virt-arm64", "--kernel", "kernel", "--profile", "x"), "unknown profile 'x'"),
        (("measure", "--board", "virt-arm64", "--kernel", "kernel", "-k", "nothing"), "the suites did not run"),
    ],
)
def test_mistakes_are_the_user_s(
    lab: Lab, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(list(words)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long("measures with a fake QEMU, as others here do in make test")
def test_a_verdict_that_cannot_be_written_is_the_machine_s_fault(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _measure(lab)
    (tmp_path / "out").write_text("a file")
    assert _judge("--verdict", "out/verdict.json") == 3
    assert "out/verdict.json cannot be written" in capsys.readouterr().err
