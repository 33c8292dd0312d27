# SPDX-License-Identifier: MIT
from __future__ import annotations

import logging
import socket

import pytest
from selftests.gitlab_server import (
    AUTHOR,
    BOT,
    GUEST,
    LIMIT,
    MAINTAINER,
    MERGE_REQUEST,
    PROJECT,
    TOKEN,
    Account,
    GitLabServer,
)
from selftests.unit.forge.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.gitlab_api import GitLabApi
from rtgate.forge.gitlab_note import Note
from rtgate.forge.note_body import MARK, note_body
from rtgate.http.patience import NotNow
from rtgate.http.secret import Token

OTHER = "glpat-another-0123456789"


def note(server: GitLabServer, token: str = TOKEN) -> Note:
    secret = Token(token, "$X")
    api = GitLabApi(url=server.url, project=PROJECT, token=secret, answer_s=1.0)
    return Note(api=api, merge_request=MERGE_REQUEST)


def write(server: GitLabServer, text: str = "good", pipeline: int | None = None, token: str = TOKEN) -> int | None:
    """Write a note with the patience that `publish` has."""
    ours, said = note(server, token), list[str]()
    return HASTY.repeat(lambda: ours.write(note_body(text, pipeline), pipeline), "GitLab", said.append)


def bodies(server: GitLabServer) -> list[tuple[int, str]]:
    return [(note.author, note.body.removeprefix(f"{MARK}\n\n")) for note in server.notes]


def test_the_first_note_is_created_and_the_next_one_takes_its_place(server: GitLabServer) -> None:
    write(server, "bad")
    write(server, "good")
    assert bodies(server) == [(BOT, "good")]
    path = f"projects/{PROJECT}/merge_requests/{MERGE_REQUEST}/notes"
    assert server.requests == ["GET user", f"GET {path}", f"POST {path}", "GET user", f"GET {path}", f"PUT {path}/1"]


def test_our_note_is_found_on_any_page(server: GitLabServer) -> None:
    for number in range(250):
        server.add(AUTHOR, f"comment {number}")
    ours = server.add(BOT, f"{MARK}\n\nold")
    for number in range(120):
        server.add(AUTHOR, f"comment {number}")
    write(server, "new")
    assert ours.body == f"{MARK}\n\nnew"
    assert len(server.notes) == 371
    assert sum(request.endswith("/notes") and request.startswith("GET") for request in server.requests) == 4


def test_a_maintainers_token_does_not_touch_the_notes_of_others(server: GitLabServer) -> None:
    """GitLab would let it, so the mark alone must not be enough."""
    server.tokens[OTHER] = Account(MAINTAINER)
    server.add(AUTHOR, f"{MARK}\n\nI write what I like")
    server.add(BOT, f"{MARK}\n\nof the other token")
    write(server, "ours", token=OTHER)
    assert bodies(server) == [(AUTHOR, "I write what I like"), (BOT, "of the other token"), (MAINTAINER, "ours")]


@pytest.mark.parametrize(
    "text", [f"> {MARK}\n\nquoted", f" {MARK}", f"{MARK}x", "<!-- rtgate review", f"see `{MARK}`", f"{MARK} more"]
)
def test_another_note_of_the_same_user_stays(server: GitLabServer, text: str) -> None:
    server.add(BOT, text)
    write(server, "ours")
    assert [note.body for note in server.notes] == [text, f"{MARK}\n\nours"]


def test_a_system_note_is_nobodys(server: GitLabServer) -> None:
    server.add(BOT, f"{MARK}\n\nchanged the description", system=True)
    write(server, "ours")
    assert len(server.notes) == 2


def test_a_note_that_is_deleted_meanwhile_is_created_again(server: GitLabServer) -> None:
    write(server, "old")
    server.moods = [("PUT", "notes", "deleted")]
    write(server, "new")
    assert bodies(server) == [(BOT, "new")]


def test_two_notes_of_two_jobs_at_once_become_one(server: GitLabServer) -> None:
    for text in ("one", "two", "three"):
        server.add(BOT, f"{MARK}\n\n{text}")
    server.moods = [("DELETE", "notes", "deleted")]
    write(server, "new")
    assert [(note.number, note.body) for note in server.notes] == [(1, f"{MARK}\n\nnew")]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("mood", ["409", "500", "502", "503", "504", "throttled", "noted", "lost", "unheard", "page"])
