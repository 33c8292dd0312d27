# SPDX-License-Identifier: MIT
"""Every output of a run says the same: the exit code, verdict.json, junit.xml, Allure's results, the summary."""

from __future__ import annotations

import errno
import itertools
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make, read_figure
from selftests.written_records import write

from rtgate.cli.main import main
from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.records.seal import write_sealed
from rtgate.report import html
from rtgate.workflow import conclusion
from rtgate.workflow import verdicts as run_verdicts
from rtgate.workflow.conclusion import Ending, conclude, finish
from rtgate.workflow.judging import JudgingRequest
from rtgate.workflow.verdict_file import read_verdicts
from rtgate.workflow.verdicts import write_ending, write_verdicts

_OUTCOMES = {0: {"PASS", "DONE", "SKIP"}, 1: {"FAIL"}, 3: {"MISS"}, 4: {"ERROR"}, 5: {"DONE", "SKIP"}}
NAMED = (
    (Status.FAIL, Kind.LIMIT),
    (Status.FAIL, Kind.REGRESSION),
    (Status.FAIL, Kind.BOOT),
    (Status.ERROR, Kind.VALIDITY),
    (Status.MISS, Kind.LAB),
    (Status.PASS, Kind.LIMIT),
    (Status.PASS, Kind.NO_WORSE),
    (Status.PASS, Kind.GUARANTEE),
    (Status.DONE, Kind.INCONCLUSIVE),
    (Status.DONE, Kind.NOT_COMPARED),
    (Status.DONE, Kind.NO_WORSE),
    (Status.PASS, Kind.SLOWER),
    (Status.DONE, Kind.UNJUDGED),
    (Status.SKIP, Kind.NOT_EXERCISED),
    (Status.SKIP, Kind.UNJUDGED),
    (Status.DONE, Kind.NOT_APPLIED),
    (Status.DONE, Kind.WAIVED),
)


@pytest.fixture(autouse=True)
def _no_allure_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(_: Path, output: Path, __: Path | None = None) -> Path:
        return output / "index.html"

    monkeypatch.setattr(html, "generate", page)


def _verdict(status: Status, kind: Kind, case: str = "latency/cyclictest:idle") -> Verdict:
    return Verdict(
        status=status,
        kind=kind,
        sentence=f"{kind.value} it is",
        board="virt-arm64",
        arm="candidate",
        flavour="preempt_rt",
        case=case,
        measurement="latency.max",
        value=read_figure("100.8 virtual us (12600 instructions)"),
        limit=read_figure("86.0 virtual us (10750 instructions)"),
    )


def _agree(output: Path, code: int, told: str) -> None:
    """Hold every output against the exit code."""
    found = json.loads((output / "verdict.json").read_text())
    assert found["exit_code"] == code
    assert found["outcome"] in _OUTCOMES[code]
    (suite,) = ET.parse(output / "junit.xml").getroot()
    bad = {name: int(suite.get(name) or 0) for name in ("failures", "errors", "skipped")}
    assert int(suite.get("tests") or 0) > 0
    assert (bad["failures"] > 0) == (code == 1), bad
    assert (bad["failures"] + bad["errors"] > 0) == (code in {1, 3, 4}), bad
    assert code != 5 or bad["skipped"] > 0
    states = {json.loads(path.read_text())["status"] for path in (output / "allure-results").glob("*-result.json")}
    assert ("failed" in states) == (code == 1)
    assert bool(states & {"failed", "broken"}) == (code in {1, 3, 4})
    assert code != 5 or "skipped" in states or "unknown" in states
    assert f"exit code {code})" in told
    line = next(one for one in told.splitlines() if f"exit code {code})" in one)
    assert line.split(":")[0] in _OUTCOMES[code]
    if "waived" not in {one["kind"] for one in found["verdicts"]}:  # which is DONE, and for people good news
        assert (line.split(":")[0] == "PASS") == (found["outcome"] == "PASS")
    assert code == 0 or not line.endswith(f"(1 PASS; exit code {code})")


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(NAMED, 2)))
@pytest.mark.parametrize("same_case", [True, False])
@pytest.mark.parametrize("allowed", [False, True])
def test_every_output_says_the_same(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    first: tuple[Status, Kind],
    second: tuple[Status, Kind],
    same_case: bool,
    allowed: bool,
) -> None:
    verdicts = [_verdict(*first), _verdict(*second, "latency/cyclictest:idle" if same_case else "latency/b:idle")]
    code = finish(tmp_path, verdicts, Ending(whole=True, allow_unjudged=allowed))
    assert code == exit_code(verdicts, allow_unjudged=allowed)
    _agree(tmp_path, code, capsys.readouterr().out)


