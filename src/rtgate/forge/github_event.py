# SPDX-License-Identifier: MIT
"""The pull request of a job, from the event that started it (GitHub's page `webhooks`, "pull_request")."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.errors import ConfigError

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """What the event says. Whoever proposed the change wrote the title.

    Attributes:
        target: the branch it goes to.
        base: the commit that this branch had.
        head: the last proposed commit.
        fork: whether it comes from another repository.
    """

    number: int
    title: str
    url: str
    target: str
    base: str
    head: str
    fork: bool


def read_event(path: Path) -> PullRequest:
    """Return the pull request of an event's file.

    Raises:
        ConfigError: the file cannot be read, or has no pull request.
    """
    try:
        event = json.loads(files.read_text(path, files.JSON_LIMIT))
    except OSError as error:
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} is not JSON") from None
    try:
        return _pull_request(event["pull_request"])
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} has no pull request, or not all of it") from None


def _pull_request(said: Mapping[str, Any]) -> PullRequest:
    base, head = said["base"], said["head"]
    if not (isinstance(said["number"], int) and _COMMIT.fullmatch(base["sha"]) and _COMMIT.fullmatch(head["sha"])):
        raise ValueError
    return PullRequest(
        number=said["number"],
        title=str(said["title"]),
        url=str(said["html_url"]),
        target=str(base["ref"]),
        base=base["sha"],
        head=head["sha"],
        # The repository of a fork that was deleted is null.
        fork=head["repo"] is None or head["repo"]["id"] != base["repo"]["id"],
    )
