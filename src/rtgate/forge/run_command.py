# SPDX-License-Identifier: MIT
"""`/rtgate run` in a comment on a merge request: somebody has read its code, and one commit of it may run.

The commit is the last one when the comment was written, or the one that the comment names. Whoever proposes a change
may push at any moment, also between the comment and what is asked about it afterwards. So a push must be older than the
comment, by the server's own clock: dates in commits are the author's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from rtgate.errors import InfrastructureError
from rtgate.http.patience import Result

_COMMAND = re.compile(r"/rtgate[ \t]+run(?:[ \t]+([0-9a-f]{40}|[0-9a-f]{64}))?[ \t]*(?:\r?\n|$)")
_MENTIONED = re.compile(r"/rtgate\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Where somebody has said it, as a delivery names it.

    Attributes:
        project: `group/name`.
        merge_request: its number in the project.
        comment: the comment's number.
        head: the last proposed commit, if the delivery names it; never more than a reason to refuse.
    """

    project: str
    merge_request: int
    comment: int
    head: str = ""

    @property
    def key(self) -> str:
        """What tells it from all others. A delivery's own number does not: it is not signed."""
        return f"{self.project} {self.merge_request} {self.comment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as the forge has it.

    Attributes:
        author: who wrote it, as the forge's API names people.
        at: when it was written; it may have been edited since, by its author or another member.
    """

    author: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A merge request as the forge has it.

    Attributes:
        is_open: whether it may still be merged.
        head: the last proposed commit.
        push_time: since when that is so, by the forge's clock; None where the forge does not say.
    """

    is_open: bool
    head: str
    push_time: datetime | None


class CommandForge(Protocol):
    """What has comments and starts pipelines. Each request is made with patience.

    All raise ConfigError where the forge refuses the token, and InfrastructureError where it does not answer.
    """

    @property
    def role(self) -> str:
        """Who may say it, for people."""

    def comment(self, command: Command) -> Comment | None:
        """Return a comment; None where there is none any more, or it belongs to something else."""

    def may_run(self, author: str) -> bool:
        """Return whether somebody is a member who may write to the repository."""

    def proposal(self, command: Command) -> Proposal:
        """Return the merge request."""

    def start(self, command: Command, commit: str) -> None:
        """Start a pipeline of a protected branch that reviews this one commit."""

    def refuse(self, command: Command, text: str) -> None:
        """Say in a comment why nothing was started."""


def read_answer(answer: Any, reader: Callable[[Any], Result], mistake: str) -> Result:
    """Return what a reader makes of a forge's JSON. Raises InfrastructureError with `mistake`: it lacks something."""
    try:
        return reader(answer)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InfrastructureError(mistake) from None


def requested_commit(text: str) -> str | None:
    """Return the commit that a comment allows to run, empty for the last one; None where it is no such command.

    It must be the first line: what is quoted or shown as code further down is none.
    """
    match = _COMMAND.match(text)
    return None if match is None else match[1] or ""


def is_for_us(text: str) -> bool:
    """Return whether a comment begins as a command to rtgate does, right or wrong."""
    return _MENTIONED.match(text) is not None


def obstacle(command: Command, comment: Comment, proposal: Proposal) -> str:
    """Return why the last proposed commit must not run by a member's comment; empty if it may."""
    commit = requested_commit(comment.text)
    if commit is None:
        return "say `/rtgate run`, or `/rtgate run COMMIT` with all digits of the commit, in the first line"
    if not proposal.is_open:
        return "it is not open"
    if commit:
        return "" if commit == proposal.head else f"it ends at {proposal.head}, which is another commit: look at that"
    return _newness(command, comment, proposal)


def _newness(command: Command, comment: Comment, proposal: Proposal) -> str:
    """Return why the last proposed commit may not be the one that the author of a comment has seen."""
    if command.head and command.head != proposal.head:
        return f"it ends at {proposal.head} by now, which was pushed after the comment: look at that"
    advice = f"if you have looked at it, say `/rtgate run {proposal.head}`"
    if proposal.push_time is None:
        return f"nothing says when {proposal.head} was pushed: {advice}"
    if proposal.push_time >= comment.at:
        return f"{proposal.head} was not pushed before the comment was written: {advice}"
    return ""
