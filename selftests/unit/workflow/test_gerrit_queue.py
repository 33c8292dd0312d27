# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.forge.gerrit_change import PatchSet
from rtgate.workflow.gerrit_queue import STARTS, Journal, ReviewQueue


def patch_set(change: int, number: int = 1) -> PatchSet:
    return PatchSet(project="p", branch="b", change=change, number=number, revision="a" * 40)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "reviewed.json")


def again(journal: Journal) -> Journal:
    """Return what another process reads."""
    return Journal(journal.path)


def test_what_has_ended_is_not_reviewed_again(journal: Journal) -> None:
    journal.start(patch_set(7))
    journal.end(patch_set(7))
    for one in (journal, again(journal)):
        assert not one.open(patch_set(7))
        assert one.open(patch_set(7, 2))
        assert one.open(patch_set(8))


def test_an_older_patch_set_is_not_reviewed(journal: Journal) -> None:
    journal.start(patch_set(7, 2))
    assert not journal.open(patch_set(7, 1))


def test_a_review_that_takes_the_service_down_is_given_up(journal: Journal) -> None:
    for _ in range(STARTS):
        assert journal.open(patch_set(7))
        journal.start(patch_set(7))
        journal = again(journal)
    assert not journal.open(patch_set(7))


@pytest.mark.parametrize("ended", [True, False])
def test_what_has_ended_or_was_given_up_is_reviewed_again_for_whom_it_is_asked(journal: Journal, ended: bool) -> None:
    for _ in range(STARTS):
        journal.start(patch_set(7))
    if ended:
        journal.end(patch_set(7))
    assert journal.reopen(7)
    for one in (journal, again(journal)):
        assert one.open(patch_set(7))
    assert not journal.reopen(7)
    assert not journal.reopen(8)


def test_what_the_service_ends_itself_does_not_count(journal: Journal) -> None:
    for _ in range(STARTS + 1):
        journal.start(patch_set(7))
        journal.undo(patch_set(7))
    assert journal.open(patch_set(7))


def test_what_is_older_than_a_year_is_forgotten(tmp_path: Path) -> None:
    moment = [0.0]
    journal = Journal(tmp_path / "reviewed.json", lambda: moment[0])
    journal.start(patch_set(7))
    moment[0] = 401 * 86400.0
    journal.start(patch_set(8))
    assert list(again(journal)._entries) == [8]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2, "changes": {}}', '{"format": 1, "changes": {"7": {}}}', "[" * 100_000]
)
def test_a_damaged_file_is_not_an_empty_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reviewed.json"
    path.write_text(text)
    with pytest.raises(
        ConfigError, match=r"reviewed\.json: (damaged: |format 2, ).*: remove it; open changes of the last days"
    ):
        Journal(path)


def test_the_newest_patch_set_waits(journal: Journal) -> None:
    queue = ReviewQueue(journal)
    assert [queue.offer(patch_set(7, number)) for number in (1, 3, 2, 3)] == [True, True, False, False]
    assert queue.take() == patch_set(7, 3)
    assert queue.take() is None


def test_whoever_pushes_again_waits_again(journal: Journal) -> None:
    queue = ReviewQueue(journal)
    for one in (patch_set(7), patch_set(8), patch_set(7, 2)):
        queue.offer(one)
    assert [queue.take(), queue.take()] == [patch_set(8), patch_set(7, 2)]


def test_a_change_is_taken_off(journal: Journal) -> None:
    queue = ReviewQueue(journal)
    queue.offer(patch_set(7))
    assert (queue.withdraw(7), queue.withdraw(7), queue.take()) == (True, False, None)


@given(st.lists(st.tuples(st.sampled_from(["offer", "take", "withdraw"]), st.integers(1, 3), st.integers(1, 4))))
def test_nothing_is_reviewed_twice_or_out_of_turn(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    journal = Journal(tmp_path_factory.mktemp("queue") / "reviewed.json")
    queue, newest = ReviewQueue(journal), dict[int, int]()
    for kind, change, number in steps:
        if kind == "offer":
            queue.offer(patch_set(change, number))
        elif kind == "withdraw":
            queue.withdraw(change)
        elif (taken := queue.take()) is not None:
            assert taken.number > newest.get(taken.change, 0)
            newest[taken.change] = taken.number
            journal.start(taken)
            journal.end(taken)
    assert len(set(queue.changes)) == len(queue.changes)
