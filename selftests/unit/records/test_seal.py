# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.records import seal
from rtgate.records.seal import Difference, check

SAME = Difference(changed=(), missing=(), added=())


def _sealed(directory: Path, records: str = "records") -> Path:
    """Write a run of two files with its verdict, and return the directory of its records."""
    there = directory / records
    (there / "board" / "1").mkdir(parents=True)
    (there / "board" / "1" / "record.json").write_text("{}\n")
    (there / "board" / "1" / "console.log").write_text("said\n")
    text = json.dumps({"seal": seal.seal(directory, there)})
    seal.write_sealed(text, directory / "verdict.json")
    return there


def _forge(directory: Path, **changes: object) -> None:
    """Write another seal into verdict.json, with a digest that fits: who can write the one can write the other."""
    path = directory / "verdict.json"
    data = json.loads(path.read_text())
    seal.write_sealed(json.dumps({"seal": {**data["seal"], **changes}}), path)


def test_the_list_is_sha256sum_s(tmp_path: Path) -> None:
    _sealed(tmp_path)
    said, log = (hashlib.sha256(text).hexdigest() for text in (b"said\n", b"{}\n"))
    listed = f"{said}  records/board/1/console.log\n{log}  records/board/1/record.json\n"
    assert (tmp_path / "records.sha256").read_text() == listed
    verdict = (tmp_path / "verdict.json").read_bytes()
    assert (tmp_path / "verdict.sha256").read_text() == f"{hashlib.sha256(verdict).hexdigest()}  verdict.json\n"
    digest = hashlib.sha256(listed.encode()).hexdigest()
    assert json.loads(verdict)["seal"] == {"records": "records", "records.sha256": digest}
    assert check(tmp_path) == SAME


def test_each_kind_of_change_is_told_apart(tmp_path: Path) -> None:
    boot = _sealed(tmp_path) / "board" / "1"
    (boot / "record.json").write_text("{} \n")
    (boot / "console.log").rename(boot / "more.log")
    found = check(tmp_path)
    assert found == Difference(
        changed=("records/board/1/record.json",),
        missing=("records/board/1/console.log",),
        added=("records/board/1/more.log",),
    )
    assert found.lines == (
        "changed: records/board/1/record.json",
        "missing: records/board/1/console.log",
        "added: records/board/1/more.log",
    )


def test_records_behind_a_link_are_part_of_it(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "1").mkdir(parents=True)
    (disk / "1" / "record.json").write_text("{}")
    (tmp_path / "run" / "records").mkdir(parents=True)
    (tmp_path / "run" / "records" / "rk3568-evb1").symlink_to(disk)
    _sealed(tmp_path / "run")
    assert check(tmp_path / "run") == SAME
    (tmp_path / "run" / "records" / "latest").symlink_to(".")
    assert check(tmp_path / "run") == SAME
    (disk / "1" / "record.json").write_text("{} ")
    assert check(tmp_path / "run").changed == ("records/rk3568-evb1/1/record.json",)


def test_files_that_are_being_written_and_reports_are_no_records(tmp_path: Path) -> None:
    """A soak's verdict lies among its records."""
    records = _sealed(tmp_path, records=".")
    (records / "board" / "2.writing").write_text("half")
    (records / "junit.xml").write_text("<testsuites/>")
    (records / "summary.html").write_text("<html/>")
    (records / ".soak.lock").touch()
    (records / "allure-results").mkdir()
    (records / "allure-results" / "one.json").write_text("{}")
    assert check(tmp_path) == SAME
    assert "verdict" not in (tmp_path / "records.sha256").read_text()


def test_a_record_that_became_a_pipe_has_changed(tmp_path: Path) -> None:
    boot = _sealed(tmp_path) / "board" / "1"
    (boot / "record.json").unlink()
    (boot / "record.json").symlink_to("/dev/null")
    assert check(tmp_path).changed == ("records/board/1/record.json",)


def test_a_list_that_is_not_there_is_missing(tmp_path: Path) -> None:
    _sealed(tmp_path)
    (tmp_path / "records.sha256").unlink()
    assert check(tmp_path) == Difference(changed=(), missing=("records.sha256",), added=())


@pytest.mark.parametrize("name", ["verdict.json", "records.sha256", "records/board/1/record.json"])
def test_any_other_content_has_changed(tmp_path: Path, name: str) -> None:
    """Also where its digest is smaller, or larger, than what was sealed."""
    _sealed(tmp_path)
    for number in range(12):
        (tmp_path / name).write_text(f"{number}")
        assert check(tmp_path) == Difference(changed=(name,), missing=(), added=())


def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    _sealed(tmp_path)
    (tmp_path / "records.sha256").unlink()
    (tmp_path / "records.sha256").symlink_to("records.sha256")
    with pytest.raises(ConfigError, match=r"records\.sha256: cannot be read: Too many levels of symbolic links"):
        check(tmp_path)


@pytest.mark.parametrize("text", ["", "no digest\n", f"{'0' * 64}  other.json\n", f"{'0' * 63}  verdict.json\n"])
def test_a_digest_of_something_else_has_changed(tmp_path: Path, text: str) -> None:
    _sealed(tmp_path)
    (tmp_path / "verdict.sha256").write_text(text)
    assert check(tmp_path) == Difference(changed=("verdict.sha256",), missing=(), added=())


def test_a_digest_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    _sealed(tmp_path)
    (tmp_path / "verdict.sha256").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"verdict\.sha256: cannot be read: .*: judge the records again"):
        check(tmp_path)


def test_of_an_edited_verdict_nothing_else_counts(tmp_path: Path) -> None:
    records = _sealed(tmp_path)
    (tmp_path / "verdict.json").write_text("no JSON any more")
    (records / "board" / "1" / "record.json").unlink()
    assert check(tmp_path) == Difference(changed=("verdict.json",), missing=(), added=())


@pytest.mark.parametrize("records", ["/etc", "../elsewhere", "records/../.."])
def test_a_seal_does_not_lead_out_of_its_directory(tmp_path: Path, records: str) -> None:
    _sealed(tmp_path)
    _forge(tmp_path, records=records)
    with pytest.raises(ConfigError, match=r"field `seal\.records` leaves the directory"):
        check(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", '{"seal": null}', '{"seal": {"records": "records"}}'])
def test_a_verdict_without_a_seal_is_an_error(tmp_path: Path, text: str) -> None:
    _sealed(tmp_path)
    seal.write_sealed(text, tmp_path / "verdict.json")
    with pytest.raises(ConfigError, match="it is damaged or was never sealed"):
        check(tmp_path)


def test_no_run_is_an_error_that_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file: name the directory of a report"):
        check(tmp_path)
