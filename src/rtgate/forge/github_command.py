# SPDX-License-Identifier: MIT
"""`/rtgate run` on GitHub: who may say it, when a commit was pushed, and the workflow that reviews it.

By page of GitHub's documentation: comments (`rest/issues/comments`), permissions (`rest/collaborators/collaborators`),
what was pushed to a branch and when (`rest/repos/repos`, "List repository activities"), workflows
(`rest/actions/workflows`, "Create a workflow dispatch event").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from rtgate.errors import ConfigError
from rtgate.forge.github_answer import Conversation
from rtgate.forge.github_api import Forbidden, GitHubApi
from rtgate.forge.note_body import harmless
from rtgate.forge.run_command import Command, Comment, Proposal, read_answer
from rtgate.http.patience import Patience, Result

_MISTAKE = "GitHub's answer lacks something: a proxy's page?"
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WRITES = {"admin", "write"}  # a maintainer has "write" here, a triager "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubCommands:
    """The comments of one repository. Keeps to `CommandForge`.

    Attributes:
        reference: the default branch, whose workflow is started.
        workflow: its file name.
    """

    api: GitHubApi
    reference: str
    workflow: str
    patience: Patience
    say: Callable[[str], None]
    role: str = "a member of the repository, with the permission to write"

    def comment(self, command: Command) -> Comment | None:
        """Return a comment; None also where it belongs to another pull request."""
        path = f"issues/comments/{command.comment}"
        reply = self._ask(lambda: self.api.send("GET", path, missing=True, kind=dict))
        if reply.status == 404:
            return None
        if not str(reply.value.get("issue_url")).endswith(f"/issues/{command.merge_request}"):
            return None
        return read_answer(reply.value, _comment, _MISTAKE)

    def may_run(self, author: str) -> bool:
        """Return whether somebody may write to the repository."""
        if not _LOGIN.fullmatch(author):  # `name[bot]`, and nobody: who is gone
            return False
        path = f"collaborators/{author}/permission"
        reply = self._ask(lambda: self.api.send("GET", path, missing=True, kind=dict))
        return reply.status != 404 and reply.value.get("permission") in _WRITES

    def proposal(self, command: Command) -> Proposal:
        """Return the pull request; what happened to its branch last tells when its last commit was pushed."""
        answer = self._ask(lambda: self.api.get(f"pulls/{command.merge_request}"))
        is_open, head, repository, branch = read_answer(answer, _branch, _MISTAKE)
        push_time = self._push_time(repository, branch, head) if repository else None
        return Proposal(is_open=is_open, head=head, push_time=push_time)

    def start(self, command: Command, commit: str) -> None:
        """Start the workflow."""
        inputs = {"pull-request": str(command.merge_request), "commit": commit}
        body = {"ref": self.reference, "inputs": inputs}
        self._ask(lambda: self.api.send("POST", f"actions/workflows/{self.workflow}/dispatches", body))

    def refuse(self, command: Command, text: str) -> None:
        """Write a comment."""
        conversation = Conversation(api=self.api, number=command.merge_request)
        self._ask(lambda: conversation.add(harmless(text)))

    def _push_time(self, repository: str, branch: str, head: str) -> datetime | None:
        """Return since when a branch ends at a commit; None where that cannot be seen, as of a private fork."""
        elsewhere = replace(self.api, repository=repository)
        path = f"activity?ref={quote(f'refs/heads/{branch}', safe='')}&per_page=1"
        try:
            reply = self._ask(lambda: elsewhere.send("GET", path, missing=True, kind=list))
        except Forbidden:
            return None
        if reply.status == 404:
            return None
        return read_answer(reply.value, lambda answer: _since(answer, head), _MISTAKE)

    def _ask(self, attempt: Callable[[], Result]) -> Result:
        return self.patience.repeat(attempt, self.api.url, self.say)


def check_workflow(name: str) -> str:
    """Return the file name of a workflow. Raises ConfigError: it is none."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*\.ya?ml", name):
        raise ConfigError(f"--workflow {name!r}: name a file of .github/workflows")
    return name


def _since(activities: Any, head: str) -> datetime | None:
    """Return when the newest activity made a branch end at a commit; None if it did not."""
    if not activities or activities[0]["after"] != head:
        return None
    return datetime.fromisoformat(activities[0]["timestamp"])


def _comment(answer: Any) -> Comment:
    user = answer["user"] or {}  # null for somebody who is gone
    return Comment(
        author=str(user.get("login", "")),
        text=str(answer["body"]),
        at=datetime.fromisoformat(answer["created_at"]),
    )


def _branch(answer: Any) -> tuple[bool, str, str, str]:
    head = answer["head"]
    repository = (head["repo"] or {}).get("full_name", "")  # null for a fork that was deleted
    return answer["state"] == "open", str(head["sha"]), str(repository), str(head["ref"])
