# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.cli import report
from rtgate.errors import ConfigError
from rtgate.judge.verdict import Verdict

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _run(*argv: object) -> int:
    parser = argparse.ArgumentParser()
    report.add_parser(parser.add_subparsers())
    args = parser.parse_args(["report", *map(str, argv)])
    return report.run(args)


def _judged(records: Path, verdicts: list[Verdict], **changes: object) -> Path:
    data = {"format": 1, "outcome": "PASS", "exit_code": 0, "verdicts": [one.as_json() for one in verdicts], **changes}
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


def test_records_that_were_not_judged(world: World, tmp_path: Path) -> None:
    world.stored(world.boot(), tmp_path)
    with pytest.raises(ConfigError, match="judge the records first: rtgate judge "):
        _run(tmp_path, "--no-html")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 1}', '{"format": 1, "exit_code": 0, "verdicts": [{"status": "X"}]}']
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
