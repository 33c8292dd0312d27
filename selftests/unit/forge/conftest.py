# SPDX-License-Identifier: MIT
"""A stand-in GitLab, a clone as a job of a merge request pipeline has it, and the variables of that job."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, GitLabServer, gitlab_server

from rtgate.http.patience import Patience
from rtgate.http.secret import Token

HASTY = Patience(answer=1.0, total=3.0, first=0.01, longest=0.05)
URL = "https://gitlab.example.org/kernel/linux"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's own settings of git, proxies or .netrc take part."""
    for name in ("http_proxy", "https_proxy", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def server() -> Iterator[GitLabServer]:
    with gitlab_server() as running:
        yield running


@pytest.fixture
def token() -> Token:
    return Token(TOKEN, "$RTGATE_GITLAB_TOKEN")


@dataclass(frozen=True)
class Clone:
    """A job's clone; `commits` by name: `fork` where the change forks, `target` the branch's tip, `change`, `merge`."""

    tree: Path
    origin: Path
    commits: Mapping[str, str]

    def git(self, *arguments: str) -> str:
        return git(self.tree, *arguments)


def git(directory: Path, *arguments: str) -> str:
    who = ["-c", "user.name=jane", "-c", "user.email=jane@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", *who, "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(directory: Path, name: str) -> str:
    (directory / name).write_text(name)
    git(directory, "add", name)
    git(directory, "commit", "-qm", name)
    return git(directory, "rev-parse", "HEAD")


@pytest.fixture(scope="session")
def _clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    directory = tmp_path_factory.mktemp("forge")
    origin, tree = directory / "origin", directory / "tree"
    origin.mkdir()
    git(origin, "init", "-q")
    commits = {"fork": commit(origin, "a")}
    git(origin, "checkout", "-qb", "change")
    commits["change"] = commit(origin, "b")
    git(origin, "checkout", "-q", "main")
    commits["target"] = commit(origin, "c")
    git(origin, "checkout", "-qb", "merge")
    git(origin, "merge", "-q", "--no-ff", "-m", "merge", "change")
    commits["merge"] = git(origin, "rev-parse", "HEAD")
    tree.mkdir()
    git(tree, "init", "-q")
    git(tree, "remote", "add", "origin", "../origin")
    git(tree, "fetch", "-q", "--no-tags", "--refmap=", "origin", "refs/heads/change:refs/pipelines/1")
    return Clone(tree, origin, commits)


@pytest.fixture
def clone(_clone: Clone, tmp_path: Path) -> Clone:
    """Return a clone that has what was proposed, and not the target branch, as GitLab's runner makes it."""
    copy = Clone(tmp_path / "tree", tmp_path / "origin", _clone.commits)
    shutil.copytree(_clone.tree, copy.tree)
    shutil.copytree(_clone.origin, copy.origin)
    return copy


def detached(clone: Clone) -> dict[str, str]:
    """Return the variables of a job of a detached pipeline."""
    return {
        "CI_SERVER_URL": "https://gitlab.example.org",
        "CI_PROJECT_ID": str(PROJECT),
        "CI_PIPELINE_ID": "500",
        "CI_COMMIT_SHA": clone.commits["change"],
        "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
        "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
        "CI_MERGE_REQUEST_PROJECT_URL": URL,
        "CI_MERGE_REQUEST_TITLE": "sched: wake up later",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
        "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
    }


def merged(clone: Clone, kind: str = "merged_result") -> dict[str, str]:
    """Return the variables of a job that sees the result of merging, and bring that into the clone."""
    clone.git("fetch", "-q", "--no-tags", "origin", "refs/heads/merge:refs/pipelines/2")
    return {
        **detached(clone),
        "CI_COMMIT_SHA": clone.commits["merge"],
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": clone.commits["target"],
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": clone.commits["change"],
        "CI_MERGE_REQUEST_EVENT_TYPE": kind,
    }
