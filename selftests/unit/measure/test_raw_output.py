# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.fake_target import FakeTarget, arm, measured_outcome
from selftests.unit.measure.test_case import CASE

from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Status
from rtgate.measure.case_record import measure
from rtgate.measure.raw_output import Reading
from rtgate.measure.run import records_by_case
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.tools import Setting
from rtgate.tools.registry import TOOLS
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks

Change = Callable[[dict[str, Any]], None]


def _written(records: Path) -> Path:
    record, outcome = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    return records_file.write(record, outcome.files, outcome.console, records)


def _changed(directory: Path, change: Change) -> None:
    path = directory / "record.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def _replayed(records: Path) -> Record:
    ((record,),) = records_by_case(records, None).values()
    return record


def _problems(record: Record) -> dict[str, str]:
    return {check.name: check.sentence for check in checks(record, {}) if check.result is CheckResult.FAILED}


def _lower_maximum(data: dict[str, Any]) -> None:
    for one in data["measurements"]:
        if one["name"] == "latency.max":
            one["value"] = 1


def _empty_histogram_above(data: dict[str, Any]) -> None:
    _lower_maximum(data)
    for one in data["measurements"]:
        if one["name"] == "latency.min":
            one["value"] = 1
        if "histogram" in one:
            one["histogram"] = {"counts": {"1": 10}, "overflow": 0, "limit": one["histogram"]["limit"]}


def test_an_untouched_record_says_what_its_raw_output_says(tmp_path: Path) -> None:
    _written(tmp_path)
    found = _replayed(tmp_path)
    assert found.discrepancies == ()
    assert _problems(found) == {}


@pytest.mark.parametrize("change", [_lower_maximum, _empty_histogram_above])
def test_a_figure_that_was_edited_is_an_error_that_names_both(change: Change, tmp_path: Path) -> None:
    _changed(_written(tmp_path), change)
    found = _replayed(tmp_path)
    assert "record.json says latency.max" in _problems(found)["record"]
    assert "its raw output" in _problems(found)["record"]
    subject = Subject(case=found.case, board=found.board, arm=found.arm, flavour=found.kernel.flavour, records=(found,))
    assert {one.status for one in judge(subject, Thresholds())} == {Status.ERROR}


def _move_samples(data: dict[str, Any]) -> None:
    """Move a sample from one bucket to another, which leaves number and maximum."""
    for one in data["measurements"]:
        if "histogram" in one:
            first, second, *_ = one["histogram"]["counts"]
            one["histogram"]["counts"][first] -= 1
            one["histogram"]["counts"][second] += 1


def _round_mean(data: dict[str, Any]) -> None:
    for one in data["measurements"]:
        if one["name"] == "latency.avg":
            one["value"] += 1e-7


def _turn_direction(data: dict[str, Any]) -> None:
    _move_samples(data)
    for one in data["measurements"]:
        one["better"] = "higher" if one["name"] == "latency" else one["better"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_move_samples, "in its samples"),
        (_turn_direction, "in its direction and samples"),
        (_round_mean, r"in its value \([0-9.]+ and [0-9.]+\)"),
    ],
)
def test_a_difference_that_does_not_show_in_short_is_named(change: Change, said: str, tmp_path: Path) -> None:
    _changed(_written(tmp_path), change)
    (sentence,) = _replayed(tmp_path).discrepancies
    assert re.match(r"record.json says latency(.avg)? CPU 0 (a histogram of )?[0-9]+", sentence)
    assert re.search(rf", which differs from its raw output {said}$", sentence)


def _empty_sources(directory: Path) -> None:
    _changed(directory, lambda data: data.update(sources={}))
    shutil.rmtree(directory / "raw")


def test_a_measured_record_without_raw_output_is_an_error(tmp_path: Path) -> None:
    """Its mean and its counts could be anything."""
    _empty_sources(_written(tmp_path))
    found = _replayed(tmp_path)
    assert list(_problems(found)) == ["record"]
    assert "does not name the raw output that it was made from" in _problems(found)["record"]
    subject = Subject(case=found.case, board=found.board, arm=found.arm, flavour=found.kernel.flavour, records=(found,))
    assert {one.status for one in judge(subject, Thresholds())} == {Status.ERROR}


