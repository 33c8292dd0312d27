# SPDX-License-Identifier: MIT
"""Requests over HTTP, with bounded patience.

A request that failed is one of two kinds: it cannot have arrived (`NotSent`), or nobody knows (`NoAnswer`). What may be
carried out twice is simply repeated; for the rest the caller has to look.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import requests

from rtgate import __version__
from rtgate.durations import Deadline
from rtgate.errors import ConfigError
from rtgate.http.body import read_text
from rtgate.http.failures import innermost, is_passing, seconds, short_reason
from rtgate.http.patience import NotNow, Patience
from rtgate.http.secret import Token

JsonKind = type[dict[str, Any] | list[Any]]
_NO_SCRIPT = ")]}'"  # Gerrit puts this line above its JSON, so that no page can use it as a script


class NotSent(NotNow):
    """No connection came about: the other side has seen nothing of the request."""


class NoAnswer(NotNow):
    """The request may have arrived or not: the answer got lost, or it is one of a server in trouble (5xx).

    Attributes:
        reply: the answer of the server in trouble; None where it got lost.
    """

    def __init__(self, message: str, reply: Reply | None = None, after: float = 0.0) -> None:
        super().__init__(message, after)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        headers: names in lower case.
        value: what the JSON says, where the request asked for it and succeeded.
    """

    status: int
    text: str
    headers: Mapping[str, str]
    value: Any = None

    def json(self, what: str) -> Any:
        """Return what the JSON says. Raises NoAnswer: it is none, as from a proxy that shows a page of its own."""
        try:
            return json.loads(self.text.removeprefix(_NO_SCRIPT))
        except (ValueError, RecursionError):
            raise NoAnswer(f"{what}: the answer is not JSON, it begins with {self.text.strip()[:60]!r}") from None

    def of_kind(self, kind: JsonKind, what: str) -> Reply:
        """Return the answer with its JSON read. Raises NoAnswer: it is none, or of another kind."""
        value = self.json(what)
        if not isinstance(value, kind):
            raise NoAnswer(f"{what}: the answer is not what was asked for, it begins with {self.text.strip()[:60]!r}")
        return replace(self, value=value)


class AccessRefused(ConfigError):  # noqa: N818 - what happened
    """We may not (401, 403, or what a server answers instead); `reply` is what it said."""

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
        notify: is told once when nobody answers, and once when somebody does again: minutes of silence help no one.
    """

    token: Token | None = None
    scheme: str = "Token"
    patience: Patience = field(default_factory=Patience)
    notify: Callable[[str], None] = nobody
    user: str = ""

    def repeat(self, method: str, url: str, **more: Any) -> Reply:
        """Send a request that may be carried out twice, until it is answered.

        Raises:
            InfrastructureError: nobody answered in time.
            AccessRefused: we may not.
            ConfigError: the answer is that the URL is another.
        """

        def attempt() -> Reply:
            if hasattr(more.get("data"), "seek"):
                more["data"].seek(0)  # a file that was sent in part is sent whole
            return self.once(method, url, **more)

        return self.patience.repeat(attempt, "/".join(url.split("/")[:3]), self.notify)

    def once(
        self,
        method: str,
        url: str,
        *,
        follow: bool = False,
        kind: JsonKind | None = None,
        **more: Any,
    ) -> Reply:
        """Send a request once, with `params`, `json`, `data`, `headers` as for requests.

        With `follow` go where a redirect points; else it is an error, because it would turn a POST into a GET. With
        `kind` an answer of success that is not such JSON counts as none, because a proxy shows a page while a server
        restarts; the answer has it as `value`.

        Raises:
            NotSent: it cannot have arrived.
            NoAnswer: nobody knows.
            AccessRefused: we may not.
            ConfigError: a redirect, or a file of certificates that does not exist.
        """
        timeout = (self.patience.connect, self.patience.answer)
        auth = _Header(self._authorization(self.token)) if self.token else None
        more["headers"] = {"User-Agent": f"rtgate {__version__}", **more.get("headers", {})}
        try:
            with requests.Session() as session:
                response = session.request(
                    method, url, timeout=timeout, auth=auth, allow_redirects=follow, stream=True, **more
                )
                with response:
                    reply = Reply(
                        response.status_code,
                        read_text(response, self.patience.answer, Deadline.after(self._body_s)),
                        {name.lower(): value for name, value in response.headers.items()},
                    )
        except requests.exceptions.SSLError as error:
            raise ConfigError(f"{_host(url)}: its certificate is not accepted: {innermost(error)}") from None
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ProxyError) as error:
            raise NotSent(f"{_host(url)} cannot be reached: {innermost(error)}") from None
        except requests.exceptions.ConnectionError as error:
            error_type = NotSent if "NewConnectionError" in repr(error) or "NameResolution" in repr(error) else NoAnswer
            raise error_type(f"{_host(url)} does not answer: {innermost(error)}") from None
        except requests.exceptions.Timeout:
            raise NoAnswer(f"{_host(url)} gave no answer in {self.patience.answer:.0f} s") from None
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
            raise ConfigError(f"{url} is not a URL that rtgate can ask") from None
        except requests.exceptions.RequestException as error:
            raise NoAnswer(f"{_host(url)}: {innermost(error)}") from None
        except OSError as error:  # one of requests' own: a file of certificates that does not exist
            raise ConfigError(f"{_host(url)}: {error} (named by REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE)") from None
        self._check(url, reply)
        return reply.of_kind(kind, _host(url)) if kind and reply.status < 300 else reply

    @property
    def _body_s(self) -> float:
        """How long reading an answer may take, in seconds. A total may be shorter than for one answer."""
        return max(self.patience.total, self.patience.answer)

    def _authorization(self, token: Token) -> str:
        return basic(self.user, token) if self.user else f"{self.scheme} {token.secret()}"

    def _credentials_text(self) -> str:
        if self.token is None:
            return "a request without a token"
        return (
            f"{self.user} with the password from {self.token.source}"
            if self.user
            else f"the token from {self.token.source}"
        )

    def _check(self, url: str, reply: Reply) -> None:
        if reply.status in {401, 403}:
            raise AccessRefused(
                f"{_host(url)} refused {self._credentials_text()} (HTTP {reply.status}: {short_reason(reply.text)})",
                reply,
            )
        if 300 <= reply.status < 400:
            raise ConfigError(f"{url} sends us to {reply.headers.get('location', 'nowhere')}: name that server instead")
        if is_passing(reply.status):
            after = seconds(reply.headers.get("retry-after", ""))
            raise NoAnswer(f"{_host(url)} is in trouble: HTTP {reply.status}", reply, after)


def _host(url: str) -> str:
    return url.split("?", maxsplit=1)[0] if len(url) < 200 else "/".join(url.split("/")[:3])
