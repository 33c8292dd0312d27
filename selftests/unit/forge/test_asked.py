# SPDX-License-Identifier: MIT
"""Pipelines of the target branch that are asked to review one commit of a merge request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from selftests import github_server as gh
from selftests.github_server import GitHubServer, github_server
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, GitLabServer
from selftests.unit.forge.conftest import HASTY, URL, Clone, git

from rtgate.errors import ConfigError
from rtgate.forge.github import GitHub
from rtgate.forge.gitlab import GitLab
from rtgate.forge.merge_request import Answer, MergeRequest

ANSWER = Answer(exit_code=0, markdown="good", text="good")


@pytest.fixture
def asked(clone: Clone, server: GitLabServer) -> dict[str, str]:
    """Return the variables of a job whose clone has nothing of the merge request; a later commit was pushed to it."""
    server.head = "f" * 40
    server.versions = [(clone.commits["change"], "2026-11-25T11:00:00Z"), (server.head, "2026-11-25T13:00:00Z")]
    git(clone.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(clone.origin, "update-ref", "refs/keep-around/1", clone.commits["change"])
    git(clone.origin, "branch", "-qD", "change")
    clone.git("update-ref", "-d", "refs/pipelines/1")
    clone.git("gc", "-q", "--prune=now")
    return {
        "CI_SERVER_URL": server.url,
        "CI_PROJECT_ID": str(PROJECT),
        "CI_PROJECT_URL": URL,
        "CI_PIPELINE_ID": "500",
        "CI_PIPELINE_SOURCE": "api",
        "CI_COMMIT_SHA": clone.commits["target"],
        "RTGATE_MERGE_REQUEST": str(MERGE_REQUEST),
        "RTGATE_COMMIT": clone.commits["change"],
        "RTGATE_GITLAB_TOKEN": TOKEN,
    }


def gitlab(clone: Clone, variables: dict[str, str]) -> GitLab:
    return GitLab.from_environment(clone.tree, say=list[str]().append, variables=variables, patience=HASTY)


def test_gitlab_reviews_the_commit_that_was_allowed(clone: Clone, server: GitLabServer, asked: dict[str, str]) -> None:
    forge = gitlab(clone, asked)
    assert forge.merge_request() == MergeRequest(
        base=clone.commits["target"],
        head=clone.commits["change"],
        name=f"!{MERGE_REQUEST}",
        title="late @all",
        url=f"{URL}/-/merge_requests/{MERGE_REQUEST}",
        target="main",
    )
    forge.publish(ANSWER)
    assert "good" in server.notes[0].body


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("RTGATE_COMMIT", "", "name the commit of !7 that may run, with all its digits"),
        ("RTGATE_COMMIT", "main", "RTGATE_COMMIT is 'main'"),
        ("RTGATE_COMMIT", "e" * 40, f"!7 never ended at {'e' * 40}"),
        ("RTGATE_GITLAB_TOKEN", "", "RTGATE_GITLAB_TOKEN is not set, which finds out about !7"),
        ("RTGATE_MERGE_REQUEST", "8", "does not see .*/merge_requests/8"),
        ("RTGATE_MERGE_REQUEST", "7/..", "CI_MERGE_REQUEST_IID is '7/..', not a number"),
    ],
)
def test_what_gitlab_is_not_asked_well(clone: Clone, asked: dict[str, str], name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gitlab(clone, {**asked, name: text}).merge_request()


def test_a_merge_request_that_was_merged_meanwhile(clone: Clone, server: GitLabServer, asked: dict[str, str]) -> None:
    server.state = "merged"
    with pytest.raises(ConfigError, match="!7 is merged: there is nothing to review"):
        gitlab(clone, asked).merge_request()


def test_a_pipeline_of_a_merge_request_is_asked_nothing_else(clone: Clone, asked: dict[str, str]) -> None:
    """What its own CI file says of another merge request does not count."""
    forge = gitlab(clone, {**asked, "CI_MERGE_REQUEST_IID": "12"})
    assert forge.variables["CI_MERGE_REQUEST_IID"] == "12"
    assert forge.variables["CI_COMMIT_SHA"] == clone.commits["target"]


@pytest.fixture
def github(clone: Clone) -> Iterator[GitHubServer]:
    with github_server() as running:
        running.head = clone.commits["change"]
        clone.git("fetch", "-q", "origin", "refs/heads/main:refs/remotes/origin/main")
        yield running


def dispatched(
    clone: Clone, server: GitHubServer, said: list[str] | None = None, tip: str = "target", **inputs: str
) -> GitHub:
    path = clone.tree.parent / "event.json"
    path.write_text(json.dumps({"inputs": {"pull-request": "7", "commit": clone.commits["change"], **inputs}}))
    variables = {
        "GITHUB_EVENT_NAME": "workflow_dispatch",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": clone.commits[tip],
        "GITHUB_REPOSITORY": gh.REPOSITORY,
        "GITHUB_API_URL": server.url,
        "GITHUB_RUN_ID": "500",
        "GITHUB_TOKEN": gh.TOKEN,
    }
    say = [] if said is None else said
    return GitHub.from_environment(clone.tree, say=say.append, variables=variables, patience=HASTY)


def test_github_reviews_the_commit_that_was_allowed(clone: Clone, github: GitHubServer) -> None:
    forge = dispatched(clone, github)
    found = forge.merge_request()
    assert (found.base, found.head) == (clone.commits["target"], clone.commits["change"])
    assert (found.name, found.title, found.merged) == ("#7", "late @all", False)
    forge.publish(ANSWER)
    assert [(one["head_sha"], one["conclusion"]) for one in github.checks] == [(clone.commits["change"], "success")]
    assert "good" in github.comments[0].body


def test_a_commit_that_was_merged_into_the_default_branch_is_compared_with_its_own_target(
    clone: Clone, github: GitHubServer
) -> None:
    """Another pull request of the same branch was merged: the tip's second parent is what is asked about."""
    clone.git("fetch", "-q", "origin", "refs/heads/merge:refs/remotes/origin/merge")
    found = dispatched(clone, github, tip="merge").merge_request()
    assert (found.base, found.head, found.merged) == (clone.commits["target"], clone.commits["change"], False)


