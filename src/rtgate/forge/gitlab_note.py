# SPDX-License-Identifier: MIT
"""One note to a merge request on GitLab, updated in place.

A maintainer's token may also edit the notes of others, so whose a note is must be looked at: GitLab does not stop us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtgate.errors import ConfigError
from rtgate.forge.gitlab_api import TOKEN_ADVICE, GitLabApi, GitLabRefusal, Session
from rtgate.forge.note_body import has_mark, pipeline_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Our one note to a merge request.

    Attributes:
        merge_request: its number in the project.
    """

    api: GitLabApi
    merge_request: int

    def check_access(self) -> None:
        """Ask for the merge request, and whether the token may write. Raises as `write`."""
        try:
            with self.api.session() as session:
                session.get(f"merge_requests/{self.merge_request}")
        except GitLabRefusal as error:
            raise (self._refusal(error) if error.status == 404 else error) from None
        scopes = self._scopes()
        if scopes and "api" not in scopes:
            raise ConfigError(
                f"the token from {self.api.token.source} lacks the scope api (it has {', '.join(scopes)}): "
                f"make {TOKEN_ADVICE}"
            )

    def _scopes(self) -> list[str]:
        """Return what the token is for; empty where GitLab does not say it, as before 15.5."""
        try:
            with self.api.session() as session:
                return [str(scope) for scope in session.get("/personal_access_tokens/self").get("scopes", ())]
        except ConfigError:
            return []

    def write(self, body: str, pipeline: int | None) -> int | None:
        """Write the note: ours that is there, or a new one. To do it twice does no harm.

        Returns:
            The pipeline that wrote the note that is there, if it is later than `pipeline`. Nothing is written then.

        Raises:
            ConfigError: GitLab refuses the token or the note.
            NotNow: GitLab does not answer, or asks to come later.
        """
        try:
            with self.api.session() as session:
                return self._write(session, body, pipeline)
        except GitLabRefusal as error:
            raise self._refusal(error) from None

    def _write(self, session: Session, body: str, pipeline: int | None) -> int | None:
        path = f"merge_requests/{self.merge_request}/notes"
        user = session.get("/user")["id"]
        ours = [note for note in session.pages(path, order_by="created_at", sort="asc") if _is_ours(note, user)]
        latest = max((pipeline_of(note["body"]) or 0 for note in ours), default=0)
        if pipeline is not None and latest > pipeline:
            return latest
        if not (ours and session.put(f"{path}/{ours[0]['id']}", {"body": body})):
            session.post(path, {"body": body})
        # Of two jobs at once each may have made one.
        for note in ours[1:]:
            session.delete(f"{path}/{note['id']}")
        return None

    def _refusal(self, error: GitLabRefusal) -> ConfigError:
        url, token = self.api.url, f"the token from {self.api.token.source}"
        if error.status == 403:
            return ConfigError(
                f"{url} does not let {token} write notes ({error.reason}): its role must be Reporter or more, and the "
                "merge request must be open to comments"
            )
        if error.status == 404:
            return ConfigError(
                f"{token} does not see merge request !{self.merge_request} of project {self.api.project} "
                f"({error.reason}): make {TOKEN_ADVICE} in that project"
            )
        return ConfigError(f"{url} refuses the note with HTTP {error.status}: {error.reason}")


def _is_ours(note: Mapping[str, Any], user: int) -> bool:
    return note["author"]["id"] == user and not note.get("system") and has_mark(note["body"])
