# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make
from selftests.unit.report.test_flavours import of_flavour
from selftests.written_records import write

from rtgate.cli.main import main


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Return the records of an ordinary kernel and of PREEMPT_RT."""
    made = []
    for flavour, high in (("generic", 190.0), ("preempt_rt", 40.0)):
        for seed in (1, 2):
            write(of_flavour(make(Boot(seed=seed, high_us=high)), flavour), tmp_path / flavour)
        made.append(str(tmp_path / flavour))
    return made


def test_people_get_tables_and_a_page(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["compare-flavours", *runs, "-o", str(tmp_path / "page.html")])
    shown = capsys.readouterr().out.splitlines()
    assert "latency, idle, in virtual us" == shown[0]
    assert ["preempt_rt", "generic"] == [line.split()[0] for line in shown[2:4]]
    assert "preempt_rt" in (tmp_path / "page.html").read_text()


def test_scripts_get_json_and_no_page(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert 0 == main(["compare-flavours", *runs, "--json"])
    found = json.loads(capsys.readouterr().out)["latency, idle"]
    assert [("preempt_rt", 4000, 40.0), ("generic", 4000, 190.0)] == [
        (one["flavour"], one["samples"], one["max"]) for one in found
    ]
    assert not (tmp_path / "flavours.html").exists()


def test_an_invalid_measurement_leaves_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = make(Boot())
    threads = tuple(replace(one, policy=0, priority=0) for one in record.evidence.threads)
    write(replace(record, evidence=replace(record.evidence, threads=threads)), tmp_path / "records")
    assert 3 == main(["compare-flavours", str(tmp_path / "records"), "-o", str(tmp_path / "page.html")])
    assert "preempt_rt: no figures, as " in capsys.readouterr().out


def test_a_changed_record_leaves_no_figure(runs: list[str], tmp_path: Path) -> None:
    for path in (tmp_path / "generic").rglob("record.json"):
        path.write_text(path.read_text().replace('"190', '"19').replace(": 190", ": 19"))
    assert 0 == main(["compare-flavours", *runs, "-o", str(tmp_path / "page.html")])
    assert "generic: no figures, as " in (tmp_path / "page.html").read_text()


def test_a_run_that_measured_nothing_is_not_passed_over(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(make(Boot(state="hang", message="it hung")), tmp_path / "dead")
    assert 2 == main(["compare-flavours", *runs, str(tmp_path / "dead"), "-o", str(tmp_path / "page.html")])
    assert "dead: no case has a histogram of latencies" in capsys.readouterr().err


def test_a_lost_flavour_has_no_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = make(Boot())
    lost = replace(record, environment=replace(record.environment, flavour="generic"))
    write(lost, tmp_path / "records")
    assert 3 == main(["compare-flavours", str(tmp_path / "records"), "-o", str(tmp_path / "page.html")])
    assert "preempt_rt: no figures, as flavour lost" in capsys.readouterr().out


def test_what_is_no_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["compare-flavours", str(tmp_path / "none")])
    assert "no such directory of records" in capsys.readouterr().err
