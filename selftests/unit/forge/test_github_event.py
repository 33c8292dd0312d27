# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rtgate.errors import ConfigError
from rtgate.forge.github_event import PullRequest, read_event

HOME = {"id": 1, "full_name": "kernel/linux"}


def event() -> dict[str, Any]:
    return {
        "number": 7,
        "title": "late",
        "html_url": "https://github.com/kernel/linux/pull/7",
        "base": {"ref": "main", "sha": "a" * 40, "repo": HOME},
        "head": {"ref": "x", "sha": "b" * 40, "repo": HOME},
    }


def read(tmp_path: Path, said: object) -> PullRequest:
    (tmp_path / "event.json").write_text(json.dumps(said))
    event = read_event(tmp_path / "event.json", "pull_request")
    assert isinstance(event, PullRequest)
    return event


def test_a_branch_of_the_same_repository(tmp_path: Path) -> None:
    assert read(tmp_path, {"pull_request": event()}) == PullRequest(
        number=7,
        title="late",
        url="https://github.com/kernel/linux/pull/7",
        target="main",
        base="a" * 40,
        head="b" * 40,
        fork=False,
    )


@pytest.mark.parametrize("repository", [None, {"id": 2, "full_name": "kernel/linux"}])
def test_a_fork_is_told_by_its_number_and_may_be_gone(tmp_path: Path, repository: object) -> None:
    said = event()
    said["head"]["repo"] = repository
    assert read(tmp_path, {"pull_request": said}).fork


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("number",), "7"),
        (("base",), None),
        (("base", "sha"), "main"),
        (("head", "sha"), "--help"),
        (("head", "sha"), 5),
        (("head", "repo"), "x"),
    ],
)
def test_an_event_that_lacks_something(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    said = event()
    where = said
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    with pytest.raises(ConfigError, match="has no pull request, or not all of it"):
        read(tmp_path, {"pull_request": said})


@pytest.mark.parametrize("said", [{}, [], None, {"pull_request": []}])
def test_the_event_of_something_else(tmp_path: Path, said: object) -> None:
    with pytest.raises(ConfigError, match="has no pull request"):
        read(tmp_path, said)


def test_what_is_not_json(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_bytes(b"\xff{")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_event(tmp_path / "event.json", "pull_request")
