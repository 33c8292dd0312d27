# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rtgate.errors import InfrastructureError
from rtgate.forge.run_command import (
    Command,
    Comment,
    Proposal,
    is_for_us,
    obstacle,
    read_answer,
    requested_commit,
)

HEAD, OTHER = "a" * 40, "b" * 40
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
COMMAND = Command(project="rt/kernel", merge_request=7, comment=9)
COMMENT = Comment(author="101", text="/rtgate run", at=NOON)
PROPOSAL = Proposal(is_open=True, head=HEAD, push_time=NOON - timedelta(seconds=1))


@pytest.mark.parametrize("answer", [{}, None, [], {"user": {"id": "x"}}, {"user": "somebody"}, {"user": None}])
def test_an_answer_of_another_form_is_the_forge_s(answer: object) -> None:
    with pytest.raises(InfrastructureError, match=r"^it lacks something$"):
        read_answer(answer, lambda found: int(found["user"].get("id")), "it lacks something")


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("/rtgate run", ""),
        ("/rtgate  run \r\nI have read it", ""),
        (f"/rtgate run {HEAD}", HEAD),
        (f"/rtgate run {'a' * 64}\n", "a" * 64),
    ],
)
def test_commands(text: str, commit: str) -> None:
    assert requested_commit(text) == commit
    assert is_for_us(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " /rtgate run",
        "> /rtgate run",
        "look:\n/rtgate run",
        "`/rtgate run`",
        "/rtgate runs",
        "/rtgate run please",
        f"/rtgate run {'a' * 12}",  # whoever pushes can look for a commit that begins with these
        f"/rtgate run {HEAD} {OTHER}",
        "/rtgate run main",
        "/rtgate\nrun",
        "/RTGATE RUN",
    ],
)
def test_what_is_no_command(text: str) -> None:
    assert requested_commit(text) is None


def test_what_may_run() -> None:
    assert obstacle(COMMAND, COMMENT, PROPOSAL) == ""
    assert obstacle(replace(COMMAND, head=HEAD), COMMENT, PROPOSAL) == ""


def test_a_commit_that_is_named_may_run_whenever_it_was_pushed() -> None:
    named = replace(COMMENT, text=f"/rtgate run {HEAD}")
    assert obstacle(COMMAND, named, replace(PROPOSAL, push_time=None)) == ""
    assert "which is another commit" in obstacle(COMMAND, named, replace(PROPOSAL, head=OTHER))


@pytest.mark.parametrize("seconds", [0, 1, 3600])
def test_a_commit_that_was_pushed_after_the_comment_does_not_run(seconds: int) -> None:
    later = replace(PROPOSAL, push_time=NOON + timedelta(seconds=seconds))
    assert "was not pushed before the comment was written" in obstacle(COMMAND, COMMENT, later)
    # Also where the delivery was made after the push, and so names the new commit.
    assert "was not pushed before" in obstacle(replace(COMMAND, head=HEAD), COMMENT, later)


def test_a_delivery_that_names_another_commit_is_refused_whatever_the_clocks_say() -> None:
    assert f"it ends at {HEAD} by now" in obstacle(replace(COMMAND, head=OTHER), COMMENT, PROPOSAL)


@pytest.mark.parametrize(
    ("comment", "proposal", "reason"),
    [
        (replace(COMMENT, text="never mind"), PROPOSAL, "say `/rtgate run`"),
        (COMMENT, replace(PROPOSAL, is_open=False), "it is not open"),
        (COMMENT, replace(PROPOSAL, push_time=None), f"nothing says when {HEAD} was pushed"),
    ],
)
def test_other_obstacles(comment: Comment, proposal: Proposal, reason: str) -> None:
    assert reason in obstacle(COMMAND, comment, proposal)
