# SPDX-License-Identifier: MIT
from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from selftests.github_server import (
    AUTHOR,
    BOT,
    HEAD,
    PULL_REQUEST,
    REPOSITORY,
    SUMMARY_LIMIT,
    TOKEN,
    App,
    GitHubServer,
    github_server,
)
from selftests.unit.forge.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.github_answer import ACTIONS, Check, Conversation
from rtgate.forge.github_api import Forbidden, GitHubApi
from rtgate.forge.note_body import GITHUB, MARK, note_body
from rtgate.http.patience import NotNow
from rtgate.http.secret import Token

CHECK = Check(head=HEAD, conclusion="success", title="good", summary="good")


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with github_server() as running:
        yield running


def conversation(server: GitHubServer, token: str = TOKEN) -> Conversation:
    secret = Token(token, "$X")
    api = GitHubApi(url=server.url, repository=REPOSITORY, token=secret, patience=HASTY)
    return Conversation(api=api, number=PULL_REQUEST)


def write(server: GitHubServer, text: str = "good", run: int | None = None, token: str = TOKEN) -> int | None:
    """Write a comment with the patience that `publish` has."""
    ours, body = conversation(server, token), note_body(text, run, GITHUB)
    return HASTY.repeat(lambda: ours.comment(body, run, BOT), "GitHub", list[str]().append)


def bodies(server: GitHubServer) -> list[tuple[str, str]]:
    return [(one.author, one.body.removeprefix(f"{MARK}\n\n")) for one in server.comments]


def test_a_check_run_tells_whose_token_it_is(github: GitHubServer) -> None:
    assert conversation(github).check(CHECK) == ACTIONS == BOT
    github.tokens[TOKEN].slug = "kernel-gate"
    assert conversation(github).check(CHECK) == "kernel-gate[bot]"


def test_the_first_comment_is_created_and_the_next_one_takes_its_place(github: GitHubServer) -> None:
    write(github, "bad")
    write(github, "good")
    assert bodies(github) == [(BOT, "good")]
    place = f"repos/{REPOSITORY}/issues"
    comments = f"{place}/{PULL_REQUEST}/comments"
    assert github.requests == [f"GET {comments}", f"POST {comments}", f"GET {comments}", f"PATCH {place}/comments/1"]


def test_our_comment_is_found_on_any_page(github: GitHubServer) -> None:
    for number in range(250):
        github.add(AUTHOR, f"comment {number}")
    ours = github.add(BOT, f"{MARK}\n\nold")
    for number in range(120):
        github.add("ghost", f"comment {number}")
    write(github, "new")
    assert ours.body == f"{MARK}\n\nnew"
    assert sum(request.startswith("GET") for request in github.requests) == 4


@pytest.mark.parametrize("author", [AUTHOR, "github-actions", "other[bot]", "ghost"])
def test_comments_of_others_stay(github: GitHubServer, author: str) -> None:
    """GitHub would let a token edit them."""
    github.add(author, f"{MARK}\n\nI write what I like")
    write(github, "ours")
    assert bodies(github) == [(author, "I write what I like"), (BOT, "ours")]


@pytest.mark.parametrize("text", [f"> {MARK}\n\nquoted", f" {MARK}", f"see `{MARK}`", "of another workflow"])
def test_another_comment_of_the_same_app_stays(github: GitHubServer, text: str) -> None:
    github.add(BOT, text)
    write(github, "ours")
    assert [one.body for one in github.comments] == [text, f"{MARK}\n\nours"]


def test_two_comments_of_two_jobs_at_once_become_one(github: GitHubServer) -> None:
    for text in ("one", "two", "three"):
        github.add(BOT, f"{MARK}\n\n{text}")
    github.moods = [("DELETE", "comments", "deleted")]
    write(github, "new")
    assert bodies(github) == [(BOT, "new")]


def test_a_comment_that_is_deleted_meanwhile_is_created_again(github: GitHubServer) -> None:
    write(github, "old")
    github.moods = [("PATCH", "comments", "deleted")]
    write(github, "new")
    assert bodies(github) == [(BOT, "new")]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("mood", ["500", "502", "503", "primary", "secondary", "lost", "unheard", "page"])
def test_trouble_is_waited_for_and_ends_in_one_comment(github: GitHubServer, method: str, mood: str) -> None:
    github.moods = [(method, "comments", mood)]
    write(github, "good")
    assert bodies(github) == [(BOT, "good")]
    assert not github.moods


