# SPDX-License-Identifier: MIT
"""What started a job of a workflow, from its event (GitHub's page `webhooks/webhook-events-and-payloads`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.kernel.merge import COMMIT

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_GROUP = re.compile(r"refs/heads/gh-readonly-queue/.*/pr-([1-9][0-9]{0,17})-[0-9a-f]+")
_BRANCH = "refs/heads/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request, or a group of them in a merge queue. Whoever proposed the change wrote the title.

    Attributes:
        number: of a group that of the last pull request in it; 0 where the group's name does not say it.
        target: the branch it goes to.
        base: the commit that this branch had, of a group what is ahead of it in the queue; empty where it was not said.
        head: the last proposed commit, of a group the result of merging.
        fork: whether its jobs have a token that only reads, as it comes from another repository.
        group: whether it is a group: GitHub has merged it already.
    """

    number: int
    title: str
    url: str
    target: str
    base: str
    head: str
    fork: bool = False
    group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRequest:
    """A pull request that a workflow of the default branch is asked to review, at one commit."""

    number: int
    commit: str


def read_event(path: Path, name: str) -> PullRequest | DispatchRequest:
    """Return what an event's file is about.

    Args:
        path: the file.
        name: of the event: `pull_request`, `merge_group` or `workflow_dispatch`.

    Raises:
        ConfigError: it is another event, or the file cannot be read, or lacks something.
    """
    reader = _READERS.get(name)
    if reader is None:
        raise ConfigError(
            f"GITHUB_EVENT_NAME is {name!r}: `--forge github` needs the event pull_request, merge_group or "
            "workflow_dispatch"
        )
    try:
        event = json.loads(files.read_text(path, files.JSON_LIMIT))
    except OSError as error:
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} is not JSON") from None
    try:
        return reader(event)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"GITHUB_EVENT_PATH: {path} has no {name.replace('_', ' ')}, or not all of it") from None


def pull_request(fields: Mapping[str, Any]) -> PullRequest:
    """Return a pull request as GitHub describes it. Raises KeyError, TypeError, ValueError: something is missing."""
    base, head = fields["base"], fields["head"]
    if not isinstance(fields["number"], int):
        raise TypeError
    return PullRequest(
        number=fields["number"],
        title=str(fields["title"]),
        url=str(fields["html_url"]),
        target=str(base["ref"]),
        base=_commit(base["sha"]),
        head=_commit(head["sha"]),
        # The repository of a fork that was deleted is null.
        fork=head["repo"] is None or head["repo"]["id"] != base["repo"]["id"],
    )


def _merge_group(event: Mapping[str, Any]) -> PullRequest:
    group = event["merge_group"]
    if event["action"] != "checks_requested" or not group["base_ref"].startswith(_BRANCH):
        raise ValueError
    match = _GROUP.fullmatch(group["head_ref"])
    number = int(match[1]) if match else 0
    page = f"{event['repository']['html_url']}/queue/{group['base_ref'].removeprefix(_BRANCH)}"
    return PullRequest(
        number=number,
        title=group["head_commit"]["message"].partition("\n")[0],
        # The page is that of all groups; each must have a URL of its own, as jobs in a lab are told apart by it.
        url=f"{page}#{number or _commit(group['head_sha'])}",
        target=group["base_ref"].removeprefix(_BRANCH),
        base=_commit(group["base_sha"]),
        head=_commit(group["head_sha"]),
        group=True,
    )


def _dispatch_request(event: Mapping[str, Any]) -> DispatchRequest:
    inputs = event["inputs"]
    if not _NUMBER.fullmatch(inputs["pull-request"]):
        raise ValueError
    return DispatchRequest(number=int(inputs["pull-request"]), commit=_commit(inputs["commit"]))


def _commit(text: str) -> str:
    if not COMMIT.fullmatch(text):
        raise ValueError
    return text


_READERS: Mapping[str, Callable[[Mapping[str, Any]], PullRequest | DispatchRequest]] = {
    "pull_request": lambda event: pull_request(event["pull_request"]),
    "merge_group": _merge_group,
    "workflow_dispatch": _dispatch_request,
}
