# SPDX-License-Identifier: MIT
"""What rtgate writes to a pull request on GitHub, by its REST API: a check run, and one comment updated in place.

A token that may write comments may also edit those of others, so whose a comment is must be looked at. GitHub tells an
app's token nothing about itself (`GET /user` is 403). The answer to a new check run does: it names the app.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtgate.forge.github_api import GitHubApi, created_object
from rtgate.forge.note_body import has_mark, pipeline_of

ACTIONS = "github-actions[bot]"
"""Whose the comments are that a job's own token writes."""
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check run that has ended.

    Attributes:
        head: the commit it is shown at.
        run: the workflow run it comes from; empty where nothing says it.
        url: of that run.
    """

    head: str
    conclusion: str
    title: str
    summary: str
    run: str = ""
    url: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return what GitHub expects."""
        more = {"external_id": self.run, "details_url": self.url}
        return {
            "name": "rtgate",
            "head_sha": self.head,
            "status": "completed",
            "conclusion": self.conclusion,
            "output": {"title": self.title[:_LONGEST_TITLE], "summary": self.summary},
            **{name: text for name, text in more.items() if text},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A pull request, as what is written to it.

    Attributes:
        number: of the pull request.
    """

    api: GitHubApi
    number: int

    def check(self, check: Check) -> str:
        """Create a check run, and return whose comments this token writes. To do it twice does no harm.

        Raises:
            Forbidden: the token may not.
            ConfigError: GitHub refuses the token or the check run.
            NotNow: GitHub does not answer, or asks to come later.
        """
        check_run = created_object(self.api.send("POST", "check-runs", check.as_json()))
        slug = (check_run.get("app") or {}).get("slug")
        return f"{slug}[bot]" if slug else ACTIONS

    def comment(self, body: str, run: int | None, author: str) -> int | None:
        """Write our comment: the one that is there, or a new one. To do it twice does no harm.

        Returns:
            The run that wrote the comment that is there, if it is later than `run`. Nothing is written then.

        Raises:
            Forbidden: the token may not.
            ConfigError: GitHub refuses the token or the comment.
            NotNow: GitHub does not answer, or asks to come later.
        """
        ours = [comment for comment in self.api.pages(self._path()) if _is_ours(comment, author)]
        latest = max((pipeline_of(comment["body"]) or 0 for comment in ours), default=0)
        if run is not None and latest > run:
            return latest
        if not (ours and self._update(ours[0]["id"], body)):
            self.add(body)
        # Of two jobs at once each may have made one.
        for comment in ours[1:]:
            self.api.send("DELETE", f"issues/comments/{comment['id']}", missing=True)
        return None

    def add(self, body: str) -> None:
        """Write a new comment. Raises as `comment`."""
        created_object(self.api.send("POST", self._path(), {"body": body}))

    def _path(self) -> str:
        return f"issues/{self.number}/comments"

    def _update(self, number: int, body: str) -> bool:
        """Return whether a comment was there to be updated."""
        reply = self.api.send("PATCH", f"issues/comments/{number}", {"body": body}, missing=True)
        return reply.status != 404 and bool(created_object(reply))


def _is_ours(comment: Mapping[str, Any], author: str) -> bool:
    user = comment.get("user") or {}  # null for somebody who is gone
    # No person's name has brackets.
    return user.get("login") == author and user.get("type") == "Bot" and has_mark(comment.get("body") or "")
