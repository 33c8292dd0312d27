# SPDX-License-Identifier: MIT
"""What the two forges say about `/rtgate run`: `GitLabCommands` and `GitHubCommands` against their stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from selftests import github_server as gh
from selftests import gitlab_server as gl
from selftests.github_server import GitHubServer, github_server
from selftests.gitlab_server import GitLabServer
from selftests.unit.forge.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.github_api import GitHubApi
from rtgate.forge.github_command import GitHubCommands, check_workflow
from rtgate.forge.gitlab_api import GitLabApi
from rtgate.forge.gitlab_command import GitLabCommands
from rtgate.forge.run_command import Command, CommandForge, Comment, Proposal
from rtgate.http.secret import Token

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
ELEVEN = NOON.replace(hour=11)
NOTE = Command(project=gl.PATH, merge_request=gl.MERGE_REQUEST, comment=1)
COMMENT = Command(project=gh.REPOSITORY, merge_request=gh.PULL_REQUEST, comment=1)


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with github_server() as running:
        running.tokens[gh.TOKEN].permissions += ("actions: write",)
        yield running


def gitlab_commands(server: GitLabServer) -> CommandForge:
    api = GitLabApi(url=server.url, project=gl.PATH, token=Token(gl.TOKEN, "$X"), answer_s=1.0)
    return GitLabCommands(api=api, reference="main", patience=HASTY, say=list[str]().append)


def github_commands(server: GitHubServer, workflow: str = "rtgate-run.yml") -> CommandForge:
    api = GitHubApi(url=server.url, repository=gh.REPOSITORY, token=Token(gh.TOKEN, "$X"), patience=HASTY)
    return GitHubCommands(api=api, reference="main", workflow=workflow, patience=HASTY, say=list[str]().append)


def test_a_note_of_gitlab(server: GitLabServer) -> None:
    server.add(gl.MAINTAINER, "/rtgate run").at = "2026-11-25T13:00:00.000+01:00"
    assert gitlab_commands(server).comment(NOTE) == Comment(author=str(gl.MAINTAINER), text="/rtgate run", at=NOON)


def test_a_note_that_is_gone_or_nobodys(server: GitLabServer) -> None:
    assert gitlab_commands(server).comment(NOTE) is None
    server.add(gl.MAINTAINER, "/rtgate run", system=True)
    assert gitlab_commands(server).comment(NOTE) is None


@pytest.mark.parametrize(
    ("role", "may"), [(0, False), (gl.GUEST, False), (gl.REPORTER, False), (gl.DEVELOPER, True), (gl.MAINTAIN, True)]
)
def test_a_member_of_gitlab_with_the_role_developer_or_more(server: GitLabServer, role: int, may: bool) -> None:
    server.roles[555] = role
    assert gitlab_commands(server).may_run("555") is may
    server.inactive.add(555)
    assert gitlab_commands(server).may_run("555") is False


def test_gitlabs_newest_version_says_when_the_head_was_pushed(server: GitLabServer) -> None:
    server.versions += [("b" * 40, "2026-11-25T12:00:00.000Z"), (gl.HEAD, "2026-11-25T12:30:00.000Z")]
    pushed = NOON.replace(minute=30)
    assert gitlab_commands(server).proposal(NOTE) == Proposal(is_open=True, head=gl.HEAD, push_time=pushed)


def test_a_push_whose_version_gitlab_is_still_to_make(server: GitLabServer) -> None:
    """Also where the commit was there long ago."""
    server.versions += [("b" * 40, "2026-11-25T11:30:00.000Z")]
    assert gitlab_commands(server).proposal(NOTE).push_time is None


def test_a_merge_request_that_is_closed(server: GitLabServer) -> None:
    server.state = "closed"
    assert not gitlab_commands(server).proposal(NOTE).is_open


def test_a_pipeline_of_gitlab_gets_the_commit(server: GitLabServer) -> None:
    server.roles[gl.BOT] = gl.MAINTAIN
    gitlab_commands(server).start(NOTE, gl.HEAD)
    assert server.pipelines == [{"ref": "main", "inputs": {"merge-request": "7", "commit": gl.HEAD}}]


def test_a_pipeline_that_gitlab_refuses(server: GitLabServer) -> None:
    with pytest.raises(ConfigError, match=r"refuses .*/pipeline with HTTP 400: .*sufficient permission to run"):
        gitlab_commands(server).start(NOTE, gl.HEAD)
    server.roles[gl.BOT], server.inputs = gl.MAINTAIN, ()
    with pytest.raises(ConfigError, match="Given inputs not defined"):
        gitlab_commands(server).start(NOTE, gl.HEAD)


def test_gitlab_that_is_away_for_a_moment(server: GitLabServer) -> None:
    server.roles[gl.BOT] = gl.MAINTAIN
    server.moods = [("POST", "pipeline", "503"), ("GET", "versions", "throttled"), ("GET", "members", "page")]
    ours = gitlab_commands(server)
    assert ours.may_run(str(gl.MAINTAINER))
    assert ours.proposal(NOTE).push_time == ELEVEN
    ours.start(NOTE, gl.HEAD)
    assert len(server.pipelines) == 1


def test_github_that_shows_a_page_for_a_moment(github: GitHubServer) -> None:
    github.moods = [("GET", path, "page") for path in ("comments/1", "permission", "activity")]
    github.add("linus", "/rtgate run")
    ours = github_commands(github)
    assert ours.comment(COMMENT) is not None
    assert ours.may_run("linus")
    assert ours.proposal(COMMENT).push_time == ELEVEN
    assert github.moods == []


def test_a_comment_of_github(github: GitHubServer) -> None:
    github.add("linus", "/rtgate run")
    assert github_commands(github).comment(COMMENT) == Comment(author="linus", text="/rtgate run", at=NOON)
    elsewhere = Command(project=gh.REPOSITORY, merge_request=8, comment=1)
    assert github_commands(github).comment(elsewhere) is None
    github.comments.clear()
    assert github_commands(github).comment(COMMENT) is None


@pytest.mark.parametrize(
    ("login", "may"),
    [("linus", True), ("greg", True), ("reader", False), ("jane", False), ("rtgate[bot]", False), ("", False)],
)
def test_a_member_of_github_who_may_write(github: GitHubServer, login: str, may: bool) -> None:
    assert github_commands(github).may_run(login) is may


def test_githubs_activity_says_when_the_head_was_pushed(github: GitHubServer) -> None:
    assert github_commands(github).proposal(COMMENT) == Proposal(is_open=True, head=gh.HEAD, push_time=ELEVEN)
    github.pushes += [("b" * 40, "2026-11-25T11:30:00Z")]
    assert github_commands(github).proposal(COMMENT).push_time is None  # the pull request is behind its branch


@pytest.mark.parametrize("source", [None, gh.FORK])
def test_a_fork_that_cannot_be_seen(github: GitHubServer, source: str | None) -> None:
    github.source, github.private = source, True
    assert github_commands(github).proposal(COMMENT).push_time is None


def test_a_workflow_of_github_gets_the_commit(github: GitHubServer) -> None:
    github_commands(github).start(COMMENT, gh.HEAD)
    assert github.dispatches == [{"ref": "main", "inputs": {"pull-request": "7", "commit": gh.HEAD}}]


def test_a_workflow_that_is_not_there_or_not_allowed(github: GitHubServer) -> None:
    with pytest.raises(ConfigError, match=r"does not see actions/workflows/other.yml/dispatches of kernel/linux"):
        github_commands(github, "other.yml").start(COMMENT, gh.HEAD)
    github.tokens[gh.TOKEN].permissions = ()
    with pytest.raises(ConfigError, match="does not let the token"):
        github_commands(github).start(COMMENT, gh.HEAD)


@pytest.mark.parametrize("name", ["../x.yml", "x", "", "a/b.yml", "-x.yml"])
def test_what_is_no_workflow(name: str) -> None:
    with pytest.raises(ConfigError, match=r"name a file of \.github/workflows"):
        check_workflow(name)


def test_a_refusal_mentions_nobody_and_is_no_command(server: GitLabServer, github: GitHubServer) -> None:
    gitlab_commands(server).refuse(NOTE, "/merge\n@all: `/rtgate run` started nothing.")
    github_commands(github).refuse(COMMENT, "@all: `/rtgate run` started nothing.")
    assert (server.quick_actions, server.mentions, github.mentions) == ([], [], [])
    assert "started nothing" in server.notes[0].body
    assert "started nothing" in github.comments[0].body


def test_an_answer_that_lacks_something(server: GitLabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: (200, {"id": 1}, {}))
    with pytest.raises(InfrastructureError, match="lacks something"):
        gitlab_commands(server).comment(NOTE)
