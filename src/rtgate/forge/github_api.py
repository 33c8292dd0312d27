# SPDX-License-Identifier: MIT
"""Requests to GitHub's REST API about one repository, each made once, and what its refusals mean."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtgate.errors import ConfigError
from rtgate.http.client import AccessRefused, Http, JsonKind, NoAnswer, Reply
from rtgate.http.failures import is_passing, seconds, short_reason
from rtgate.http.patience import NotNow, Patience
from rtgate.http.secret import Token

_PAGE = 100  # the most that GitHub sends at once
_LIMITED_S = 60.0  # to wait where a limit does not say how long (page "Rate limits for the REST API")
# http.client names rtgate as the user agent: without one all is 403 (page "Getting started with the REST API").
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class Forbidden(ConfigError):  # noqa: N818 - what happened, not whose mistake
    """GitHub knows the token, and does not let it do this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubApi:
    """The API of one repository.

    Attributes:
        url: of GitHub's API.
        repository: `owner/name`.
        patience: how long to wait for one answer.
    """

    url: str
    repository: str
    token: Token
    patience: Patience = field(default_factory=Patience)

    def get(self, path: str) -> Mapping[str, Any]:
        """Return an object below the repository, `pulls/7` for one. Raises as `send`."""
        answer: Mapping[str, Any] = self.send("GET", path, kind=dict).value
        return answer

    def pages(self, path: str) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a list. Pages are counted: GitHub's link may name a host that we do not reach.

        Raises as `send`.
        """
        page = 1
        while True:
            reply = self.send("GET", f"{path}{'&' if '?' in path else '?'}per_page={_PAGE}&page={page}", kind=list)
            yield from reply.value
            if 'rel="next"' not in reply.headers.get("link", ""):
                return
            page += 1

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        missing: bool = False,
        kind: JsonKind | None = None,
    ) -> Reply:
        """Return the answer to a request, which is made once; 404 only if what it is about may be missing.

        With `kind` it has such JSON as its `value`; a proxy's page is no answer.

        Raises:
            Forbidden: the token may not.
            ConfigError: GitHub refuses the token or the request.
            NotNow: GitHub does not answer, or asks to come later.
        """
        http = Http(self.token, "Bearer", self.patience)
        try:
            url = f"{self.url}/repos/{self.repository}/{path}"
            reply = http.once(method, url, json=body, headers=_HEADERS, kind=kind)
        except AccessRefused as error:
            raise self._refusal(path, error.reply) from None
        except NoAnswer as error:
            if error.reply is None:
                raise
            raise self._refusal(path, error.reply) from None
        if reply.status < 300 or (missing and reply.status == 404):
            return reply
        raise self._refusal(path, reply)

    def _refusal(self, path: str, reply: Reply) -> ConfigError | NotNow:
        reason = _error_reason(reply)
        wait = _limit(reply)
        if wait is not None or is_passing(reply.status) or reply.status == 409:  # two writers at once
            return NotNow(f"{self.url} answers HTTP {reply.status} ({reason})", wait or 0.0)
        token = f"the token from {self.token.source}"
        if reply.status == 401:
            return ConfigError(f"{self.url} does not accept {token} ({reason})")
        if reply.status == 403:
            return Forbidden(f"{self.url} does not let {token} do this ({reason})")
        if reply.status == 404:
            return ConfigError(f"{token} does not see {path.partition('?')[0]} of {self.repository} ({reason})")
        return ConfigError(f"{self.url} refuses {path.partition('?')[0]} with HTTP {reply.status}: {reason}")


def created_object(reply: Reply) -> Mapping[str, Any]:
    """Return the object that an answer says was made. Raises NotNow: it is none."""
    answer: Mapping[str, Any] = reply.of_kind(dict, "GitHub").value
    if "id" not in answer:
        raise NotNow("GitHub did not answer with what was made: a proxy's page?")
    return answer


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
    return _LIMITED_S if reply.status == 429 or "rate limit" in _error_reason(reply).lower() else None


def _error_reason(reply: Reply) -> str:
    """Return the reason that an answer gives."""
    try:
        answer = reply.json("GitHub")
    except NoAnswer:
        return short_reason(reply.text)
    if not isinstance(answer, dict):
        return short_reason(answer)
    return short_reason(" ".join(str(answer[key]) for key in ("message", "errors") if answer.get(key)))
