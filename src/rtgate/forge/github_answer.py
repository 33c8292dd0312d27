# SPDX-License-Identifier: MIT
"""What rtgate writes to a pull request on GitHub, by its REST API: a check run, and one comment updated in place.

A token that may write comments may also edit those of others, so whose a comment is must be looked at. GitHub tells an
app's token nothing about itself (`GET /user` is 403). The answer to a new check run does: it names the app.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from rtgate import __version__
from rtgate.errors import ConfigError
from rtgate.forge import web
from rtgate.forge.note_body import has_mark, pipeline_of
from rtgate.forge.patience import NotNow
from rtgate.secret import Token

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
        answer_s: how long to wait for one answer.
    """

    url: str
    repository: str
    number: int
    token: Token
    answer_s: float = 60.0

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
            response = self._send("GET", f"{self._path()}?per_page={_PAGE}&page={page}")
            comments = _json(response)
            if not isinstance(comments, list):
                raise _no_json(response)
            yield from comments
            if "next" not in response.links:
                return
            page += 1

    def _update(self, number: int, body: str) -> bool:
        """Return whether a comment was there to be updated."""
        response = self._send("PATCH", f"issues/comments/{number}", {"body": body}, missing=True)
        return response.status_code != 404 and bool(_object(response))

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing: bool = False
    ) -> requests.Response:
        """Return the answer to a request, which is made once; 404 only if what it is about may be missing."""
        with web.errors(self.url, "GITHUB_API_URL", "REQUESTS_CA_BUNDLE"), requests.Session() as session:
            # requests would send the token along to wherever a redirect points.
            session.max_redirects = 0
            # As `auth`, because requests puts what `.netrc` has in place of a header that is merely set.
            session.auth = self._authorize
            url = f"{self.url}/repos/{self.repository}/{path}"
            response = session.request(method, url, json=body, headers=_HEADERS, timeout=self.answer_s)
        if response.ok or (missing and response.status_code == 404):
            return response
        raise self._refusal(response)

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token.secret()}"
        return request

    def _refusal(self, response: requests.Response) -> ConfigError | NotNow:
        status, reason = response.status_code, _said(response)
        wait = _limit(response, reason)
        if wait is not None or web.is_passing(status):
            return NotNow(f"{self.url} answers HTTP {status} ({reason})", wait or 0.0)
        token = f"the token from {self.token.source}"
        if status == 401:
            return ConfigError(f"{self.url} does not accept {token} ({reason})")
        if status == 403:
            return NotAllowed(f"{self.url} does not let {token} do this ({reason})")
        if status == 404:
            return ConfigError(f"{token} does not see pull request #{self.number} of {self.repository} ({reason})")
        return ConfigError(f"{self.url} refuses the answer with HTTP {status}: {reason}")


_HEADERS = {
    "Accept": "application/vnd.github+json",
    "User-Agent": f"rtgate {__version__}",  # without one all is 403 (page "Getting started with the REST API")
    "X-GitHub-Api-Version": "2022-11-28",
}


def _limit(response: requests.Response, reason: str) -> float | None:
    """Return how long a rate limit asks to wait; None where none was reached.

    Both kinds are 403 or 429, and 403 is also what a token gets that may not do something.
    """
    if response.status_code not in {403, 429}:
        return None
    if after := web.seconds(response.headers.get("Retry-After", "")):
        return after
    if response.headers.get("x-ratelimit-remaining") == "0":
        reset = web.seconds(response.headers.get("x-ratelimit-reset", ""))
        return max(1.0, reset - time.time())
    return _LIMITED_S if response.status_code == 429 or "rate limit" in reason.lower() else None


def _said(response: requests.Response) -> str:
    """Return the reason that an answer gives."""
    try:
        said = _json(response)
    except NotNow:
        return web.one_line(response.text)
    if not isinstance(said, dict):
        return web.one_line(said)
    return web.one_line(" ".join(str(said[key]) for key in ("message", "errors") if said.get(key)))


def _json(response: requests.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        raise _no_json(response) from None


def _object(response: requests.Response) -> Mapping[str, Any]:
    said = _json(response)
    if not isinstance(said, dict) or "id" not in said:
        raise _no_json(response)
    return said


def _no_json(response: requests.Response) -> NotNow:
    return NotNow(f"{response.url.partition('/repos/')[0]} did not answer with what was asked for: a proxy's page?")


def _is_ours(comment: Mapping[str, Any], author: str) -> bool:
    user = comment.get("user") or {}  # null for somebody who is gone
    # No person's name has brackets.
    return user.get("login") == author and user.get("type") == "Bot" and has_mark(comment.get("body") or "")
