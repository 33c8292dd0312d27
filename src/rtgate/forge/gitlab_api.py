# SPDX-License-Identifier: MIT
"""Requests to GitLab's REST API about one project, each made once. The only module that knows python-gitlab."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import gitlab
import requests
from gitlab.exceptions import GitlabHttpError, GitlabParsingError

from rtgate import __version__
from rtgate.errors import ConfigError
from rtgate.http import failures
from rtgate.http.patience import NotNow
from rtgate.http.secret import Token

TOKEN_ADVICE = "a project access token with the role Reporter and the scope api"  # noqa: S105
AUTHORITIES = "CI_SERVER_TLS_CA_FILE"
"""Names a file with the certificates to trust; GitLab's runner sets it."""
_PAGE = 100  # the most that GitLab sends at once


class GitLabRefusal(ConfigError):  # noqa: N818 - what happened, not whose mistake
    """GitLab knows the token, and refuses the request.

    Attributes:
        status: 404 is also what a token gets that may not know of something.
        reason: in GitLab's words.
    """

    def __init__(self, message: str, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLabApi:
    """The API of one project.

    Attributes:
        url: GitLab's own.
        project: its number, or its path with all groups.
        authorities: a file with the certificates to trust; empty for the machine's.
        answer_s: how long to wait for one answer.
        variable: that the URL comes from, for messages.
    """

    url: str
    project: int | str
    token: Token
    authorities: str = ""
    answer_s: float = 60.0
    variable: str = "CI_SERVER_URL"

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield what sends requests. Within the block errors of the libraries become ours.

        Raises:
            GitLabRefusal: GitLab refuses a request.
            ConfigError: GitLab refuses the token, or the URL is wrong.
            NotNow: GitLab does not answer, or asks to come later.
        """
        session = Session(self)
        try:
            with failures.errors(self.url, self.variable, AUTHORITIES):
                yield session
        except GitlabParsingError:
            raise NotNow(f"{self.url} did not answer with JSON: a proxy's page?") from None
        except gitlab.GitlabError as error:
            raise session.refusal(error) from None
        finally:
            session.close()


@dataclass(slots=True)
class Session:
    """Requests to GitLab. Paths are those below the project; one that begins with a slash is the server's own."""

    api: GitLabApi
    _client: gitlab.Gitlab = field(init=False)
    _after: str = ""
    _path: str = ""

    def __post_init__(self) -> None:
        self._client = gitlab.Gitlab(
            self.api.url,
            private_token=self.api.token.secret(),
            ssl_verify=self.api.authorities or True,
            timeout=self.api.answer_s,
            user_agent=f"rtgate {__version__}",
            keep_base_url=True,  # pages are asked for where the first one was, whatever GitLab thinks its name is
        )
        # requests would send the token's header along to wherever a redirect points.
        self._client.session.max_redirects = 0
        self._client.session.hooks["response"].append(self._remember)

    def get(self, path: str) -> Mapping[str, Any]:
        """Return an object."""
        return _object(self._client.http_get(self._full_path(path), obey_rate_limit=False))

    def pages(self, path: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a list."""
        parameters: dict[str, Any] = {"per_page": _PAGE, **query}
        yield from self._client.http_list(self._full_path(path), parameters, iterator=True, obey_rate_limit=False)

    def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was created."""
        return _object(self._client.http_post(self._full_path(path), post_data={**body}, obey_rate_limit=False))

    def put(self, path: str, body: Mapping[str, Any]) -> bool:
        """Return whether something was there to be changed."""
        try:
            _object(self._client.http_put(self._full_path(path), post_data={**body}, obey_rate_limit=False))
        except GitlabHttpError as error:
            _require_not_found(error)
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete something, unless it is gone already."""
        try:
            self._client.http_delete(self._full_path(path), obey_rate_limit=False)
        except GitlabHttpError as error:
            _require_not_found(error)

    def close(self) -> None:
        """Close the connections."""
        self._client.session.close()

    def refusal(self, error: gitlab.GitlabError) -> ConfigError | NotNow:
        """Return what an answer means that is no success."""
        url, status, reason = self.api.url, error.response_code or 0, _reason(error)
        if failures.is_passing(status) or status == 409:  # two writers at once
            return NotNow(f"{url} answers HTTP {status} ({reason})", failures.seconds(self._after))
        token = f"the token from {self.api.token.source}"
        if status == 401:
            return ConfigError(f"{url} does not accept {token} ({reason}): make {TOKEN_ADVICE}")
        if status == 403 and "insufficient_scope" in reason:
            return ConfigError(f"{token} lacks the scope api ({reason}): make {TOKEN_ADVICE}")
        if status == 403:
            return GitLabRefusal(f"{url} does not let {token} use {self._path} ({reason})", status, reason)
        if status == 404:
            return GitLabRefusal(f"{token} does not see {self._path} of {url} ({reason})", status, reason)
        return GitLabRefusal(f"{url} refuses {self._path} with HTTP {status}: {reason}", status, reason)

    def _full_path(self, path: str) -> str:
        project = quote(str(self.api.project), safe="")
        self._path = path if path.startswith("/") else f"/projects/{project}/{path}"
        return self._path

    def _remember(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._after = response.headers.get("Retry-After", "")


def _reason(error: gitlab.GitlabError) -> str:
    """Return GitLab's reason, with its sentence (`Token is expired. ...`) where it has a word and a sentence."""
    try:
        sentence = json.loads(error.response_body or b"")["error_description"]
    except (ValueError, KeyError, TypeError):
        return failures.short_reason(error.error_message)
    return failures.short_reason(f"{error.error_message}: {sentence}")


def _object(answer: object) -> Mapping[str, Any]:
    """Return a JSON object. Raises GitlabParsingError: it is something else, as a proxy's page is."""
    if not isinstance(answer, dict) or "id" not in answer:
        raise GitlabParsingError
    return answer


def _require_not_found(error: GitlabHttpError) -> None:
    """Raise an error, unless it says that what was listed has been deleted since."""
    if error.response_code != 404:
        raise error
