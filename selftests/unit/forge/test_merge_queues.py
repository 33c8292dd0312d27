# SPDX-License-Identifier: MIT
"""Merge trains of GitLab and merge queues of GitHub, with the histories that each way of merging makes.

Three merge requests of two commits each are in the queue; each stands on what is ahead of it. What is reviewed is what
one of them adds, and nothing of those ahead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.github_server import REPOSITORY, GitHubServer, github_server
from selftests.github_server import TOKEN as GITHUB_TOKEN
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, GitLabServer
from selftests.unit.forge.conftest import HASTY, URL, commit, git

from rtgate.errors import ConfigError
from rtgate.forge.github import GitHub
from rtgate.forge.gitlab import GitLab
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.kernel.merge import Commits, merged_by_forge, series

METHODS = ("merge", "rebase and merge", "fast-forward", "squash")
ANSWER = Answer(exit_code=1, markdown="**worse**", text="worse")


@dataclass(frozen=True)
class Queue:
    """A clone with the branch `main`, the branches `mr0` to `mr2`, and what the queue has made of them."""

    tree: Path
    ahead: tuple[str, ...]  # what each stands on
    results: tuple[str, ...]

    def commits(self, request: MergeRequest) -> Commits:
        assert request.merged
        return merged_by_forge(self.tree, request.base, request.head)

    def subjects(self, commits: Commits) -> list[str]:
        return [git(self.tree, "log", "-1", "--format=%s", one) for one in series(self.tree, commits)]


def _merge(tree: Path, branch: str, method: str) -> None:
    """Merge a branch into what is checked out."""
    ahead = git(tree, "rev-parse", "HEAD")
    if method == "squash":
        git(tree, "merge", "-q", "--squash", branch)
        git(tree, "commit", "-qm", f"squash {branch}")
        return
    if method != "merge":
        git(tree, "checkout", "-q", "--detach", branch)
        git(tree, "rebase", "-q", ahead)
    tip = git(tree, "rev-parse", branch if method == "merge" else "HEAD")
    git(tree, "checkout", "-q", "--detach", ahead)
    git(tree, "merge", "-q", "--ff-only" if method == "fast-forward" else "--no-ff", "-m", f"merge {branch}", tip)


@pytest.fixture(scope="module", params=METHODS)
def queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Queue:
    method = request.param
    tree = tmp_path_factory.mktemp("queue")
    git(tree, "init", "-q")
    git(tree, "config", "user.name", "jane")
    git(tree, "config", "user.email", "jane@example.org")
    commit(tree, "first")
    for number in range(3):
        git(tree, "checkout", "-q", "-b", f"mr{number}", "main")
        commit(tree, f"a{number}")
        commit(tree, f"b{number}")
    git(tree, "checkout", "-q", "main")
    commit(tree, "later")  # none of them forks from the tip
    git(tree, "checkout", "-q", "--detach", "main")
    ahead, results = [], []
    for number in range(3):
        ahead.append(git(tree, "rev-parse", "HEAD"))
        _merge(tree, f"mr{number}", method)
        results.append(git(tree, "rev-parse", "HEAD"))
    git(tree, "checkout", "-q", "main")
    for number, result in enumerate(results):
        git(tree, "update-ref", f"refs/merge-requests/{number}/train", result)
    return Queue(tree, tuple(ahead), tuple(results))


def subjects(request: pytest.FixtureRequest, number: int) -> list[str]:
    method = request.node.callspec.params["queue"]
    return [f"squash mr{number}"] if method == "squash" else [f"a{number}", f"b{number}"]


def train(queue: Queue, number: int, **more: str) -> GitLab:
    """Return the forge of a job in a merge train; GitLab's `target_sha` of its pipeline is what is ahead of it."""
    variables = {
        "CI_SERVER_URL": "https://gitlab.example.org",
        "CI_PROJECT_ID": str(PROJECT),
        "CI_PIPELINE_ID": "500",
        "CI_COMMIT_SHA": queue.results[number],
        "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
        "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
        "CI_MERGE_REQUEST_PROJECT_URL": URL,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": queue.ahead[number],
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": git(queue.tree, "rev-parse", f"mr{number}"),
        "CI_MERGE_REQUEST_EVENT_TYPE": "merge_train",
        **more,
    }
    return GitLab.from_environment(queue.tree, say=list[str]().append, variables=variables, patience=HASTY)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_merge_train_compares_with_what_is_ahead(queue: Queue, request: pytest.FixtureRequest, number: int) -> None:
    found = queue.commits(train(queue, number).merge_request())
    assert (found.base, found.candidate) == (queue.ahead[number], queue.results[number])
    assert queue.subjects(found) == subjects(request, number)