def test_the_job_that_is_asked_about_a_fork_is_told_which_permissions_it_lacks(
    clone: Clone, github: GitHubServer
) -> None:
    github.tokens[gh.TOKEN].permissions = ("contents: read",)
    said: list[str] = []
    dispatched(clone, github, said).publish(ANSWER)
    assert "give the job `permissions: {checks: write}`" in said[0]
    assert "give the job `permissions: {pull-requests: write}`" in said[1]


def test_a_commit_that_the_pull_request_no_longer_ends_at(clone: Clone, github: GitHubServer) -> None:
    github.older, github.head = (github.head,), "f" * 40
    forge = dispatched(clone, github)
    with pytest.raises(ConfigError, match=r"#7 ends at ffffffffffff, and .* was to run: look at what was pushed"):
        forge.merge_request()
    forge.publish(replace(ANSWER, exit_code=2))
    assert [(check["head_sha"], check["conclusion"]) for check in github.checks] == [
        (clone.commits["change"], "action_required")
    ]
    assert len(github.comments) == 1


def test_a_pull_request_that_was_closed(clone: Clone, github: GitHubServer) -> None:
    github.state = "closed"
    forge = dispatched(clone, github)
    with pytest.raises(ConfigError, match="#7 is not open"):
        forge.merge_request()
    forge.publish(replace(ANSWER, exit_code=2))
    assert len(github.comments) == 1


@pytest.mark.parametrize("inputs", [{"pull-request": "0"}, {"pull-request": "7/.."}, {"commit": "main"}])
def test_what_github_is_not_asked_well(clone: Clone, github: GitHubServer, inputs: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="has no workflow dispatch, or not all of it"):
        dispatched(clone, github, None, **inputs)