@pytest.mark.parametrize("mood", ["503", "secondary", "lost", "unheard", "slow", "page"])
def test_trouble_with_an_update(github: GitHubServer, mood: str) -> None:
    write(github, "old")
    github.moods = [("PATCH", "comments", mood)]
    write(github, "new")
    assert bodies(github) == [(BOT, "new")]


@pytest.mark.parametrize(("mood", "after"), [("primary", (0.9, 2.1)), ("secondary", (1, 1)), ("silent", (60, 60))])
def test_a_limit_says_how_long_to_wait(github: GitHubServer, mood: str, after: tuple[float, float]) -> None:
    """Limits are 403 as well, and are not taken for a refusal."""
    github.moods = [("POST", "check-runs", mood)]
    with pytest.raises(NotNow, match="rate limit") as error:
        conversation(github).check(CHECK)
    assert after[0] <= error.value.after <= after[1]


def test_a_later_runs_comment_stays(github: GitHubServer) -> None:
    assert write(github, "new", 12) is None
    assert write(github, "old", 11) == 12
    assert "new" in github.comments[0].body
    assert write(github, "again", 12) is None
    assert "again" in github.comments[0].body


# --- who must act


def test_a_wrong_token(github: GitHubServer) -> None:
    with pytest.raises(ConfigError, match=r"does not accept the token from \$X \(Bad credentials\)"):
        write(github, token="ghs_wrong0123456789")
    assert len(github.requests) == 1


def test_permissions_that_lack(github: GitHubServer) -> None:
    github.tokens = {TOKEN: App(permissions=("contents: read",))}
    for attempt in (lambda: conversation(github).check(CHECK), lambda: write(github)):
        with pytest.raises(Forbidden, match=r"does not let the token from \$X do this \(Resource not accessible by"):
            attempt()


def test_a_persons_token_makes_no_check_runs(github: GitHubServer) -> None:
    github.tokens = {TOKEN: App(slug="")}
    with pytest.raises(Forbidden, match="You must authenticate via a GitHub App"):
        conversation(github).check(CHECK)


def test_a_locked_conversation(github: GitHubServer) -> None:
    github.locked = True
    with pytest.raises(Forbidden, match="Unable to create comment because issue is locked"):
        write(github)


def test_a_pull_request_that_the_token_does_not_see(github: GitHubServer) -> None:
    api = GitHubApi(url=github.url, repository="kernel/other", token=Token(TOKEN, "$X"))
    elsewhere = Conversation(api=api, number=7)
    with pytest.raises(ConfigError, match=r"does not see issues/7/comments of kernel/other \(Not Found\)"):
        elsewhere.comment("x", None, BOT)


def test_a_summary_that_github_refuses(github: GitHubServer) -> None:
    long = Check(head=HEAD, conclusion="success", title="x", summary="é" * SUMMARY_LIMIT)
    with pytest.raises(ConfigError, match=r"HTTP 422: Validation Failed .*summary exceeds a maximum bytesize of 65535"):
        conversation(github).check(long)


def test_nobody_listens(github: GitHubServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        github.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(InfrastructureError, match=r"does not answer: .*Connection refused; rtgate tries for 3 s"):
            write(github)


def test_a_redirect_gets_no_token(github: GitHubServer) -> None:
    for method, attempt in (("GET", "comments"), ("POST", "check-runs")):
        github.moods = [(method, attempt, "redirect")]
        with pytest.raises(ConfigError, match=r"sends us to http://elsewhere\.invalid/: name that server instead"):
            _ = write(github) if method == "GET" else conversation(github).check(CHECK)


@pytest.mark.parametrize("mood", ["401", "403", "404", "409", "500", "secondary", "page", "lost"])
def test_the_token_is_in_no_message_and_no_log(
    github: GitHubServer, mood: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for method, path in (("GET", "comments"), ("POST", "comments"), ("POST", "check-runs")):
        github.moods = [(method, path, mood)]
        with pytest.raises((ConfigError, NotNow)) as error:
            _ = (
                conversation(github).comment("x", None, BOT)
                if path == "comments"
                else conversation(github).check(CHECK)
            )
        chain: BaseException | None = error.value
        while chain is not None:
            assert TOKEN not in f"{chain!r}"
            chain = chain.__cause__
    assert TOKEN not in repr(conversation(github))
    assert TOKEN not in caplog.text
