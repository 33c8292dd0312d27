# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kcidb_io.schema import V5_3

from rtgate.cli import report
from rtgate.errors import ChangedError, ConfigError, InfrastructureError
from rtgate.judge.verdict import Verdict
from rtgate.workflow.verdicts import write_ending, write_verdicts

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _run(*argv: object) -> int:
    parser = argparse.ArgumentParser()
    report.add_options(parser)
    return report.run(parser.parse_args([*map(str, argv)]))


def _judged(records: Path, verdicts: list[Verdict], **changes: object) -> Path:
    found = [one.as_json() for one in verdicts]
    data = {"format": 1, "outcome": "PASS", "exit_code": 0, "whole": True, "verdicts": found, **changes}
    path = records / "verdict.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_report_without_html(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path / "records", [world.over_limit()], exit_code=1)
    assert _run(tmp_path / "records", "-o", tmp_path / "out", "--no-html") == 0
    assert list((tmp_path / "out" / "allure-results").glob("*-result.json"))
    told = capsys.readouterr().out
    assert "FAIL latency/cyclictest:idle candidate virt-arm64: limit: " in told
    assert "exit code 1" in told


def test_a_report_without_html_has_no_page_of_an_older_verdict(world: World, tmp_path: Path) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path / "records", [world.over_limit()], exit_code=1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("PASS", encoding="utf-8")
    assert _run(tmp_path / "records", "-o", tmp_path / "out", "--no-html") == 0
    assert not (tmp_path / "out" / "index.html").exists()
    assert "FAIL" in (tmp_path / "out" / "summary.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [(), ("--export", "markdown=note.md")])
def test_verdicts_that_were_edited_are_shown_nowhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    world.stored(world.boot(), tmp_path / "records")
    write_verdicts([world.over_limit()], tmp_path / "verdict.json", records=tmp_path / "records")
    edited = (tmp_path / "verdict.json").read_text().replace('"FAIL"', '"PASS"')
    (tmp_path / "verdict.json").write_text(edited)
    with pytest.raises(ChangedError, match=r"verdict\.json was changed after it was written: judge the records again"):
        _run(tmp_path / "records", *words)
    assert not list(tmp_path.glob("report/*.html"))
    assert not (tmp_path / "note.md").exists()


def test_two_files_of_verdicts_beside_each_other_take_nothing_from_each_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of what was judged is of the one that was written last."""
    monkeypatch.chdir(tmp_path)
    for name, verdict in (("A", "a.json"), ("B", "b.json"), ("C", "C/strict.json")):
        world.stored(world.boot(), tmp_path / name)
        write_verdicts([world.within_limit()], tmp_path / verdict, records=tmp_path / name)
        write_ending(tmp_path / verdict, [world.within_limit()], code=0, whole=True)
    for name, verdict in (("A", "a.json"), ("B", "b.json"), ("C", "C/strict.json")):
        assert _run(name, "--verdict", verdict, "--no-html", "-o", f"{name}-report") == 0


@pytest.mark.parametrize("words", [(), ("--export", "markdown=note.md")])
def test_verdicts_of_other_records_are_shown_nowhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As a second `pytest --records S --no-judge` makes them: boots of another kernel in place of those judged."""
    monkeypatch.chdir(tmp_path)
    records = tmp_path / "S"
    world.stored(world.boot(), records)
    write_verdicts([world.within_limit()], records / "verdict.json", records=records)
    write_ending(records / "verdict.json", [world.within_limit()], code=0, whole=True)
    assert _run("S", "--no-html", "-o", "before") == 0
    world.stored(world.boot(release="6.99"), records)
    with pytest.raises(ChangedError, match=r"S is not as it was judged \(changed: .*; 1 in all\): judge the records"):
        _run("S", *words)
    assert not (tmp_path / "report").exists()
    assert not (tmp_path / "note.md").exists()


def test_verdicts_beside_records_are_of_those_that_they_name(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged, other = tmp_path / "records", tmp_path / "S"
    for directory in (judged, other):
        world.stored(world.boot(), directory)
    write_verdicts([world.within_limit()], tmp_path / "verdict.json", records=judged)
    with pytest.raises(ConfigError, match=r"S/verdict\.json: not there: judge the records first"):
        _run(other, "-o", tmp_path / "out", "--no-html")
    with pytest.raises(ConfigError, match=r"verdict\.json is about .*/records, and not about .*/S: judge the records"):
        _run(other, "-o", tmp_path / "out", "--no-html", "--verdict", tmp_path / "verdict.json")
    _judged(other, [world.over_limit()], exit_code=1)
    assert _run(other, "-o", tmp_path / "out", "--no-html") == 0
    assert "exit code 1" in capsys.readouterr().out


def test_a_gate_s_verdicts_are_shown_whatever_was_judged_since(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path, [world.over_limit()], exit_code=1)
    tried = _judged(tmp_path / "records", [world.within_limit()])
    assert _run(tmp_path / "records", "-o", tmp_path, "--no-html") == 0
    output = capsys.readouterr()
    assert "exit code 1" in output.out
    assert f"--verdict {tried} shows what was judged since" in output.err
    assert _run(tmp_path / "records", "-o", tmp_path / "tried", "--no-html", "--verdict", tried) == 0
    assert "exit code 0" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["records", "verdict.json", "notes.txt"])
def test_a_report_takes_no_place_of_another_one_s(world: World, tmp_path: Path, name: str) -> None:
    world.stored(world.boot(), tmp_path / "soak")
    _judged(tmp_path / "soak", [world.within_limit()])
    output = tmp_path / "report"
    output.mkdir()
    (output / name).touch()
    (output / "summary.html").write_text("FAIL", encoding="utf-8")
    with pytest.raises(ConfigError, match="name another directory"):
        _run(tmp_path / "soak", "-o", output, "--no-html")
    assert (output / "summary.html").read_text(encoding="utf-8") == "FAIL"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--serve", "--verdict", "v"), "name its RECORDS"),
        (("--serve", "--no-html"), "name its RECORDS"),
        (("records", "--trend", "t", "--no-html"), "leave out --no-html"),
        (("records", "--listen", "80"), "--listen is for --serve"),
    ],
)
def test_options_that_would_say_nothing(options: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        _run(*options)


def test_records_that_were_not_judged(world: World, tmp_path: Path) -> None:
    world.stored(world.boot(), tmp_path)
    with pytest.raises(ConfigError, match="judge the records first: rtgate judge "):
        _run(tmp_path, "--no-html")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"format": 1}',
        '{"format": 1, "exit_code": 0, "verdicts": [{"status": "X"}]}',
        '{"format": 1, "exit_code": 1e999, "verdicts": []}',
    ],
)
def test_damaged_verdicts(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdict.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged"):
        _run(tmp_path, "--no-html")


def test_verdicts_of_another_format(world: World, tmp_path: Path) -> None:
    named = _judged(tmp_path, [world.within_limit()], format=2)
    with pytest.raises(ConfigError, match="format 2"):
        _run(tmp_path, "--verdict", named, "--no-html")


def test_no_records(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        _run(tmp_path / "nothing")


def test_exports_are_written_instead_of_the_report(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path / "records", [world.over_limit()], exit_code=1)
    monkeypatch.chdir(tmp_path)
    formats = ("--export", "kcidb=run.json", "--export", "squad=run", "--export", "markdown=run.md")
    assert _run("records", *formats, "--origin", "mylab") == 0
    assert not Path("report").exists()
    V5_3.validate_exactly(json.loads(Path("run.json").read_text(encoding="utf-8")))
    assert json.loads(Path("run/virt-arm64/tests.json").read_text(encoding="utf-8"))
    assert {path.name for path in Path("run/virt-arm64").iterdir()} == {"tests.json", "metrics.json", "metadata.json"}
    assert Path("run.md").read_text(encoding="utf-8").startswith("**FAIL: the kernel breaks a limit**\n\ncandidate: `")
    assert "squad: run\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--export", "kcidb=run.json"), "--origin '' is not a name of a CI system"),
        (("--export", "kcidb=run.json", "--origin", "My Lab"), "use small letters, digits and _"),
        (("--export", "squad=records"), "records is not an empty directory"),
        (("--export", "markdown=run.md", "-o", "out"), "leave out -o"),
        (("--export", "markdown=run.md", "--origin", "mylab"), "--origin is KCIDB's"),
    ],
)
def test_exports_that_cannot_be(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path / "records", [world.over_limit()], exit_code=1)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=says):
        _run("records", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


@pytest.mark.parametrize("text", ["kcidb", "kcidb=", "csv=run.csv", "=run"])
def test_no_export(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("records", "--export", text)
    assert "(formats: kcidb, squad, markdown)" in capsys.readouterr().err


def test_an_export_that_cannot_be_written_is_the_machine_s(world: World, tmp_path: Path) -> None:
    world.stored(world.boot(), tmp_path / "records")
    _judged(tmp_path / "records", [world.over_limit()], exit_code=1)
    with pytest.raises(InfrastructureError, match="cannot be written"):
        _run(tmp_path / "records", "--export", f"markdown={tmp_path / 'away' / 'run.md'}")
