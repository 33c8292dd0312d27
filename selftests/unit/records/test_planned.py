# SPDX-License-Identifier: MIT
"""What was planned and left no record is missed, whatever happened to it in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selftests.unit.report.conftest import Boot, make

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.planned import CasePlan
from rtgate.records.record import Place

CASE = "latency/cyclictest:idle"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(records=tmp_path, board="virt-arm64", arm="candidate", case=CASE)


def _measure(place: Place, *seeds: int) -> None:
    for seed in seeds:
        records_file.write(make(Boot(case=place.case, seed=seed, samples=5)), {}, b"", place.records)


def test_each_seed_without_a_record_is_named(place: Place) -> None:
    planned.plan(place, (1, 2, 3), virtual=True)
    records = [make(Boot(seed=seed)) for seed in (1, 3)]
    assert planned.missing(place, records) == ("seed 2",)
    assert planned.missing(place, [*records, make(Boot(seed=2))]) == ()
    # A boot too many does not make up for one that is not there.
    assert planned.missing(place, [*records, make(Boot(seed=9))]) == ("seed 2",)


def test_boots_of_boards_are_counted_beside_seeds(place: Place) -> None:
    planned.add(place, [7], 3)
    boots = [make(Boot(seed=None)) for _ in range(4)]
    assert planned.missing(place, boots[:1]) == ("seed 7", "2 of 3 boots")
    assert planned.missing(place, [*boots[:3], make(Boot(seed=7))]) == ()
    assert planned.missing(place, boots) == ("seed 7",)


def test_records_that_nobody_planned_are_planned_with_the_next_seeds(place: Place) -> None:
    _measure(place, 5)
    planned.plan(place, (1, 2), virtual=True)
    assert planned.read(place) == CasePlan(seeds=(1, 2, 5)).extend()


def test_boots_of_a_board_come_on_top_of_those_it_has(place: Place) -> None:
    _measure(place, 1, 2)
    planned.plan(place, (1, 2, 3), virtual=False)
    assert planned.read(place).boots == 5
    planned.plan(place, (1,), virtual=False)
    assert planned.read(place).boots == 5


def test_more_boots_are_added_and_fewer_are_not_taken(place: Place) -> None:
    planned.add(place, [2, 1], 2)
    planned.add(place, [2], 1)
    planned.add(place, [], -5)
    assert (planned.read(place).seeds, planned.read(place).boots) == ((1, 2), 3)
    planned.at_least(place, 2)
    assert planned.read(place).boots == 3
    planned.at_least(place, 4)
    assert planned.read(place).boots == 4
    planned.unplan(place, 1)
    assert planned.read(place).boots == 3
    assert planned.read(place).count == 5


def test_only_directories_that_are_numbers_hold_records(place: Place) -> None:
    _measure(place, 1, 12)
    (place.directory / ".writing-1").mkdir()
    (place.directory / ".writing-1" / "record.json").write_text("{}")
    (place.directory / "3").mkdir()
    assert planned.measured_numbers(place) == (1, 12)


def test_arms_and_cases_that_left_nothing_are_known(tmp_path: Path) -> None:
    for board, arm, case in (
        ("one", "baseline", CASE),
        ("one", "candidate", CASE),
        ("two", "candidate", CASE),
        ("two", "candidate", "scheduling/ssdd:idle.2"),
    ):
        planned.plan(Place(records=tmp_path, board=board, arm=arm, case=case), (1,), virtual=False)
    assert planned.arms(tmp_path) == {"one": {"baseline", "candidate"}, "two": {"candidate"}}
    assert planned.cases(tmp_path) == {CASE: {"one", "two"}, "scheduling/ssdd:idle.2": {"two"}}


def test_a_plan_of_one_batch_has_no_word_of_looks(place: Place) -> None:
    planned.plan(place, (1, 2), virtual=False)
    path = place.directory / "planned.json"
    assert json.loads(path.read_text()) == {"seeds": [], "boots": 2}
    assert planned.read(place).schedule.taken == (2,)
    planned.plan(place, (3,), virtual=True)
    assert json.loads(path.read_text())["looks"] == {"steps": [], "taken": [2, 3], "screened": 0}


def test_nothing_was_planned_where_there_is_no_file(place: Place) -> None:
    assert planned.read(place) == CasePlan()
    assert planned.missing(place, []) == ()
    place.records.joinpath("virt-arm64").write_text("no directory")
    assert planned.read(place) == CasePlan()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"seeds": []}',
        '{"boots": 1}',
        '{"seeds": 1, "boots": 1}',
        '{"seeds": ["x"], "boots": 1}',
        '{"seeds": ["7"], "boots": 1}',
        '{"seeds": [], "boots": 2.9}',
        '{"seeds": [], "boots": Infinity}',
        '{"seeds": ' + "[" * 100_000,
        '{"seeds": [], "boots": null}',
        '{"seeds": [], "boots": 1, "more": 1}',
        '{"seeds": [], "boots": 1, "looks": {"steps": [], "taken": [1], "screened": 0, "more": 1}}',
        '{"seeds": [], "boots": 1, "looks": {"steps": [], "taken": [1]}}',
        '{"seeds": [], "boots": 1, "looks": []}',
        '{"seeds": [], "boots": 1, "looks": {"steps": [[3, 0.5], [3, 0.5]], "taken": [1], "screened": 0}}',
    ],
)
def test_a_damaged_plan_is_never_an_empty_one(place: Place, text: str) -> None:
    place.directory.mkdir(parents=True)
    (place.directory / "planned.json").write_text(text)
    for use in (planned.read, lambda one: planned.missing(one, []), lambda one: planned.add(one, [], 1)):
        with pytest.raises(ConfigError, match=r"planned\.json: damaged: .*measure the case again, or remove the file"):
            use(place)
    assert (place.directory / "planned.json").read_text() == text


def test_a_plan_that_cannot_be_written_is_said(place: Place) -> None:
    place.records.joinpath("virt-arm64").write_text("no directory")
    with pytest.raises(InfrastructureError, match=r"candidate/latency\.cyclictest:idle cannot be written"):
        planned.plan(place, (1,), virtual=True)