@pytest.mark.parametrize(("others", "beside"), [((), ""), (((Status.PASS, Kind.LIMIT),), "the limits are kept; ")])
def test_limits_are_said_to_be_kept_where_some_were_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: tuple[tuple[Status, Kind], ...], beside: str
) -> None:
    verdicts = [_verdict(Status.DONE, Kind.NO_WORSE), *(_verdict(*one) for one in others)]
    assert finish(tmp_path, verdicts, Ending(whole=True)) == 5
    assert f"DONE: {beside}whether the kernel became worse is not proven (" in capsys.readouterr().out.replace(
        "\n", " "
    )


@pytest.mark.parametrize("kind", NAMED)
def test_a_soak_and_a_later_report_say_what_the_verdicts_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: tuple[Status, Kind]
) -> None:
    """A soak's records lie beside its verdicts, and it makes no page; a report is made of what was written."""
    verdicts = [_verdict(*kind)]
    code = finish(tmp_path, verdicts, Ending(whole=True, records=tmp_path, page=False))
    assert code == exit_code(verdicts)
    _agree(tmp_path, code, capsys.readouterr().out)
    again = tmp_path / "again"
    assert main(["report", str(tmp_path), "-o", str(again), "--no-html"]) == 0
    (again / "verdict.json").write_bytes((tmp_path / "verdict.json").read_bytes())
    _agree(again, code, capsys.readouterr().out)


def test_a_report_of_records_that_nobody_judged_is_green_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(make(Boot(case="latency/other:idle")), tmp_path / "records")
    write_ending(tmp_path / "verdict.json", [_verdict(Status.PASS, Kind.LIMIT)], code=0, whole=True)
    assert main(["report", str(tmp_path / "records"), "-o", str(tmp_path / "out"), "--no-html"]) == 0
    assert "exit code 3)" in capsys.readouterr().out
    (suite,) = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert suite.get("errors") == "1"
    note = tmp_path / "note.md"
    assert main(["report", str(tmp_path / "records"), "--export", f"markdown={note}"]) == 0
    assert note.read_text().startswith("**MISS: ")


@pytest.mark.parametrize(("code", "missing"), [(0, True), (130, True), (5, False)])
def test_what_was_no_good_news_needs_no_ending(tmp_path: Path, code: int, *, missing: bool) -> None:
    """Until 2026-11-29 pytest's verdict.json did not say that its run had ended."""
    path = tmp_path / "verdict.json"
    write_verdicts([_verdict(Status.DONE, Kind.UNJUDGED)], path)
    write_sealed(json.dumps({**json.loads(path.read_text()), "exit_code": code}), path)
    verdicts, stands = read_verdicts(path, tmp_path / "records")
    assert [one.status for one in verdicts] == [Status.DONE, *([Status.MISS] if missing else [])]
    assert stands == (3 if missing else code)


