# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.judge.compare.looks import CONFIRM, RELEASE
from rtgate.records import planned
from rtgate.records.codec import decode, encode
from rtgate.records.record import Place
from rtgate.records.schedule import Schedule, check_steps, format_steps, parse_steps

PLACE = {"board": "b", "arm": "candidate", "case": "latency/cyclictest:idle"}


@pytest.mark.parametrize("steps", [RELEASE.steps, CONFIRM.steps, ((2, 1.0),)])
def test_steps_come_back_as_they_were_told(steps: tuple[tuple[int, float], ...]) -> None:
    assert parse_steps(format_steps(steps)) == steps
    schedule = Schedule(steps=steps, taken=(3, 6), screened=3)
    assert decode(encode(schedule), Schedule) == schedule


@pytest.mark.parametrize(
    "steps", [[(3, 0.5), (3, 0.5)], [(6, 0.5), (3, 0.5)], [(3, 0.6), (6, 0.6)], [(1, 0.5)], [(3, 0.0)], [(3, -1.0)]]
)
def test_shares_of_more_than_the_whole_and_looks_that_do_not_rise_are_refused(steps: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="no looks"):
        check_steps(steps)


@pytest.mark.parametrize("text", ["", "3", "3:", "a:0.1", "3:0.2,x"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_steps(text)


def test_who_judges_later_knows_every_look(tmp_path: Path) -> None:
    place = Place(records=tmp_path, **PLACE)
    for _ in range(2):  # planning twice is not a further look
        planned.plan(place, (1, 2, 3), virtual=False, steps=RELEASE.steps)
    assert planned.read(place).schedule == Schedule(steps=RELEASE.steps, taken=(3,))
    for _ in range(2):
        planned.plan(place, (4, 5, 6), virtual=False, steps=RELEASE.steps)
    found = planned.read(place)
    assert (found.boots, found.schedule.taken) == (6, (3, 6))  # no boot left a record: six are missing
    assert planned.missing(place, []) == ("6 of 6 boots",)


def test_boots_of_the_screen_are_beside_those_of_the_pairs(tmp_path: Path) -> None:
    place = Place(records=tmp_path, **PLACE)
    planned.plan(place, (1, 2, 3), virtual=False, steps=CONFIRM.steps, screen=True)
    planned.plan(place, range(1, 7), virtual=False, steps=CONFIRM.steps)
    found = planned.read(place)
    assert (found.boots, found.schedule.screened, found.schedule.taken) == (9, 3, (3, 9))


def test_seeds_of_the_first_look_that_left_no_record_stay_planned(tmp_path: Path) -> None:
    place = Place(records=tmp_path, **PLACE)
    planned.plan(place, range(1, 5), virtual=True)
    planned.plan(place, range(5, 9), virtual=True)
    assert planned.read(place).seeds == tuple(range(1, 9))
    assert planned.read(place).schedule.taken == (4, 8)


def test_jobs_of_a_lab_count_as_one_look_until_somebody_looks(tmp_path: Path) -> None:
    place = Place(records=tmp_path, **PLACE)
    planned.add(place, [], 2)
    planned.add(place, [], 1)
    planned.note_look(place, RELEASE.steps, 0)
    planned.add(place, [], 3)
    planned.note_look(place, RELEASE.steps, 0)
    assert planned.read(place).schedule == Schedule(steps=RELEASE.steps, taken=(3, 6))


def test_a_look_without_steps_does_not_undo_an_earlier_one(tmp_path: Path) -> None:
    """Forgotten, the pairs would count as looked at once, with all of the false alarms allowed."""
    place = Place(records=tmp_path, **PLACE)
    planned.add(place, [], 3)
    planned.note_look(place, RELEASE.steps, 2)
    planned.add(place, [], 3)
    planned.note_look(place, (), 0)
    assert planned.read(place).schedule == Schedule(steps=RELEASE.steps, taken=(3, 6), screened=2)
