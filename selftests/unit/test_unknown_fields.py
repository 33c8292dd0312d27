# SPDX-License-Identifier: MIT
"""A field that this rtgate does not know is an error in each of its files, with its place: it may mean anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selftests.unit.report.conftest import Boot, make, over_limit
from selftests.written_records import write

from rtgate.errors import ConfigError
from rtgate.measure.raw_output import verify
from rtgate.records import explained, planned
from rtgate.records import record as records_file
from rtgate.records.explained import CaseExplanation
from rtgate.records.record import Place
from rtgate.records.seal import write_sealed
from rtgate.workflow.verdict_file import read_verdicts
from rtgate.workflow.verdicts import write_verdicts

UNKNOWN = {"colour": "red"}
EXPLAINED = CaseExplanation(baseline_image="a", candidate_image="b", seed=1, executed={"f": 1}, resting=())


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda data: data.update(UNKNOWN), "$"),
        (lambda data: data.update(discrepancies=[]), "$"),
        (lambda data: data["kernel"].update(UNKNOWN), "$.kernel"),
        (lambda data: data["environment"].update(UNKNOWN), "$.environment"),
        (
            lambda data: data["evidence"]["expectation"]["threads"][0].update(UNKNOWN),
            "$.evidence.expectation.threads[0]",
        ),
        (lambda data: data["measurements"][1].update(UNKNOWN), "$.measurements[1]"),
        (lambda data: data["measurements"][0]["histogram"].update(UNKNOWN), "$.measurements[0].histogram"),
    ],
)
def test_in_a_record(change: Callable[[Any], object], place: str, tmp_path: Path) -> None:
    directory = write(make(Boot(samples=5)), tmp_path)
    _edit(directory / "record.json", change)
    with pytest.raises(ConfigError) as caught:
        records_file.read(directory)
    assert "is not known" in str(caught.value)
    assert f"at `{place}`" in str(caught.value)


@pytest.mark.parametrize("key", ["reading", "setting"])
def test_in_how_raw_output_was_read(key: str, tmp_path: Path) -> None:
    directory = write(make(Boot(samples=5)), tmp_path)
    _edit(directory / "record.json", lambda data: {**data, **data["reading"]}[key].update(UNKNOWN))
    (problem,) = verify(records_file.read(directory)).discrepancies
    assert "does not say how its raw output was read: field `colour` is not known" in problem


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda data: data.update(UNKNOWN), "$"),
        (lambda data: data["verdicts"][0].update(UNKNOWN), "$"),
        (lambda data: data["verdicts"][0]["limit"].update(UNKNOWN), "$.limit"),
    ],
)
def test_in_verdicts(change: Callable[[Any], object], place: str, tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    write_verdicts([over_limit()], path, ())
    assert read_verdicts(path, tmp_path)[0]
    _edit(path, change)
    write_sealed(path.read_text(), path)
    with pytest.raises(ConfigError, match="`colour` is not known") as caught:
        read_verdicts(path, tmp_path)
    assert f"at `{place}`" in str(caught.value)


def test_in_a_plan(tmp_path: Path) -> None:
    place = Place(records=tmp_path, board="b", arm="candidate", case="latency/cyclictest:idle")
    planned.plan(place, [1, 2], virtual=True)
    assert planned.read(place).seeds == (1, 2)
    _edit(place.directory / "planned.json", lambda data: data.update(UNKNOWN))
    with pytest.raises(ConfigError, match="`colour` is not known"):
        planned.read(place)


def test_in_what_traced_boots_showed(tmp_path: Path) -> None:
    explained.write(tmp_path, EXPLAINED)
    assert explained.read(tmp_path) == EXPLAINED
    _edit(tmp_path / "explained.json", lambda data: data.update(UNKNOWN))
    with pytest.raises(ConfigError, match="`colour` is not known"):
        explained.read(tmp_path)
