# SPDX-License-Identifier: MIT
"""Requests over HTTP, with bounded patience. The only module that knows the library `requests`.

A request that failed is one of two kinds: it cannot have arrived (`NotSent`), or nobody knows (`NoAnswer`). What may be
carried out twice is simply repeated; for the rest the caller has to look.
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from rtgate import __version__
from rtgate.deadline import Deadline
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.secret import Token


class NotSent(InfrastructureError):  # noqa: N818 - what happened, not whose mistake
    """No connection came about: the other side has seen nothing of the request."""


class NoAnswer(InfrastructureError):  # noqa: N818
    """The request may have arrived or not: the answer got lost, or it is one of a server in trouble (5xx)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        headers: names in lower case.
    """

    status: int
    text: str
    headers: Mapping[str, str]

    def json(self, what: str) -> Any:
        """Return what the JSON says. Raises NoAnswer: it is none, as from a proxy that shows a page of its own."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            raise NoAnswer(f"{what}: the answer is no JSON, it begins with {self.text.strip()[:60]!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        connect, answer: for one request.
        total: for a request with all its repetitions; a server that restarts takes one to three minutes.
        first, longest: before the first repetition, and at most; it doubles from one to the next.
    """

    connect: float = 10.0
    answer: float = 60.0
    total: float = 300.0
    first: float = 0.5
    longest: float = 15.0

    def waits(self) -> Iterator[float]:
        """Yield how long to wait before each repetition; a little by chance, so that clients do not come together."""
        wait = self.first
        while True:
            yield wait * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            wait = min(wait * 2, self.longest)


class Refused(ConfigError):  # noqa: N818 - what happened
    """We may not (401, 403); `reply` is what the server said."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class _Header(requests.auth.AuthBase):
    """A header. As `auth`, because requests puts what `.netrc` has in place of a header that is merely set."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


def basic(user: str, password: Token) -> str:
    """Return the value of the header `Authorization` for a user and a password."""
    return f"Basic {base64.b64encode(f'{user}:{password.secret()}'.encode()).decode()}"


def nobody(_: str) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Http:
    """Sends requests.

    Attributes:
        scheme: of the header `Authorization`.
        user: whose password the token is, for basic authentication; empty where the token says who we are.
        told: is told once when nobody answers, and once when somebody does again: minutes of silence help no one.
    """

    token: Token | None = None
    scheme: str = "Token"
    patience: Patience = field(default_factory=Patience)
    told: Callable[[str], None] = nobody
    user: str = ""
    _away: bool = False

    def repeat(self, method: str, url: str, **more: Any) -> Reply:
        """Send a request that may be carried out twice, until it is answered.

        Raises:
            InfrastructureError: nobody answered in time.
            Refused: we may not.
        ConfigError: the answer is that the URL is another.
        """
        deadline = Deadline.after(self.patience.total)
        for wait in self.patience.waits():
            if hasattr(more.get("data"), "seek"):
                more["data"].seek(0)  # a file that was sent in part is sent whole
            try:
                reply = self.once(method, url, **more)
            except (NotSent, NoAnswer) as error:
                if deadline.remaining <= wait:
                    raise InfrastructureError(f"{error}; tried for {deadline.allowed:.0f} s") from error
                self._is_away(f"{error}; asking again, for {deadline.allowed:.0f} s at most")
                time.sleep(wait)
            else:
                self._is_back(url)
                return reply
        raise AssertionError  # waits() never ends

    def _is_away(self, text: str) -> None:
        if not self._away:
            self._away = True
            self.told(text)

    def _is_back(self, url: str) -> None:
        if self._away:
            self._away = False
            self.told(f"{'/'.join(url.split('/')[:3])} answers again")

    def once(self, method: str, url: str, *, follow: bool = False, **more: Any) -> Reply:
        """Send a request once, with `params`, `json`, `data`, `headers` as for requests.

        With `follow` go where a redirect points; else it is an error, because it would turn a POST into a GET.

        Raises:
            NotSent: it cannot have arrived.
            NoAnswer: nobody knows.
            Refused: we may not.
            ConfigError: a redirect.
        """
        timeout = (self.patience.connect, self.patience.answer)
        auth = _Header(self._authorization(self.token)) if self.token else None
        more["headers"] = {"User-Agent": f"rtgate {__version__}", **more.get("headers", {})}
        try:
            with requests.Session() as session:
                got = session.request(method, url, timeout=timeout, auth=auth, allow_redirects=follow, **more)
                reply = Reply(got.status_code, got.text, {name.lower(): value for name, value in got.headers.items()})
        except requests.exceptions.SSLError as error:
            raise ConfigError(f"{_host(url)}: its certificate is not accepted: {_reason(error)}") from None
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ProxyError) as error:
            raise NotSent(f"{_host(url)} cannot be reached: {_reason(error)}") from None
        except requests.exceptions.ConnectionError as error:
            kind = NotSent if "NewConnectionError" in repr(error) or "NameResolution" in repr(error) else NoAnswer
            raise kind(f"{_host(url)} does not answer: {_reason(error)}") from None
        except requests.exceptions.Timeout:
            raise NoAnswer(f"{_host(url)} gave no answer in {self.patience.answer:.0f} s") from None
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
            raise ConfigError(f"{url} is no URL that rtgate can ask") from None
        except requests.exceptions.RequestException as error:
            raise NoAnswer(f"{_host(url)}: {_reason(error)}") from None
        return self._checked(url, reply)

    def _authorization(self, token: Token) -> str:
        return basic(self.user, token) if self.user else f"{self.scheme} {token.secret()}"

    def _who(self) -> str:
        if self.token is None:
            return "a request without a token"
        return (
            f"{self.user} with the password from {self.token.source}"
            if self.user
            else f"the token from {self.token.source}"
        )

    def _checked(self, url: str, reply: Reply) -> Reply:
        if reply.status in {401, 403}:
            raise Refused(f"{_host(url)} refused {self._who()} (HTTP {reply.status}: {_said(reply)})", reply)
        if 300 <= reply.status < 400:
            raise ConfigError(f"{url} sends us to {reply.headers.get('location', 'nowhere')}: name that server instead")
        # 501 is an answer: a server that does not know the method will not learn it.
        if (reply.status >= 500 and reply.status != 501) or reply.status in {408, 429}:
            raise NoAnswer(f"{_host(url)} is in trouble: HTTP {reply.status}")
        return reply


def _said(reply: Reply) -> str:
    return " ".join(reply.text.split())[:120] or "no reason given"


def _host(url: str) -> str:
    return url.split("?", maxsplit=1)[0] if len(url) < 200 else "/".join(url.split("/")[:3])


def _reason(error: Exception) -> str:
    """Return the innermost reason: requests wraps three layers of libraries in each other."""
    inner: Any = error
    for _ in range(6):
        deeper = getattr(inner, "reason", None) or next((one for one in inner.args if isinstance(one, Exception)), None)
        if not isinstance(deeper, Exception):
            break
        inner = deeper
    return str(inner).rsplit(": ", 1)[-1][:200] or type(inner).__name__
