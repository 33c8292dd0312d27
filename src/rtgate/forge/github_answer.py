# SPDX-License-Identifier: MIT
"""What rtgate writes to a pull request on GitHub, by its REST API: a check run, and one comment updated in place.

A token that may write comments may also edit those of others, so whose a comment is must be looked at. GitHub tells an
app's token nothing about itself (`GET /user` is 403). The answer to a new check run does: it names the app.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtgate.errors import ConfigError
from rtgate.forge.note_body import has_mark, pipeline_of
from rtgate.http.client import Http, NoAnswer, Refused, Reply
from rtgate.http.failures import is_passing, one_line, seconds
from rtgate.http.patience import NotNow, Patience
from rtgate.http.secret import Token

ACTIONS = "github-actions[bot]"
"""Whose the comments are that a job's own token writes."""
_PAGE = 100  # the most that GitHub sends at once
_LIMITED_S = 60.0  # to wait where a limit does not say how long (page "Rate limits for the REST API")
_LONGEST_TITLE = 200


class NotAllowed(ConfigError):  # noqa: N818 - what happened, not whose mistake
    """GitHub knows the token, and does not let it do this."""


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
        url: of GitHub's API.
        repository: `owner/name`.
        number: of the pull request.
        patience: how long to wait for one answer.
    """

    url: str
    repository: str
    number: int
    token: Token
    patience: Patience = field(default_factory=Patience)

    def check(self, check: Check) -> str:
        """Create a check run, and return whose comments this token writes. To do it twice does no harm.

        Raises:
            NotAllowed: the token may not.
            ConfigError: GitHub refuses the token or the check run.
            NotNow: GitHub does not answer, or asks to come later.
        """
        made = _object(self._send("POST", "check-runs", check.as_json()))
        slug = (made.get("app") or {}).get("slug")
        return f"{slug}[bot]" if slug else ACTIONS

    def comment(self, body: str, run: int | None, author: str) -> int | None:
        """Write our comment: the one that is there, or a new one. To do it twice does no harm.

        Returns:
            The run that wrote the comment that is there, if it is later than `run`. Nothing is written then.

        Raises:
            NotAllowed: the token may not.
            ConfigError: GitHub refuses the token or the comment.
            NotNow: GitHub does not answer, or asks to come later.
        """
        ours = [one for one in self._comments() if _is_ours(one, author)]
        latest = max((pipeline_of(one["body"]) or 0 for one in ours), default=0)
        if run is not None and latest > run:
            return latest
        if not (ours and self._update(ours[0]["id"], body)):
            _object(self._send("POST", self._path(), {"body": body}))
        # Of two jobs at once each may have made one.
        for one in ours[1:]:
            self._send("DELETE", f"issues/comments/{one['id']}", missing=True)
        return None

    def _path(self) -> str:
        return f"issues/{self.number}/comments"

    def _comments(self) -> Iterator[Mapping[str, Any]]:
        """Yield all comments, oldest first. Pages are counted: GitHub's link may name a host that we do not reach."""
        page = 1
        while True:
            reply = self._send("GET", f"{self._path()}?per_page={_PAGE}&page={page}")
            comments = _json(reply)
            if not isinstance(comments, list):
                raise NotNow(_NO_JSON)
            yield from comments
            if 'rel="next"' not in reply.headers.get("link", ""):
                return
            page += 1

    def _update(self, number: int, body: str) -> bool:
        """Return whether a comment was there to be updated."""
        reply = self._send("PATCH", f"issues/comments/{number}", {"body": body}, missing=True)
        return reply.status != 404 and bool(_object(reply))

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing: bool = False) -> Reply:
        """Return the answer to a request, which is made once; 404 only if what it is about may be missing."""
        http = Http(self.token, "Bearer", self.patience)
        try:
            reply = http.once(method, f"{self.url}/repos/{self.repository}/{path}", json=body, headers=_HEADERS)
        except Refused as error:
            raise self._refusal(error.reply) from None
        except NoAnswer as error:
            if error.reply is None:
                raise
            raise self._refusal(error.reply) from None
        if reply.status < 300 or (missing and reply.status == 404):
            return reply
        raise self._refusal(reply)

    def _refusal(self, reply: Reply) -> ConfigError | NotNow:
        reason = _said(reply)
        wait = _limit(reply)
        if wait is not None or is_passing(reply.status) or reply.status == 409:  # two writers at once
            return NotNow(f"{self.url} answers HTTP {reply.status} ({reason})", wait or 0.0)
        token = f"the token from {self.token.source}"
        if reply.status == 401:
            return ConfigError(f"{self.url} does not accept {token} ({reason})")
        if reply.status == 403:
            return NotAllowed(f"{self.url} does not let {token} do this ({reason})")
        if reply.status == 404:
            return ConfigError(f"{token} does not see pull request #{self.number} of {self.repository} ({reason})")
        return ConfigError(f"{self.url} refuses the answer with HTTP {reply.status}: {reason}")


# http.client names rtgate as the user agent: without one all is 403 (page "Getting started with the REST API").
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_NO_JSON = "GitHub did not answer with what was asked for: a proxy's page?"


def _limit(reply: Reply) -> float | None:
    """Return how long a rate limit asks to wait; None where none was reached.

    Both kinds are 403 or 429, and 403 is also what a token gets that may not do something.
    """
    if reply.status not in {403, 429}:
        return None
    if after := seconds(reply.headers.get("retry-after", "")):
        return after
    if reply.headers.get("x-ratelimit-remaining") == "0":
        return max(1.0, seconds(reply.headers.get("x-ratelimit-reset", "")) - time.time())
    return _LIMITED_S if reply.status == 429 or "rate limit" in _said(reply).lower() else None


def _said(reply: Reply) -> str:
    """Return the reason that an answer gives."""
    try:
        said = _json(reply)
    except NotNow:
        return one_line(reply.text)
    if not isinstance(said, dict):
        return one_line(said)
    return one_line(" ".join(str(said[key]) for key in ("message", "errors") if said.get(key)))


def _json(reply: Reply) -> Any:
    try:
        return reply.json("GitHub")
    except NoAnswer:
        raise NotNow(_NO_JSON) from None


def _object(reply: Reply) -> Mapping[str, Any]:
    said = _json(reply)
    if not isinstance(said, dict) or "id" not in said:
        raise NotNow(_NO_JSON)
    return said


def _is_ours(comment: Mapping[str, Any], author: str) -> bool:
    user = comment.get("user") or {}  # null for somebody who is gone
    # No person's name has brackets.
    return user.get("login") == author and user.get("type") == "Bot" and has_mark(comment.get("body") or "")
