# SPDX-License-Identifier: MIT
"""Kernels become good by the verdict of a gate, whose QEMU plays back a boot."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selftests.suites_in_process import use_this_process
from selftests.unit.cli.conftest import Lab, draw_nothing, make_lab
from selftests.unit.history.conftest import record
from selftests.written_records import write

from rtgate.cli import gate as gate_command
from rtgate.cli.main import main
from rtgate.history.database import History
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.report import html
from rtgate.workflow import pipeline
from rtgate.workflow.verdicts import write_ending, write_verdicts

LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}
"""
_GATE = ("gate", "--board", "virt-arm64", "--profile", "smoke", "-k", "idle", "--thresholds", "limits.yaml")


def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be jane, and in no pipeline."""
    for name in ("GITLAB_USER_LOGIN", "GITHUB_ACTOR", "CI_PIPELINE_URL", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "jane")


@pytest.fixture
def night(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with limits, a history and nobody's pipeline."""
    prepare(tmp_path, monkeypatch)
    return lab


def prepare(place: Path, patch: pytest.MonkeyPatch) -> None:
    nobody(patch)
    use_this_process(patch)
    patch.setenv("RTGATE_HISTORY", f"sqlite:///{place}/history.db")
    patch.setattr(html, "generate", lambda _, output, __=None: output / "index.html")
    (place / "limits.yaml").write_text(LIMITS)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gate a good kernel once; return where the report and the history lie."""
    made = tmp_path_factory.mktemp("gated")
    with pytest.MonkeyPatch.context() as patch:
        make_lab(made, patch)
        draw_nothing(patch)
        prepare(made, patch)
        assert gate() == 0
    return made


@pytest.fixture
def passed(night: Lab, gated: Path, tmp_path: Path) -> Lab:
    """Return a lab in which a good kernel was gated."""
    shutil.copytree(gated / "report", tmp_path / "report")
    shutil.copy2(gated / "history.db", tmp_path / "history.db")
    return night


def gate(*words: str) -> int:
    return main([*_GATE, "--kernel", "kernel", "--seeds", "1-2", *words])


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["baseline", "show", "--json", *words]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_kernel_that_passed_becomes_good_and_is_shown(passed: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "promote", "report"]) == 0
    said = capsys.readouterr().out
    assert " is good on virt-arm64: PASS of run report-" in said
    assert main(["baseline", "promote", "report"]) == 0
    assert " is good on virt-arm64 already\n" in capsys.readouterr().out
    (one,) = shown(capsys, "--board", "virt-arm64")
    assert (one["boots"], one["valid"], one["cases"]) == (2, 2, ["latency/cyclictest:idle"])
    assert (one["promotion"]["promoted_by"], one["promotion"]["verdict"]) == ("jane", "PASS")
    assert main(["baseline", "show"]) == 0
    assert "yes, since" in capsys.readouterr().out
    assert shown(capsys, "--board", "virt-x86_64") == []


def test_a_kernel_that_failed_is_refused_whatever_somebody_says(night: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    night.make("slow-2")
    assert gate() == 1
    capsys.readouterr()
    for words in (["report"], ["report", "--unjudged", "I like it"], ["report/records", "--unjudged", "I like it"]):
        assert main(["baseline", "promote", *words]) == 1
        assert "not promoted: report: the verdict is FAIL (exit code 1): " in capsys.readouterr().err
    assert shown(capsys) == []


def test_a_run_that_nothing_was_judged_in_needs_a_reason_which_is_shown(
    night: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "limits.yaml").write_text("{}\n")
    assert gate("--allow-unjudged") == 0  # a code that says nothing about the kernel
    capsys.readouterr()
    assert main(["baseline", "promote", "report"]) == 5
    assert "the verdict is DONE (exit code 5): " in (said := capsys.readouterr().err)
    assert "--unjudged REASON" in said
    assert main(["baseline", "promote", "report", "--unjudged", "the vendor's\n\x1b[1mrelease"]) == 0
    (one,) = shown(capsys)
    assert (one["promotion"]["verdict"], one["promotion"]["unjudged"]) == ("DONE", "the vendor's release")
    assert main(["baseline", "show"]) == 0
    assert "UNJUDGED (verdict DONE)" in " ".join(capsys.readouterr().out.split())


def test_files_that_changed_since_they_were_judged_are_refused(
    passed: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = tmp_path / "report" / "verdict.json"
    verdict.write_text(verdict.read_text().replace('"exit_code": 0', '"exit_code":  0'))
    assert main(["baseline", "promote", "report"]) == 4
    assert "report is not as it was judged (changed: verdict.json; 1 in all)" in capsys.readouterr().err
    assert shown(capsys) == []


def test_boots_that_are_not_in_the_history_teach_nothing(passed: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "promote", "report", "--history", "sqlite:///other.db"]) == 2
    assert "there is no history at other.db yet" in capsys.readouterr().err
    History.open("sqlite:///other.db", create=True).close()
    assert main(["baseline", "promote", "report", "--history", "sqlite:///other.db"]) == 2
    assert "has no boots of report: rtgate history add report/records" in capsys.readouterr().err
    assert main(["history", "add", "report/records", "--history", "sqlite:///other.db"]) == 0
    assert main(["baseline", "promote", "report", "--history", "sqlite:///other.db"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("promote", "nowhere"), "nowhere is neither a directory nor a run of the history"),
        (("promote", "."), "verdict.json: no such file: name the directory of a report"),
        (("revoke", "0123456789ab", "--reason", "slow"), "the history has no kernel '0123456789ab'"),
        (("revoke", "0123456789ab", "--reason", " "), "--reason: say why"),
    ],
)
def test_mistakes(
    night: Lab, tmp_path: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    History.open(f"sqlite:///{tmp_path}/history.db", create=True).close()
    assert main(["baseline", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_run_of_the_history_has_no_verdict(passed: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "add", "report/records", "--run", "again"]) == 0  # known already, so no run of its own
    capsys.readouterr()
    assert main(["history", "list", "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert main(["baseline", "promote", line["run"]]) == 2
    assert "is in its report, not in the history: name that directory" in capsys.readouterr().err
    assert main(["baseline", "promote", line["run"], "--unjudged", "seen in the field"]) == 0
    assert "UNJUDGED, run report-" in capsys.readouterr().out


def test_a_revoked_kernel_is_reported_by_every_gate_of_it(passed: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "promote", "report"]) == 0
    (one,) = shown(capsys)
    assert main(["baseline", "revoke", one["kernel"][:12], "--reason", "loses wake-ups"]) == 0
    assert "boots in the history that are not used any more: 2" in capsys.readouterr().out
    assert main(["baseline", "show"]) == 0
    assert "REVOKED" in capsys.readouterr().out
    assert gate("-o", "again") == 0
    told = capsys.readouterr().err
    assert f"the candidate's kernel is known to be bad: {one['kernel'][:12]} was revoked on " in told
    assert main(["baseline", "promote", "again"]) == 1
    assert "by jane: loses wake-ups" in capsys.readouterr().err


def test_no_worse_than_a_revoked_kernel_is_no_good_verdict(night: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    before = night.kernel.with_name("before")
    before.mkdir()
    (before / "Image").write_bytes((night.kernel / "Image").read_bytes() + b"before")
    assert main([*_GATE, "--kernel", "before", "--seeds", "1-2", "-o", "first"]) == 0
    assert main(["baseline", "promote", "first"]) == 0
    (one,) = shown(capsys)
    assert main(["baseline", "revoke", one["kernel"], "--reason", "slow"]) == 0
    assert gate("--baseline", "before", "-o", "second", "--allow-unjudged", "--no-explain") == 0
    path = Path("second")
    judged([verdict(Status.PASS, Kind.NO_WORSE)], path, path / "records")
    capsys.readouterr()
    assert main(["baseline", "promote", "second"]) == 1
    assert "compared with a kernel that is not good: " in capsys.readouterr().err
    assert main(["baseline", "promote", "second", "--unjudged", "it was slow for another reason"]) == 0
    (good,) = [one for one in shown(capsys) if one["promotion"] and not one["revocation"]]
    assert (good["promotion"]["verdict"], good["promotion"]["unjudged"]) == ("DONE", "it was slow for another reason")


@pytest.mark.parametrize(
    ("kind", "why"), [(Kind.INCONCLUSIVE, ""), (Kind.NOT_APPLIED, ""), (Kind.WAIVED, ": a failure is waived")]
)
def test_a_run_that_left_something_open_is_good_for_the_reason_alone(
    passed: Lab, kind: Kind, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("report")
    both = [verdict(Status.PASS, Kind.LIMIT), verdict(Status.DONE, kind)]
    judged(both, path, path / "records")
    assert main(["baseline", "promote", "report"]) == 5
    assert f"the verdict is DONE (exit code 5){why}: a sentence" in capsys.readouterr().err
    assert main(["baseline", "promote", "report", "--unjudged", "seen in the field"]) == 0
    (one,) = shown(capsys)
    assert (one["promotion"]["verdict"], one["promotion"]["unjudged"]) == ("DONE", "seen in the field")


def test_a_soak_has_its_verdict_among_its_records(night: Lab, tmp_path: Path) -> None:
    soak = tmp_path / "soak"
    write(record(1), soak)
    judged([verdict(Status.PASS, Kind.LIMIT, "bench")], soak, soak)
    assert main(["history", "add", "soak"]) == 0
    assert main(["baseline", "promote", "soak"]) == 0


def test_a_run_that_was_stored_in_part_promotes_no_baseline(
    night: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    for arm, image in (("baseline", "a" * 64), ("candidate", "b" * 64)):
        if arm == "candidate":
            assert main(["history", "add", "run/records"]) == 0
        for number in (1, 2):
            write(record(number, arm=arm, image=image), run / "records")
    judged([verdict(Status.PASS, Kind.LIMIT, "bench")], run, run / "records")
    capsys.readouterr()
    assert main(["baseline", "promote", "run"]) == 2
    assert " lacks 2 of 4 boots of run: rtgate history add run/records" in capsys.readouterr().err
    assert shown(capsys) == []
    assert main(["history", "add", "run/records"]) == 0
    assert main(["baseline", "promote", "run"]) == 0
    (one,) = shown(capsys)
    assert one["kernel"] == "b" * 64


@pytest.fixture
def two_boards(night: Lab, tmp_path: Path) -> Path:
    """Return a run of which only one of both boards has a limit."""
    run = tmp_path / "run"
    for board in ("bench", "rk3568-evb1"):
        write(replace(record(1), board=board), run / "records")
    verdicts = [verdict(Status.PASS, Kind.LIMIT, "bench"), verdict(Status.DONE, Kind.UNJUDGED, "rk3568-evb1")]
    judged(verdicts, run, run / "records")
    assert main(["history", "add", "run/records"]) == 0
    return run


def test_a_kernel_is_good_only_on_boards_where_something_was_judged(
    two_boards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["baseline", "promote", "run"]) == 0
    said = capsys.readouterr()
    assert " is good on bench: PASS of run " in said.out
    assert "not promoted on rk3568-evb1: the verdict is DONE (exit code 5): a sentence; if it is good for" in said.err
    assert [one["board"] for one in shown(capsys)] == ["bench"]


def test_a_reason_stands_where_nothing_was_judged_and_a_verdict_where_it_was(
    two_boards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", "promote", "run", "--unjudged", "in the field"]) == 0
    promotions = {one["board"]: one["promotion"] for one in shown(capsys)}
    assert {board: (one["verdict"], one["unjudged"]) for board, one in promotions.items()} == {
        "bench": ("PASS", ""),
        "rk3568-evb1": ("DONE", "in the field"),
    }


def test_verdicts_of_no_board_with_boots_make_no_kernel_good(
    two_boards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged([verdict(Status.PASS, Kind.LIMIT)], two_boards, two_boards / "records")
    capsys.readouterr()
    assert main(["baseline", "promote", "run"]) == 5
    message = "not promoted: run: bench: nothing was judged there; rk3568-evb1: nothing was judged there"
    assert message in capsys.readouterr().err
    assert shown(capsys) == []


def test_a_gate_that_was_stopped_makes_no_kernel_good(
    night: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was judged already, as it is while more boots may follow, and what was judged had passed."""

    def stop(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gate_command, "_end", stop)
        assert gate() == 130
    assert main(["history", "add", "report/records"]) == 0
    capsys.readouterr()
    assert main(["baseline", "promote", "report"]) == 3
    assert (
        "the verdict is MISS (exit code 3): report/verdict.json does not say that its run has ended (it was stopped, "
        in (capsys.readouterr().err)
    )
    assert main(["baseline", "promote", "report", "--unjudged", "seen in the field"]) == 0
    (one,) = shown(capsys)
    assert (one["promotion"]["verdict"], one["promotion"]["unjudged"]) == ("MISS", "seen in the field")


def judged(verdicts: list[Verdict], directory: Path, records: Path) -> None:
    """Write what a run was judged with that has ended."""
    path = directory / "verdict.json"
    write_verdicts(verdicts, path, records=records)
    write_ending(path, verdicts, code=exit_code(verdicts), whole=True)


def verdict(status: Status, kind: Kind, board: str = "virt-arm64") -> Verdict:
    return Verdict(
        status=status,
        kind=kind,
        sentence="a sentence",
        board=board,
        arm="candidate",
        flavour="preempt_rt",
        case="latency/cyclictest:idle",
    )


@pytest.mark.parametrize(
    ("variables", "who"),
    [
        ({}, "jane"),
        ({"GITLAB_USER_LOGIN": "joe", "CI_PIPELINE_URL": "https://x/pipelines/7"}, "joe (https://x/pipelines/7)"),
        ({"GITHUB_ACTOR": "joe", "GITHUB_RUN_ID": "9"}, "joe (9)"),
    ],
)
def test_who_promotes_is_the_user_or_whoever_started_the_pipeline(
    variables: dict[str, str], who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody(monkeypatch)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert pipeline.user() == who
