# SPDX-License-Identifier: MIT
"""When a review counts as answered. What a real server says is in `selftests/forge/test_gerrit.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.forge.gerrit import Gerrit, NoVoteError
from rtgate.forge.gerrit_change import PatchSet
from rtgate.forge.gerrit_server import Access, GerritServer
from rtgate.forge.merge_request import Answer
from rtgate.http.client import AccessRefused, Reply
from rtgate.http.secret import Token

TIP = PatchSet(project="rt/kernel", branch="master", change=12, number=1, revision="a" * 40)
BELOW = replace(TIP, change=11, revision="b" * 40)
ANSWER = Answer(exit_code=0, markdown="", text="PASS")
Review = Callable[[PatchSet, Mapping[str, int]], frozenset[str]]


def take(_: PatchSet, votes: Mapping[str, int]) -> frozenset[str]:
    return frozenset(votes)


def refuse_votes(patch_set: PatchSet, votes: Mapping[str, int]) -> frozenset[str]:
    if votes:
        raise AccessRefused("refuses the vote", reply(403))
    return take(patch_set, votes)


def refuse(_: PatchSet, __: Mapping[str, int]) -> frozenset[str]:
    raise AccessRefused("refused bot", reply(401))


def hide(patch_set: PatchSet, __: Mapping[str, int]) -> frozenset[str]:
    raise ConfigError(f"{patch_set.name} is not there, or bot may not see it")


def reply(status: int) -> Reply:
    return Reply(status=status, text="", headers={})


@pytest.mark.parametrize(
    ("below", "tip", "error", "answered"),
    [
        (take, take, None, True),
        (take, refuse_votes, NoVoteError, True),
        (refuse, refuse, AccessRefused, False),
        (take, hide, ConfigError, False),
        # The whole answer is with the last change: for a message below it nothing is measured again.
        (hide, take, ConfigError, True),
        # What nobody received is the worse of two mistakes.
        (hide, refuse_votes, ConfigError, True),
        (refuse_votes, hide, ConfigError, False),
    ],
)
def test_only_an_answer_that_is_in_gerrit_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    below: Review,
    tip: Review,
    error: type[ConfigError] | None,
    answered: bool,
) -> None:
    """`rtgate gerrit` makes a review again that left no answer."""
    reviews = {BELOW: below, TIP: tip}
    monkeypatch.setattr(GerritServer, "topic", lambda *_: ("", ()))
    monkeypatch.setattr(GerritServer, "review", lambda _, patch_set, __, votes: reviews[patch_set](patch_set, votes))
    server = GerritServer(Access(url="https://example.org", user="bot", password=Token("secret-of-tests", "a test")))
    forge = Gerrit(server=server, patch_set=TIP, chain=(BELOW, TIP), answered=tmp_path / "12-1.answered")
    if error is None:
        forge.publish(ANSWER)
    else:
        with pytest.raises(ConfigError) as caught:
            forge.publish(ANSWER)
        assert type(caught.value) is error
    assert (tmp_path / "12-1.answered").exists() is answered
