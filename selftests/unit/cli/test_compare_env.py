# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make

from rtgate.cli.main import main
from rtgate.record import Record, write


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Return the directories of two records, of which the second had another clock source and kernel."""

    def stored(record: Record, name: str) -> Path:
        write(record, {}, b"", tmp_path / name)
        return tmp_path / name

    first = make(Boot(samples=5))
    environment = replace(first.environment, clocksource="jiffies", kernel_release="6.99.0")
    return stored(first, "a"), stored(replace(first, environment=environment), "b")


def test_equal_environments_are_said_to_be_equal(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["compare-env", str(pair[0]), str(pair[0])])
    assert "the environments are equal in all" in capsys.readouterr().out


def test_differences_say_whether_they_forbid_a_comparison(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == main(["compare-env", "--json", *map(str, pair)])
    found = json.loads(capsys.readouterr().out)
    assert {"clocksource", "kernel_release"} == set(found)
    assert ("jiffies", True) == (found["clocksource"]["b"], found["clocksource"]["forbids"])
    assert ("6.99.0", False) == (found["kernel_release"]["b"], found["kernel_release"]["forbids"])


def test_people_get_a_table(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["compare-env", *map(str, pair)])
    shown = capsys.readouterr().out
    assert "forbids" in shown
    assert "jiffies" in shown
    assert "soc" not in shown


def test_a_directory_without_records_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["compare-env", str(tmp_path), str(tmp_path)])
    assert "holds no record of a boot that measured" in capsys.readouterr().err