def test_a_report_of_a_run_that_was_stopped_after_it_was_judged_is_green_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by Ctrl-C while more boots are measured, or traced."""
    write(make(Boot()), tmp_path / "records")
    path = tmp_path / "verdict.json"
    write_verdicts([_verdict(Status.PASS, Kind.LIMIT)], path, records=tmp_path / "records")
    data = json.loads(path.read_text())
    assert (data["outcome"], data["exit_code"], data["whole"]) == ("DONE", 130, False)
    assert main(["report", str(tmp_path / "records"), "-o", str(tmp_path / "out"), "--no-html"]) == 0
    said = capsys.readouterr().out
    assert "exit code 3)" in said
    assert f"{path} does not say that its run has ended (it was stopped, " in said
    assert "run it again, or judge the records again: rtgate judge " in said
    (suite,) = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert suite.get("errors") == "1"


@pytest.mark.parametrize("kind", [(Status.PASS, Kind.LIMIT), (Status.FAIL, Kind.LIMIT), (Status.DONE, Kind.UNJUDGED)])
def test_what_was_not_measured_is_missing_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: tuple[Status, Kind]
) -> None:
    code = finish(tmp_path, [_verdict(*kind)], Ending(whole=False))
    assert code == (1 if kind[0] is Status.FAIL else 3)
    _agree(tmp_path, code, capsys.readouterr().out)


def test_no_verdict_is_missing_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = finish(tmp_path, [], Ending(whole=False))
    assert code == 3
    _agree(tmp_path, code, capsys.readouterr().out)


def test_a_page_that_cannot_be_made_is_told_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Path:
        raise InfrastructureError("the Allure command is missing")

    monkeypatch.setattr(html, "generate", away)
    code = finish(tmp_path, [_verdict(Status.PASS, Kind.LIMIT)], Ending(whole=True))
    assert code == 3
    assert json.loads((tmp_path / "verdict.json").read_text())["outcome"] == "MISS"
    assert "no report page" in (tmp_path / "junit.xml").read_text()
    assert "no report page: the Allure command is missing" in capsys.readouterr().err


@pytest.mark.parametrize("room", [0, 1], ids=["judging", "ending"])
def test_a_disk_that_is_full_is_the_lab_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """As that of a soak: no command but a gate and a review watches over its directory."""
    left = [room]

    def fill(text: str, path: Path) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        write_sealed(text, path)

    write(make(Boot()), tmp_path)
    monkeypatch.setattr(run_verdicts, "write_sealed", fill)
    with pytest.raises(InfrastructureError, match=r"verdict\.json cannot be written: No space left on device"):
        conclude(tmp_path, JudgingRequest(records=tmp_path), page=False)


def test_without_allure_the_verdict_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Path:
        raise html.NoAllureError("this is how to get it")

    monkeypatch.setattr(html, "generate", away)
    assert finish(tmp_path, [_verdict(Status.PASS, Kind.LIMIT)], Ending(whole=True)) == 0
    assert json.loads((tmp_path / "verdict.json").read_text())["outcome"] == "PASS"
    assert {"junit.xml", "allure-results"} <= {path.name for path in tmp_path.iterdir()}
    said = capsys.readouterr()
    remedy = f"this is how to get it. Then: rtgate report {tmp_path}/records -o {tmp_path}"
    assert f"rtgate: no report page: {remedy}\n" in said.err
    assert f"report: {tmp_path}/summary.html\n" in said.out
    assert "every limit was kept" in (tmp_path / "summary.html").read_text()


def test_records_that_the_history_did_not_take_are_told_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conclusion, "keep", lambda *_: "not stored in the history: it is away")
    code = finish(tmp_path, [_verdict(Status.PASS, Kind.LIMIT)], Ending(whole=True, history="sqlite:///h.db"))
    assert code == 3
    _agree(tmp_path, code, capsys.readouterr().out)
    assert "it is away" in (tmp_path / "junit.xml").read_text()


def test_figures_are_numbers_with_units(tmp_path: Path) -> None:
    finish(tmp_path, [_verdict(Status.FAIL, Kind.LIMIT)], Ending(whole=True))
    (found,) = json.loads((tmp_path / "verdict.json").read_text())["verdicts"]
    assert (found["value"]["number"], found["value"]["unit"]) == (100.8, "virtual us")
    assert (found["limit"]["number"], found["limit"]["unit"]) == (86.0, "virtual us")
    properties = ET.parse(tmp_path / "junit.xml").getroot().iter("property")
    named = {one.get("name"): one.get("value") for one in properties}
    assert named["limit: latency.max"] == "100.8 virtual us (12600 instructions)"
    assert named["board"] == "virt-arm64"
