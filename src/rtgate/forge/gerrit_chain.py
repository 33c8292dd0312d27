# SPDX-License-Identifier: MIT
"""Relation chains of Gerrit: changes of which each is the parent of the next, measured once with the last one.

What Gerrit says of a chain is the answer to `GET /changes/ID/revisions/REVISION/related` (its page `rest-api-changes`,
"Get Related Changes").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtgate.forge.gerrit_change import PatchSet
from rtgate.forge.merge_request import Answer, Blame

VOTES = {0: 1, 1: -1}  # by exit code; all else is nobody's merit or fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A change of a relation chain.

    Attributes:
        number: the patch set that the chain is made of.
        newest: whether the change has no newer one.
        commit, parents: commits.
    """

    change: int
    number: int
    newest: bool
    commit: str
    parents: tuple[str, ...]


def links(data: Mapping[str, Any]) -> tuple[Link, ...]:
    """Return the open changes of an answer of Gerrit's. Raises KeyError, TypeError or ValueError."""
    return tuple(
        _link(entry) for entry in data["changes"] if entry.get("status") == "NEW" and "_change_number" in entry
    )


def _link(entry: Mapping[str, Any]) -> Link:
    number = int(entry["_revision_number"])
    return Link(
        change=int(entry["_change_number"]),
        number=number,
        newest=number == int(entry["_current_revision_number"]),
        commit=str(entry["commit"]["commit"]),
        parents=tuple(str(parent["commit"]) for parent in entry["commit"]["parents"]),
    )


def chain(chain_links: Iterable[Link], patch_set: PatchSet, queue: Mapping[int, PatchSet]) -> tuple[PatchSet, ...]:
    """Return the patch sets that are measured together with `patch_set`, the first one first.

    It is followed up to the last change, and down to where the target branch begins, as far as those wait, too, for
    the same branch. Of several changes on top of one the first one counts. A merge is on top of its first parent alone:
    down from it the other one is not met.
    """
    present = {**queue, patch_set.change: patch_set}
    by_commit = {
        link.commit: (link, mine)
        for link in chain_links
        if link.newest
        and (mine := present.get(link.change))
        and mine.revision == link.commit
        and mine.branch == patch_set.branch
    }
    tip = patch_set.revision
    for _ in by_commit:  # not for ever, whatever an answer says
        tip = next((commit for commit, (link, _) in by_commit.items() if tip in link.parents[:1]), tip)
    return _down(by_commit, tip) or (patch_set,)


def _down(by_commit: Mapping[str, tuple[Link, PatchSet]], tip: str) -> tuple[PatchSet, ...]:
    members: list[PatchSet] = []
    while tip in by_commit and by_commit[tip][1] not in members:
        link, patch_set = by_commit[tip]
        members.insert(0, patch_set)
        tip = link.parents[0] if link.parents else ""
    return tuple(members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """A vote on a patch set, and the message with it."""

    patch_set: PatchSet
    vote: int
    text: str


def ballots(members: Sequence[PatchSet], answer: Answer, page: str) -> tuple[Ballot, ...]:
    """Return what is said of each patch set of a chain that was measured with its last one.

    Where the chain fails, -1 goes to the change that does it if that is one of them, and to the last one otherwise.

    Args:
        members: the chain, the first one first.
        answer: of the review of the last one.
        page: URL of the last one's page.
    """
    *below, tip = members
    marks = [_mark(member, members, answer) for member in members]
    if answer.exit_code == 1 and not any(vote < 0 for vote, _ in marks):
        marks[-1] = (-1, "")
    last = Ballot(
        patch_set=tip, vote=marks[-1][0], text="\n\n".join(filter(None, (answer.text.rstrip(), marks[-1][1])))
    )
    headline = answer.text.partition("\n")[0]
    where = f"Measured with change {tip.change}, the last of its relation chain, which has the whole answer: {page}"
    rest = (
        Ballot(patch_set=member, vote=vote, text=f"{headline}\n\n{sentence}\n\n{where}")
        for member, (vote, sentence) in zip(below, marks, strict=False)
    )
    return (*rest, last)


def _mark(member: PatchSet, members: Sequence[PatchSet], answer: Answer) -> tuple[int, str]:
    """Return the vote on a member, and why."""
    alone = len(members) == 1
    if answer.exit_code != 1:
        sentence = (
            "The relation chain passes as a whole." if answer.exit_code == 0 else "There is no verdict on the chain."
        )
        return VOTES.get(answer.exit_code, 0), "" if member == members[-1] else sentence
    if alone:
        return -1, ""
    if answer.blame is None:
        return 0, "The relation chain fails as a whole. Which change does it was not found out."
    return _blame_vote(member, members, answer.blame)


def _blame_vote(member: PatchSet, members: Sequence[PatchSet], blame: Blame) -> tuple[int, str]:
    if member.revision in blame.suspects:
        if len(blame.suspects) == 1:
            return -1, f"This is the first change of the relation chain that fails: {blame.sentence}"
        return 0, f"This change, or another one beside it, is the first that fails: {blame.sentence}"
    if member.revision in blame.innocents:
        return 1, f"What fails further up in the relation chain passes here: {blame.sentence}"
    guilty = next(
        (patch_set for patch_set in members[: members.index(member)] if patch_set.revision in blame.suspects), None
    )
    if guilty:
        return 0, f"The relation chain fails at {guilty.name}, below this change: push it again when that is put right."
    return 0, f"The relation chain fails elsewhere: {blame.sentence}"
