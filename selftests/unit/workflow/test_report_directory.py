# SPDX-License-Identifier: MIT
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.workflow.report_directory import page_url, replacing, require_report_directory

RECORD = "records/board/candidate/case/001/record.json"


def _write(directory: Path, *names: str, text: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def _read(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A directory with a report."""
    _write(tmp_path, RECORD, "verdict.json", "index.html", "measure.log", "history.jsonl", text="old")
    return tmp_path


OLD = dict.fromkeys((RECORD, "verdict.json", "index.html", "history.jsonl"), "old")


@pytest.mark.parametrize("new", [RECORD, "verdict.json", "lava/job-1.log"])
def test_what_was_measured_takes_the_place_of_an_older_report(output: Path, new: str) -> None:
    with replacing(output):
        assert _left(output) == {"history.jsonl": "old"}
        _write(output, new, text="new")
    assert _read(output) == {"history.jsonl": "old", new: "new"}


def _left(output: Path) -> dict[str, str]:
    return {name: text for name, text in _read(output).items() if not name.startswith(".")}


@pytest.mark.parametrize("error", [ConfigError, KeyboardInterrupt, OSError])
def test_an_older_report_comes_back_if_nothing_was_measured(output: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with replacing(output):
            _write(output, "measure.log", "records/board/candidate/case/planned.json", text="new")
            raise error("early")

    with pytest.raises(error, match="early"):
        fail()
    assert _read(output) == {**OLD, "measure.log": "new"}


def test_an_older_report_comes_back_after_a_kill(output: Path) -> None:
    (output / ".former").mkdir()
    for name in ("records", "verdict.json"):
        (output / name).rename(output / ".former" / name)
    (output / ".former" / ".whole").touch()
    _write(output, "records/board/candidate/case/planned.json", text="killed")
    with replacing(output):
        assert _left(output) == {"history.jsonl": "old"}
    assert _read(output) == {**OLD, "measure.log": "old"}


def test_what_was_put_aside_in_part_comes_back_beside_the_rest(output: Path) -> None:
    (output / ".former").mkdir()
    (output / "verdict.json").rename(output / ".former" / "verdict.json")
    with replacing(output):
        pass
    assert _read(output) == {**OLD, "measure.log": "old"}


def test_the_rest_of_a_report_that_was_replaced_is_removed_after_a_kill(output: Path) -> None:
    _write(output, ".former/verdict.json", text="older")
    (output / ".former" / ".whole").touch()
    with replacing(output):
        pass
    assert _read(output) == {**OLD, "measure.log": "old"}


def test_a_clean_up_that_is_killed_brings_no_older_report_back(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def kill(directory: Path, *, ignore_errors: bool = False) -> None:
        if (directory / ".whole").exists():
            (directory / ".whole").unlink()  # the first of its files
            raise KilledError

    def measure_and_die() -> None:
        with monkeypatch.context() as patch, replacing(output):
            _write(output, "verdict.json", RECORD, text="new")
            patch.setattr(shutil, "rmtree", kill)

    with pytest.raises(KilledError):
        measure_and_die()
    with replacing(output):
        pass
    assert (output / "verdict.json").read_text() == "new"
    assert not [path.name for path in output.iterdir() if path.name in {".former", ".gone"}]


def test_nothing_is_left_where_nothing_was(tmp_path: Path) -> None:
    with replacing(tmp_path / "report"):
        require_report_directory(tmp_path / "report")
    assert list((tmp_path / "report").iterdir()) == []


def test_a_directory_is_linked_by_the_page_that_it_has(tmp_path: Path) -> None:
    """Without Node there is no index.html, nor where the merge request conflicts."""
    assert page_url("https://example.org/r/", tmp_path) == "https://example.org/r/summary.html"
    (tmp_path / "index.html").touch()
    assert page_url("https://example.org/r/", tmp_path) == "https://example.org/r/index.html"
    assert page_url("https://example.org/r", tmp_path) == "https://example.org/r"
    assert page_url("", tmp_path) == ""
