# SPDX-License-Identifier: MIT
"""Merge requests on GitLab, as a job of a merge request pipeline sees them, or a requested one (`gitlab_request`).

What is reviewed comes from the predefined variables (GitLab's page `ci/variables/predefined_variables`):

====================================  =========================  ======================================================
variable                              in a detached pipeline     in merged results pipelines and merge trains
====================================  =========================  ======================================================
`CI_MERGE_REQUEST_EVENT_TYPE`         `detached`                 `merged_result`, `merge_train`
`CI_COMMIT_SHA`                       the last proposed commit   what the target branch would be after the merge
`CI_MERGE_REQUEST_TARGET_BRANCH_SHA`  empty                      what was merged into: the branch, or the train so far
`CI_MERGE_REQUEST_SOURCE_BRANCH_SHA`  empty                      the last proposed commit
`CI_MERGE_REQUEST_DIFF_BASE_SHA`      where the change forks     the same; not the target branch's tip
`CI_PROJECT_ID`                       the fork's, for a fork     the same
`CI_MERGE_REQUEST_PROJECT_ID`         where the request is       the same
====================================  =========================  ======================================================

With the merge methods that rebase, the head of a merge train is not a merge commit, and its first parent may be another
commit of the same merge request: `CI_MERGE_REQUEST_TARGET_BRANCH_SHA` is the base, not the first parent. GitLab calls
a pipeline one of the result of merging by this very commit (`target_sha`): it is set there.

The note needs a token of its own. `CI_JOB_TOKEN` may only read notes (page `ci/jobs/ci_job_token`, "Job token access").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.forge import note_body, target_branch
from rtgate.forge.gitlab_api import AUTHORITIES, TOKEN_ADVICE, GitLabApi
from rtgate.forge.gitlab_note import Note
from rtgate.forge.gitlab_request import EVENT_TYPE, asked_variables, title_and_target
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.http import failures
from rtgate.http.client import nobody
from rtgate.http.patience import Patience
from rtgate.http.secret import Token, take_token
from rtgate.kernel.merge import commit_of

TOKEN = "RTGATE_GITLAB_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "RTGATE_GITLAB_TOKEN_FILE"  # noqa: S105
SERVER = "a GitLab server (expected https://gitlab.example.org)"
_DEEPEN = "give the job `variables: {GIT_DEPTH: 0}`"


class Pipeline(Enum):
    """What a pipeline runs on, by the words of CI_MERGE_REQUEST_EVENT_TYPE; the last one is ours."""

    DETACHED = "detached"
    MERGED_RESULT = "merged_result"
    MERGE_TRAIN = "merge_train"
    ASKED = EVENT_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLab:
    """A merge request on GitLab, reviewed by a job of its pipeline. Keeps to `Forge`.

    Attributes:
        variables: GitLab's predefined ones.
        tree: the job's clone.
        token: writes the note; without one there is no note.
        say: is told what people should know while they wait.
        patience: how long to wait for GitLab.
    """

    variables: Mapping[str, str] = field(repr=False)
    tree: Path = Path()
    token: Token | None = None
    say: Callable[[str], None] = nobody
    patience: Patience = field(default_factory=Patience)

    @classmethod
    def from_environment(
        cls,
        tree: Path = Path(),
        *,
        say: Callable[[str], None] = nobody,
        variables: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> GitLab:
        """Return the merge request of this job, by default that of the environment, which the token leaves.

        Raises:
            ConfigError: the token or its file is wrong, or the job is asked to review and no commit is named.
        """
        present = os.environ if variables is None else dict(variables)
        # GitLab's runner writes the files of variables itself, and gives them its own mode.
        token = take_token(present, TOKEN, TOKEN_FILE, private=False)
        return cls(variables=asked_variables(present), tree=tree, token=token, say=say, patience=patience or Patience())

    def merge_request(self) -> MergeRequest:
        """Return what is to be reviewed. Where GitLab has not merged, the target branch's tip is fetched.

        Raises:
            ConfigError: this is not a merge request pipeline, or the clone or the branch lacks a commit.
            InfrastructureError: GitLab does not answer.
        """
        number = self._number("CI_MERGE_REQUEST_IID")
        pipeline = self._pipeline()
        title, target, head = (
            self._requested_merge_request(number) if pipeline is Pipeline.ASKED else self._of_the_pipeline()
        )
        merged = pipeline in {Pipeline.MERGED_RESULT, Pipeline.MERGE_TRAIN}
        project = self.variables.get("CI_MERGE_REQUEST_PROJECT_URL", "")
        return MergeRequest(
            base=self._commit(self._value("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")) if merged else self._tip(target),
            head=head,
            name=f"!{number}",
            title=title,
            url=f"{project}/-/merge_requests/{number}" if project else "",
            target=target,
            merged=merged,
        )

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        """Do nothing: `merge_request` has seen to it that the commits are there."""

    def check_access(self) -> None:
        """Ask for the merge request with the token of the note.

        Raises:
            ConfigError: GitLab refuses the token, or it does not see the merge request.
            InfrastructureError: GitLab does not answer.
        """
        if self.token is not None:
            note = self._note(self.token)
            self.patience.repeat(note.check_access, note.api.url, self.say)

    def publish(self, answer: Answer) -> None:
        """Write our note to the merge request, in place of the one that is there; without a token say what to set.

        Raises:
            ConfigError: GitLab refuses the token or the note.
            InfrastructureError: GitLab does not answer.
        """
        if self.token is None:
            self.say(
                f"the merge request gets no note, which is note.md of the report: set {TOKEN}, or {TOKEN_FILE} with a "
                f"file, to {TOKEN_ADVICE} (CI_JOB_TOKEN may read notes and not write them)"
            )
            return
        pipeline = self._number("CI_PIPELINE_ID") if self.variables.get("CI_PIPELINE_ID") else None
        note = self._note(self.token)
        body = note_body.note_body(answer.markdown, pipeline)
        # The whole is repeated: a note whose answer got lost is there when it is looked for again.
        later = self.patience.repeat(lambda: note.write(body, pipeline), note.api.url, self.say)
        if later is not None:
            self.say(f"the note is of pipeline {later}, which is later than this one ({pipeline}), and stays")

    def _of_the_pipeline(self) -> tuple[str, str, str]:
        """Return the title, the target branch and the commit of a merge request pipeline."""
        head = self._commit(self._value("CI_COMMIT_SHA"))
        return (
            self.variables.get("CI_MERGE_REQUEST_TITLE", ""),
            self._value("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
            head,
        )

    def _requested_merge_request(self, number: int) -> tuple[str, str, str]:
        """Return the same of what a pipeline of the target branch is asked to review, and get the commit."""
        if self.token is None:
            raise ConfigError(f"{TOKEN} is not set, which finds out about !{number}: make {TOKEN_ADVICE}")
        api, commit = self._api(self.token), self._value("CI_COMMIT_SHA")
        title, target = self.patience.repeat(lambda: title_and_target(api, number, commit), api.url, self.say)
        return title, target, target_branch.fetch_commit(self.tree, "origin", commit, self.patience, self.say)

    def _note(self, token: Token) -> Note:
        return Note(api=self._api(token), merge_request=self._number("CI_MERGE_REQUEST_IID"))

    def _api(self, token: Token) -> GitLabApi:
        return GitLabApi(
            url=failures.server_url(self._value("CI_SERVER_URL"), "CI_SERVER_URL", SERVER),
            project=self._project(),
            token=token,
            authorities=self.variables.get(AUTHORITIES, ""),
            answer_s=self.patience.answer,
        )

    def _pipeline(self) -> Pipeline:
        text = self._value("CI_MERGE_REQUEST_EVENT_TYPE")
        try:
            return Pipeline(text)
        except ValueError:
            kinds = ", ".join(kind.value for kind in Pipeline if kind is not Pipeline.ASKED)
            raise ConfigError(f"CI_MERGE_REQUEST_EVENT_TYPE is {text!r} (allowed: {kinds})") from None

    def _tip(self, branch: str) -> str:
        # In a fork's pipeline `origin` is the fork, whose branch of this name may be anything.
        ours = self._number("CI_PROJECT_ID") == self._project()
        remote = "origin" if ours else f"{self._value('CI_MERGE_REQUEST_PROJECT_URL')}.git"
        return target_branch.fetch_tip(self.tree, remote, branch, self.patience, self.say)

    def _commit(self, reference: str) -> str:
        return commit_of(self.tree, reference, _DEEPEN)

    def _project(self) -> int:
        """Return the number of the project where the merge request is."""
        return self._number("CI_MERGE_REQUEST_PROJECT_ID")

    def _number(self, name: str) -> int:
        text = self._value(name)
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise ConfigError(f"{name} is {text!r}, not a number")
        return int(text)

    def _value(self, name: str) -> str:
        text = self.variables.get(name, "")
        if not text:
            raise ConfigError(
                f"{name} is not set: `--forge gitlab` needs a job of a merge request pipeline "
                '(rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event"}])'
            )
        return text
