# SPDX-License-Identifier: MIT
"""Which changes are measured together, and their votes; before a real server: selftests/forge."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.forge.gerrit_chain import Link, ballots, chain, links
from rtgate.forge.gerrit_change import CHAIN, PatchSet, chain_of, chain_variable
from rtgate.forge.merge_request import Answer, Blame

PAGE = "https://review.example.org/c/k/+/3"


def patch_set(change: int, branch: str = "main") -> PatchSet:
    return PatchSet(project="k", branch=branch, change=change, number=1, revision=f"{change:040x}", title="t")


def link(change: int, *parents: int, newest: bool = True) -> Link:
    names = tuple(f"{parent:040x}" for parent in parents)
    return Link(change=change, number=1, newest=newest, commit=f"{change:040x}", parents=names)


THREE = (patch_set(1), patch_set(2), patch_set(3))
LINKS = (link(3, 2), link(2, 1), link(1, 99))


@pytest.mark.parametrize("one", THREE)
def test_a_chain_is_measured_at_its_tip(one: PatchSet) -> None:
    waiting = {other.change: other for other in THREE if other != one}
    assert chain(LINKS, one, waiting) == THREE


@pytest.mark.parametrize(
    ("found", "waiting", "members"),
    [
        ((), (), (2,)),  # no relation
        (LINKS, (1,), (1, 2)),  # the last one was reviewed, or is not ready
        (LINKS, (3,), (2, 3)),  # the first one was
        ((link(3, 2, newest=False), link(2, 1), link(1, 99)), (1, 3), (1, 2)),  # made of an old patch set
        ((link(3, 2), link(4, 2), link(2, 99)), (3, 4), (2, 3)),  # two on top of one
        ((link(3, 1, 2), link(2, 99), link(1, 99)), (1, 3), (2,)),  # merged by the last one, which is on top of another
    ],
)
def test_what_does_not_wait_is_not_in_a_chain(
    found: tuple[Link, ...], waiting: tuple[int, ...], members: tuple[int, ...]
) -> None:
    present = {change: patch_set(change) for change in waiting}
    assert chain(found, patch_set(2), present) == tuple(map(patch_set, members))


def test_a_change_for_another_branch_is_not_measured_with_it() -> None:
    assert chain(LINKS, patch_set(2), {3: patch_set(3, "stable"), 1: patch_set(1)}) == THREE[:2]


def test_a_merge_that_is_its_own_ancestor_does_not_hang() -> None:
    assert chain((link(2, 3), link(3, 2)), patch_set(2), {3: patch_set(3)})


def _votes(answer: Answer, members: tuple[PatchSet, ...] = THREE) -> list[int]:
    return [one.vote for one in ballots(members, answer, PAGE)]


def _answer(code: int, blame: Blame | None = None) -> Answer:
    return Answer(exit_code=code, markdown="", text="the headline\n\nthe rest\n", blame=blame)


def _blame(suspects: tuple[int, ...], innocents: tuple[int, ...]) -> Blame:
    commits = [tuple(f"{change:040x}" for change in changes) for changes in (suspects, innocents)]
    return Blame(suspects=commits[0], innocents=commits[1], sentence="000 be late (commit 2 of 3)")


@pytest.mark.parametrize(
    ("answer", "votes"),
    [
        (_answer(0), [1, 1, 1]),
        (_answer(5), [0, 0, 0]),
        (_answer(3), [0, 0, 0]),
        (_answer(2), [0, 0, 0]),
        (_answer(1), [0, 0, -1]),  # nobody looked for the change: the one that was measured fails
        (_answer(1, _blame((2,), (1,))), [1, -1, 0]),
        (_answer(1, _blame((2,), ())), [0, -1, 0]),  # something else fails, too
        (_answer(1, _blame((3,), (1, 2))), [1, 1, -1]),
        (_answer(1, _blame((1,), ())), [-1, 0, 0]),
        (_answer(1, _blame((1, 2), ())), [0, 0, -1]),  # one of two
        (_answer(1, _blame((77,), ())), [0, 0, -1]),  # a commit that nobody is voted on for
    ],
)
def test_the_votes_of_a_chain(answer: Answer, votes: list[int]) -> None:
    assert _votes(answer) == votes


@given(st.integers(0, 5), st.sets(st.integers(1, 4), min_size=1), st.sets(st.integers(1, 3)))
def test_a_failure_is_never_without_a_vote_and_all_else_has_none_against(
    code: int, suspects: set[int], innocents: set[int]
) -> None:
    blame = _blame(tuple(sorted(suspects)), tuple(sorted(innocents - suspects)))
    votes = _votes(_answer(code, blame))
    assert votes.count(-1) == (1 if code == 1 else 0)


def test_a_change_alone_has_the_answer_and_its_vote() -> None:
    (ballot,) = ballots(THREE[:1], _answer(1, _blame((77,), ())), PAGE)
    assert (ballot.vote, ballot.text) == (-1, "the headline\n\nthe rest")


def test_each_message_says_why() -> None:
    first, guilty, last = ballots(THREE, _answer(1, _blame((2,), (1,))), PAGE)
    assert first.text.startswith("the headline\n\nWhat fails further up in the relation chain passes here: 000 be late")
    assert first.text.endswith(
        f"Measured with change 3, the last of its relation chain, which has the whole answer: {PAGE}"
    )
    assert "\n\nThis is the first change of the relation chain that fails: 000 be late" in guilty.text
    assert last.text.startswith("the headline\n\nthe rest\n\nThe relation chain fails at change 2, patch set 1, below")


def test_a_chain_goes_through_the_environment() -> None:
    variables = {CHAIN: chain_variable(THREE)}
    assert chain_of(variables, THREE[-1]) == THREE
    assert chain_of({}, THREE[-1]) == THREE[-1:]


@pytest.mark.parametrize("text", ["1", "1/2", "1/2/xyz", f"0/1/{'a' * 40}", f"1/1/{'a' * 40}"])
def test_a_chain_that_is_not_one(text: str) -> None:
    with pytest.raises(ConfigError, match=CHAIN):
        chain_of({CHAIN: text}, THREE[-1])


def test_what_gerrit_says_of_a_chain() -> None:
    """As Gerrit 3.9.1 answers; of an entry without a change, a commit that was merged, nothing is taken."""
    text = """{"changes": [
        {"project": "k", "change_id": "I1", "commit": {"commit": "bb", "parents": [{"commit": "aa"}], "subject": "s"},
         "_change_number": 8, "_revision_number": 1, "_current_revision_number": 2, "status": "NEW"},
        {"project": "k", "commit": {"commit": "aa", "parents": [{"commit": "99"}]},
         "_change_number": 7, "_revision_number": 3, "_current_revision_number": 3, "status": "MERGED"},
        {"project": "k", "commit": {"commit": "99", "parents": []}}]}"""
    assert links(json.loads(text)) == (Link(change=8, number=1, newest=False, commit="bb", parents=("aa",)),)
