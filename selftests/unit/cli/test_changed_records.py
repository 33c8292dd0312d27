# SPDX-License-Identifier: MIT
"""Every command that reads records refuses those whose files were changed, as judging them does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm, measured_outcome
from selftests.unit.measure.test_case import CASE

from rtgate.cli.main import main
from rtgate.measure.case_record import measure
from rtgate.records import record as records_file
from rtgate.workflow import archive

CHANGED = "invalid measurement in seed 3 (record): raw/cyclictest.json was changed after record.json was made from it"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of one record that was measured, and then changed."""
    monkeypatch.setenv("RTGATE_HISTORY", f"sqlite:///{tmp_path}/history.db")
    record, outcome = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    place = records_file.write(record, outcome.files, outcome.console, tmp_path / "records")
    raw = place / "raw" / "cyclictest.json"
    raw.write_bytes(raw.read_bytes().replace(b'"max": ', b'"max": 1', 1))
    verdicts = {"format": 1, "outcome": "PASS", "exit_code": 0, "verdicts": []}
    (tmp_path / "records" / "verdict.json").write_text(json.dumps(verdicts))
    return tmp_path / "records"


def test_judging_them_is_an_error(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RTGATE_HISTORY")
    assert main(["judge", str(records), "--case", CASE.name, "--verdict", str(tmp_path / "verdict.json")]) == 4
    assert CHANGED in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [
        ("history", "add", "RECORDS"),
        ("qualify", "--board", "virt-arm64", "--records", "RECORDS"),
        ("plan", "--detect", "+20%", "--records", "RECORDS"),
        ("report", "RECORDS", "--no-html"),
    ],
)
def test_other_commands_refuse_them_in_the_same_words(
    words: tuple[str, ...], records: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(records.parent)
    assert main([str(records) if word == "RECORDS" else word for word in words]) == 4
    assert CHANGED in capsys.readouterr().err
    assert not (records.parent / "history.db").exists()


def test_a_run_that_was_changed_after_it_was_measured_is_not_kept(records: Path, tmp_path: Path) -> None:
    assert CHANGED in archive.keep(f"sqlite:///{tmp_path}/history.db", records)
