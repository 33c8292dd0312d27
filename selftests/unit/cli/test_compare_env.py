# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make

from rtgate.cli.main import main
from rtgate.records.record import Record, write


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
    assert "is refused" in shown
    assert "jiffies" in shown
    assert "soc" not in shown
    assert "A: latency/cyclictest:idle on virt-arm64, seed 1, " in shown
    assert "may not be compared: clocksource must be equal." in shown


def _compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], a: dict[str, str], b: dict[str, str]) -> str:
    for name, changes in (("a", a), ("b", b)):
        write(make(Boot(samples=5, changes=changes)), {}, b"", tmp_path / name)
    assert 0 == main(["compare-env", str(tmp_path / "a"), str(tmp_path / "b")])
    return capsys.readouterr().out


def test_of_lists_only_what_differs_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned = {"command_line": "console=ttyS0 quiet isolcpus=1", "irq_affinity": "1 0-1, 4 0", "isolated": "1"}
    shown = _compared(tmp_path, capsys, tuned, {"command_line": "console=ttyS0 quiet", "irq_affinity": "1 0-1, 4 0-1"})
    rows = {
        row[1].strip(): [cell.strip() for cell in row[2:5]]
        for line in shown.splitlines()
        if len(row := line.split("│")) > 4
    }
    assert rows["command_line"] == ["... isolcpus=1", "... and nothing else", "is refused"]
    assert rows["irq_affinity"] == ["... 4 0", "... 4 0-1", "compares it"]
    assert rows["isolated"] == ["1", "nothing", "is refused"]


def test_lists_in_another_order_are_shown_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _compared(tmp_path, capsys, {"command_line": "a b"}, {"command_line": "b a"})
    assert "a b" in shown
    assert "b a" in shown


def test_what_is_compared_forbids_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "may be compared: they differ in what" in _compared(tmp_path, capsys, {}, {"kernel_release": "6.99.0"})


def test_records_of_the_same_case_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, cases in (("a", ("latency/cyclictest:idle", "latency/oslat:idle")), ("b", ("latency/oslat:idle",))):
        for case in cases:
            write(make(Boot(case=case, samples=5)), {}, b"", tmp_path / name)
    assert 0 == main(["compare-env", str(tmp_path / "a"), str(tmp_path / "b")])
    assert capsys.readouterr().out.count(": latency/oslat:idle on virt-arm64, seed 1, ") == 2


def test_what_is_not_of_the_environment_forbids_a_comparison_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = make(Boot(samples=5)), make(Boot(samples=5, seed=2))
    for name, record in (("a", first), ("b", replace(second, argv=("cyclictest", "-p80")))):
        write(record, {}, b"", tmp_path / name)
    assert 0 == main(["compare-env", str(tmp_path / "a"), str(tmp_path / "b")])
    said = capsys.readouterr().out
    assert "the environments are equal" in said
    assert "may not be compared: command of the tool: " in said
    assert "seeds: '1' against '2'" in said


def test_different_cases_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("idle", "hackbench"):
        write(make(Boot(case=f"latency/cyclictest:{name}", samples=5)), {}, b"", tmp_path / name)
    assert 2 == main(["compare-env", str(tmp_path / "idle"), str(tmp_path / "hackbench")])
    assert "have no case in common" in capsys.readouterr().err


def test_a_directory_without_records_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["compare-env", str(tmp_path), str(tmp_path)])
    assert "holds no record of a boot that measured" in capsys.readouterr().err


def test_what_a_configuration_decides_is_compared_if_there_are_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _compared(tmp_path, capsys, {"idle_states": "C1"}, {"idle_states": "", "config_sha256": "d" * 64})
    assert "Measurements of the two may be compared" in shown