def test_trouble_is_waited_for_and_ends_in_one_note(server: GitLabServer, method: str, mood: str) -> None:
    """Also where the note was made and the answer got lost."""
    server.moods = [(method, "notes", mood)]
    write(server, "good")
    assert bodies(server) == [(BOT, "good")]
    assert not server.moods


@pytest.mark.parametrize("mood", ["409", "503", "throttled", "lost", "unheard", "slow", "page"])
def test_trouble_with_an_update(server: GitLabServer, mood: str) -> None:
    write(server, "old")
    server.moods = [("PUT", "notes", mood)]
    write(server, "new")
    assert bodies(server) == [(BOT, "new")]


def test_what_gitlab_asks_to_wait_is_waited(server: GitLabServer) -> None:
    server.moods = [("POST", "notes", "throttled")]
    with pytest.raises(NotNow, match=r"answers HTTP 429 \(Retry later\)") as error:
        note(server).write(note_body("x"), None)
    assert error.value.after == 1.0
    server.moods = [("POST", "notes", "noted")]
    with pytest.raises(NotNow, match="This endpoint has been requested too many times") as error:
        note(server).write(note_body("x"), None)
    assert error.value.after == 0.0


def test_a_later_pipelines_note_stays(server: GitLabServer) -> None:
    assert write(server, "new", 12) is None
    assert write(server, "old", 11) == 12
    assert "new" in server.notes[0].body
    assert write(server, "again", 12) is None
    assert "again" in server.notes[0].body


# --- who must act


def test_a_wrong_token(server: GitLabServer) -> None:
    with pytest.raises(ConfigError, match=r"does not accept the token from \$X \(401 Unauthorized\): make a project"):
        write(server, token="glpat-wrong-0123456789")
    assert len(server.requests) == 1


def test_an_expired_token(server: GitLabServer) -> None:
    server.tokens[OTHER] = Account(expired=True)
    with pytest.raises(ConfigError, match=r"does not accept the token from \$X \(invalid_token: Token is expired\. "):
        write(server, token=OTHER)


def test_the_jobs_own_token_is_none_for_this(server: GitLabServer) -> None:
    server.tokens[OTHER] = Account(kind="job")
    with pytest.raises(ConfigError, match="does not accept"):
        write(server, token=OTHER)


@pytest.mark.parametrize("scope", ["read_api", "read_user", "read_repository"])
def test_a_token_without_the_scope(server: GitLabServer, scope: str) -> None:
    server.tokens[OTHER] = Account(scopes=(scope,))
    with pytest.raises(ConfigError, match=r"\$X lacks the scope api \(insufficient_scope: The request requires"):
        write(server, token=OTHER)
    assert not server.notes


@pytest.mark.parametrize("role", [0, GUEST])
def test_a_role_that_does_not_see_the_merge_request(server: GitLabServer, role: int) -> None:
    server.roles[BOT] = role
    message = rf"the token from \$X does not see merge request !{MERGE_REQUEST} of project {PROJECT} \(404 .* Not Found"
    with pytest.raises(ConfigError, match=message):
        write(server)


def test_a_merge_request_that_takes_no_comments(server: GitLabServer) -> None:
    server.locked = True
    with pytest.raises(ConfigError, match=r"does not let the token from \$X write notes \(403 Forbidden\): its role"):
        write(server)


def test_a_note_that_gitlab_refuses(server: GitLabServer) -> None:
    with pytest.raises(ConfigError, match=r"refuses the note with HTTP 400: .*is too long \(maximum is 1000000"):
        note(server).write(MARK + "x" * LIMIT, None)


def test_nobody_listens(server: GitLabServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(
            InfrastructureError, match=r"does not answer \(.*Connection refused\); rtgate tries for 3 s"
        ):
            write(server)


def test_a_redirect_gets_no_token(server: GitLabServer) -> None:
    server.moods = [("GET", "user", "redirect")]
    with pytest.raises(ConfigError, match="redirects: CI_SERVER_URL must name the server that answers itself"):
        write(server)


@pytest.mark.parametrize("mood", ["401", "403", "404", "409", "500", "throttled", "page", "lost"])
def test_the_token_is_in_no_message_and_no_log(
    server: GitLabServer, mood: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for method, path in (("GET", "user"), ("GET", "notes"), ("POST", "notes")):
        server.moods = [(method, path, mood)]
        with pytest.raises((ConfigError, NotNow)) as error:
            note(server).write(note_body("x"), None)
        chain: BaseException | None = error.value
        while chain is not None:
            assert TOKEN not in f"{chain!r}"
            chain = chain.__cause__
    assert TOKEN not in repr(note(server))
    assert TOKEN not in caplog.text