def test_the_answer_of_a_merge_train_is_the_note_of_its_merge_request(queue: Queue, server: GitLabServer) -> None:
    train(queue, 2, CI_SERVER_URL=server.url, RTGATE_GITLAB_TOKEN=TOKEN).publish(ANSWER)
    (note,) = server.notes
    assert "**worse**" in note.body


def group(queue: Queue, number: int, tmp_path: Path, **changes: object) -> dict[str, str]:
    """Return the variables of a job that the event `merge_group` started."""
    said = {
        "action": "checks_requested",
        "repository": {"html_url": f"https://github.com/{REPOSITORY}"},
        "merge_group": {
            "head_sha": queue.results[number],
            "head_ref": f"refs/heads/gh-readonly-queue/main/pr-{number + 7}-{queue.ahead[number]}",
            "base_sha": queue.ahead[number],
            "base_ref": "refs/heads/main",
            "head_commit": {"message": f"Merge pull request #{number + 7} @all\n\nmore"},
            **changes,
        },
    }
    path = tmp_path / "event.json"
    path.write_text(json.dumps(said))
    return {
        "GITHUB_EVENT_NAME": "merge_group",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": queue.results[number],
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": "https://api.github.com",
        "GITHUB_RUN_ID": "500",
    }


def from_group(queue: Queue, variables: dict[str, str], said: list[str] | None = None) -> GitHub:
    words: list[str] = [] if said is None else said
    return GitHub.from_environment(queue.tree, say=words.append, variables=variables, patience=HASTY)


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with github_server() as running:
        yield running


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_merge_group_compares_with_what_is_ahead(
    queue: Queue, request: pytest.FixtureRequest, tmp_path: Path, number: int
) -> None:
    asked = from_group(queue, group(queue, number, tmp_path)).merge_request()
    assert (asked.name, asked.target) == (f"merge group of #{number + 7}", "main")
    # A review cancels the jobs that a former one of the same URL has left: those of another group are not its own.
    assert asked.url == f"https://github.com/{REPOSITORY}/queue/main#{number + 7}"
    assert asked.title == f"Merge pull request #{number + 7} @all"
    found = queue.commits(asked)
    assert (found.base, found.candidate) == (queue.ahead[number], queue.results[number])
    assert queue.subjects(found) == subjects(request, number)


def test_the_answer_of_a_merge_group_is_the_check_run_of_its_head(
    queue: Queue, github: GitHubServer, tmp_path: Path
) -> None:
    github.head, said = queue.results[1], list[str]()
    variables = {**group(queue, 1, tmp_path), "GITHUB_API_URL": github.url, "GITHUB_TOKEN": GITHUB_TOKEN}
    from_group(queue, variables, said).publish(ANSWER)
    assert [(one["head_sha"], one["conclusion"]) for one in github.checks] == [(queue.results[1], "failure")]
    assert github.comments == []
    assert said == []


@pytest.mark.parametrize(
    "changes", [{"base_sha": "main"}, {"head_sha": None}, {"base_ref": "refs/tags/v1"}, {"head_commit": {}}]
)
def test_a_merge_group_that_lacks_something(queue: Queue, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="has no merge group, or not all of it"):
        from_group(queue, group(queue, 0, tmp_path, **changes))


def test_a_group_of_another_name_has_no_number(queue: Queue, tmp_path: Path) -> None:
    asked = from_group(queue, group(queue, 0, tmp_path, head_ref="refs/heads/queue/x")).merge_request()
    assert asked.name == "merge group"
    assert asked.url.endswith(f"#{queue.results[0]}")
