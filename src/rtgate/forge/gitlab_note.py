# SPDX-License-Identifier: MIT
"""One note to a merge request on GitLab, updated in place. The only module that knows the library python-gitlab.

A maintainer's token may also edit the notes of others, so whose a note is must be looked at: GitLab does not stop us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gitlab
import requests
from gitlab.exceptions import GitlabHttpError, GitlabParsingError

from rtgate import __version__
from rtgate.errors import ConfigError
from rtgate.forge.note_body import has_mark, pipeline_of
from rtgate.http import failures
from rtgate.http.patience import NotNow
from rtgate.http.secret import Token

TOKEN_ADVICE = "a project access token with the role Reporter and the scope api"  # noqa: S105
_PAGE = 100  # the most that GitLab sends at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Our one note to a merge request.

    Attributes:
        url: GitLab's own.
        project: the number of the merge request's project.
        merge_request: its number in the project.
        authorities: a file with the certificates to trust; empty for the machine's.
        answer_s: how long to wait for one answer.
    """

    url: str
    project: int
    merge_request: int
    token: Token
    authorities: str = ""
    answer_s: float = 60.0

    def write(self, body: str, pipeline: int | None) -> int | None:
        """Write the note: ours that is there, or a new one. To do it twice does no harm.

        Returns:
            The pipeline that wrote the note that is there, if it is later than `pipeline`. Nothing is written then.

        Raises:
            ConfigError: GitLab refuses the token or the note.
            NotNow: GitLab does not answer, or asks to come later.
        """
        session = _Session(self)
        with session.errors():
            notes = session.ours()
            latest = max((pipeline_of(note["body"]) or 0 for note in notes), default=0)
            if pipeline is not None and latest > pipeline:
                return latest
            if not (notes and session.update(notes[0]["id"], body)):
                session.create(body)
            # Of two jobs at once each may have made one.
            for note in notes[1:]:
                session.delete(note["id"])
        return None


@dataclass(slots=True)
class _Session:
    """Requests to GitLab, each made once."""

    note: Note
    client: gitlab.Gitlab = field(init=False)
    _after: str = ""

    def __post_init__(self) -> None:
        self.client = gitlab.Gitlab(
            self.note.url,
            private_token=self.note.token.secret(),
            ssl_verify=self.note.authorities or True,
            timeout=self.note.answer_s,
            user_agent=f"rtgate {__version__}",
            keep_base_url=True,  # pages are asked for where the first one was, whatever GitLab thinks its name is
        )
        # requests would send the token's header along to wherever a redirect points.
        self.client.session.max_redirects = 0
        self.client.session.hooks["response"].append(self._remember)

    def ours(self) -> list[dict[str, Any]]:
        """Return our notes, oldest first."""
        user = self._object(self.client.http_get("/user", obey_rate_limit=False))
        notes = self.client.http_list(
            self._path(), iterator=True, per_page=_PAGE, order_by="created_at", sort="asc", obey_rate_limit=False
        )
        return [note for note in notes if _is_ours(note, user["id"])]

    def update(self, number: int, body: str) -> bool:
        """Return whether a note was there to be updated."""
        try:
            path = f"{self._path()}/{number}"
            self._object(self.client.http_put(path, post_data={"body": body}, obey_rate_limit=False))
        except GitlabHttpError as error:
            if error.response_code == 404:  # deleted since it was listed
                return False
            raise
        return True

    def create(self, body: str) -> None:
        """Create a note."""
        self._object(self.client.http_post(self._path(), post_data={"body": body}, obey_rate_limit=False))

    def delete(self, number: int) -> None:
        """Delete a note, if it is still there."""
        try:
            self.client.http_delete(f"{self._path()}/{number}", obey_rate_limit=False)
        except GitlabHttpError as error:
            if error.response_code != 404:
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn the errors of the libraries into ours."""
        url = self.note.url
        try:
            with failures.errors(url, "CI_SERVER_URL", "CI_SERVER_TLS_CA_FILE"):
                yield
        except GitlabParsingError:
            raise NotNow(f"{url} did not answer with JSON: a proxy's page?") from None
        except gitlab.GitlabError as error:
            raise self._refusal(error) from None
        finally:
            self.client.session.close()

    def _refusal(self, error: gitlab.GitlabError) -> ConfigError | NotNow:
        url, status, reason = self.note.url, error.response_code or 0, failures.one_line(error.error_message)
        if failures.is_passing(status) or status == 409:  # two notes at once
            return NotNow(f"{url} answers HTTP {status} ({reason})", self._seconds())
        token = f"the token from {self.note.token.source}"
        if status == 401:
            return ConfigError(f"{url} does not accept {token} ({reason}): make {TOKEN_ADVICE}")
        if status == 403 and "insufficient_scope" in reason:
            return ConfigError(f"{token} lacks the scope api ({reason}): make {TOKEN_ADVICE}")
        if status == 403:
            return ConfigError(
                f"{url} does not let {token} write notes ({reason}): its role must be Reporter or more, and the merge "
                "request must be open to comments"
            )
        if status == 404:
            return ConfigError(
                f"{token} does not see merge request !{self.note.merge_request} of project {self.note.project} "
                f"({reason}): make {TOKEN_ADVICE} in that project"
            )
        return ConfigError(f"{url} refuses the note with HTTP {status}: {reason}")

    def _path(self) -> str:
        return f"/projects/{self.note.project}/merge_requests/{self.note.merge_request}/notes"

    def _remember(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._after = response.headers.get("Retry-After", "")

    def _seconds(self) -> float:
        return failures.seconds(self._after)

    def _object(self, answer: object) -> Mapping[str, Any]:
        """Return a JSON object. Raises GitlabParsingError: it is something else, as a proxy's page is."""
        if not isinstance(answer, dict) or "id" not in answer:
            raise GitlabParsingError
        return answer


def _is_ours(note: Mapping[str, Any], user: int) -> bool:
    return note["author"]["id"] == user and not note.get("system") and has_mark(note["body"])