def test_a_maximum_below_its_histogram_is_seen_without_raw_output(tmp_path: Path) -> None:
    directory = _written(tmp_path)
    _changed(directory, _lower_maximum)
    _empty_sources(directory)
    found = _replayed(tmp_path)
    assert list(_problems(found)) == ["record", "figures"]
    assert "latency.max" in _problems(found)["figures"]


@pytest.mark.parametrize("name", list(TOOLS))
def test_how_each_tool_s_output_was_read_survives_the_record(name: str) -> None:
    """So that replay makes the figures of every tool again."""
    setting = Setting(cpus=2, board_cpus=4, memory_mib=512, duration_s=10, virtual_time=True, cpu_list="0-1")
    made = Reading(tool=TOOLS[name](), load="idle", setting=setting, cpu_classes={"big": (2, 3)})
    assert Reading.from_json(json.loads(json.dumps(made.as_json()))) == made


def test_raw_output_that_was_changed_or_lost_is_named(tmp_path: Path) -> None:
    raw = _written(tmp_path) / "raw" / "cyclictest.json"
    raw.write_bytes(raw.read_bytes() + b" ")
    assert _problems(_replayed(tmp_path))["record"].startswith("raw/cyclictest.json was changed after")
    raw.unlink()
    assert _problems(_replayed(tmp_path))["record"].startswith("raw/cyclictest.json is missing")


def test_a_console_that_nobody_answers_for_is_an_error(tmp_path: Path) -> None:
    """Who removes its digest could write any log of the kernel beside the figures."""
    _changed(_written(tmp_path), lambda data: data["sources"].pop("console.log"))
    assert "`sources` has no console.log" in _problems(_replayed(tmp_path))["record"]


@pytest.mark.parametrize("entry", ["../record.json", "/etc/passwd", "raw/../../x", "raw/a/b"])
def test_a_source_outside_the_record_is_not_read(entry: str, tmp_path: Path) -> None:
    _changed(_written(tmp_path), lambda data: data["sources"].update({entry: "0"}))
    assert "outside its directory" in _problems(_replayed(tmp_path))["record"]


def test_a_record_that_does_not_say_how_it_was_read_is_an_error(tmp_path: Path) -> None:
    _changed(_written(tmp_path), lambda data: data.update(reading={}))
    assert "is missing" in _problems(_replayed(tmp_path))["record"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"interval_us": 0}, "division by zero"),
        ({"interval_us": []}, "unsupported operand type"),
        ({"interval_us": 1e-320}, "infinity"),
    ],
)
def test_options_that_cannot_have_been_are_an_error(edit: dict[str, object], said: str, tmp_path: Path) -> None:
    _changed(_written(tmp_path), lambda data: data["reading"]["options"].update(edit))
    problem = _problems(_replayed(tmp_path))["record"]
    assert problem.startswith("record.json does not say how its raw output was read: ")
    assert said in problem


def test_a_reading_survives_the_file() -> None:
    record, _ = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    data = json.loads(json.dumps(record.reading))
    assert json.loads(json.dumps(Reading.from_json(data).as_json())) == data


def test_any_single_figure_that_changes_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("records")
    written = _written(directory)
    before = (written / "record.json").read_text()
    figures = [number for number, one in enumerate(json.loads(before)["measurements"]) if "value" in one]

    @examples(40)
    @given(st.sampled_from(figures), st.floats(-1e6, 1e6).filter(bool))
    def told(number: int, more: float) -> None:
        data = json.loads(before)
        one = data["measurements"][number]
        if one["value"] + more == one["value"]:
            return
        one["value"] += more
        (written / "record.json").write_text(json.dumps(data))
        assert _replayed(directory).discrepancies

    told()


def test_discrepancies_are_not_written(tmp_path: Path) -> None:
    record, _ = measure(CASE, arm(FakeTarget({None: measured_outcome()})), 3)
    assert "discrepancies" not in records_file.as_json(replace(record, discrepancies=("a",)))
