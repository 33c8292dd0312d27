# SPDX-License-Identifier: MIT
"""`/rtgate run` on GitLab: who may say it, when a commit was pushed, and the pipeline that reviews it.

By page of GitLab's documentation: notes (`api/notes`), members with those of groups above (`api/project_members`,
"all"), versions of a merge request, one for each push (`api/merge_requests`), pipelines with inputs (`api/pipelines`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rtgate.forge.gitlab_api import GitLabApi, GitLabRefusal, Session
from rtgate.forge.note_body import harmless
from rtgate.forge.run_command import Command, Comment, Proposal, read_answer
from rtgate.http.patience import Patience, Result

_MISTAKE = "GitLab's answer lacks something: is it older than 18.1?"
_DEVELOPER = 30  # page `api/members`, "Roles"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLabCommands:
    """The comments of one project. Keeps to `CommandForge`.

    Attributes:
        reference: the protected branch whose `.gitlab-ci.yml` says what a review does.
    """

    api: GitLabApi
    reference: str
    patience: Patience
    say: Callable[[str], None]
    role: str = "a member of the project, with the role Developer or more"

    def comment(self, command: Command) -> Comment | None:
        """Return a note."""
        try:
            note = self._ask(lambda session: session.get(f"{_path(command)}/notes/{command.comment}"))
        except GitLabRefusal as error:
            _require_missing(error)
            return None
        return None if note.get("system") else read_answer(note, _comment, _MISTAKE)

    def may_run(self, author: str) -> bool:
        """Return whether somebody has the role Developer or more, also by a group."""
        try:
            member = self._ask(lambda session: session.get(f"members/all/{author}"))
        except GitLabRefusal as error:
            _require_missing(error)
            return False
        return read_answer(member, _is_developer, _MISTAKE)

    def proposal(self, command: Command) -> Proposal:
        """Return the merge request; its newest version tells when the last commit was pushed."""

        def ask(session: Session) -> Proposal:
            merge_request = session.get(_path(command))
            versions = list(session.pages(f"{_path(command)}/versions"))
            return read_answer((merge_request, versions), lambda both: _proposal(*both), _MISTAKE)

        return self._ask(ask)

    def start(self, command: Command, commit: str) -> None:
        """Start a pipeline of the protected branch."""
        inputs = {"merge-request": str(command.merge_request), "commit": commit}
        self._ask(lambda session: session.post("pipeline", {"ref": self.reference, "inputs": inputs}))

    def refuse(self, command: Command, text: str) -> None:
        """Write a note."""
        self._ask(lambda session: session.post(f"{_path(command)}/notes", {"body": harmless(text)}))

    def _ask(self, attempt: Callable[[Session], Result]) -> Result:
        def once() -> Result:
            with self.api.session() as session:
                return attempt(session)

        return self.patience.repeat(once, self.api.url, self.say)


def _path(command: Command) -> str:
    return f"merge_requests/{command.merge_request}"


def _require_missing(error: GitLabRefusal) -> None:
    """Raise an error, unless it says that there is no such thing."""
    if error.status != 404:
        raise error


def _comment(note: Any) -> Comment:
    at = datetime.fromisoformat(note["created_at"])
    return Comment(author=str(int(note["author"]["id"])), text=str(note["body"]), at=at)


def _is_developer(member: Any) -> bool:
    return int(member["access_level"]) >= _DEVELOPER and member["state"] == "active"


def _proposal(merge_request: Any, versions: list[Any]) -> Proposal:
    newest = max(versions, key=lambda version: int(version["id"]), default=None)
    # A moment after a push the merge request has the commit, and its version is still to be made.
    is_known = newest is not None and newest["head_commit_sha"] == merge_request["sha"]
    push_time = datetime.fromisoformat(newest["created_at"]) if is_known and newest else None
    return Proposal(is_open=merge_request["state"] == "opened", head=str(merge_request["sha"]), push_time=push_time)
