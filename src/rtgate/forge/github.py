# SPDX-License-Identifier: MIT
"""Pull requests on GitHub, as a job of a workflow sees them.

What is reviewed comes from the event and the clone (GitHub's page `actions/reference/workflows-and-actions/
events-that-trigger-workflows`):

* `pull_request`: `GITHUB_SHA` is GitHub's own merge of the pull request, and what actions/checkout checks out. Its
  first parent is the tip of the target branch, its second one the last proposed commit, `pull_request.head.sha` of the
  event. A workflow that checks out the last proposed commit alone has no such merge: then `pull_request.base.sha` is
  the tip of the target branch.
* `merge_group`: what a merge queue would make of the target branch, and `merge_group.base_sha`, which has what is ahead
  in the queue. Merged with one of the methods that rebase, it is no merge commit.
* `workflow_dispatch`: a pull request and one commit of it, which somebody allowed to run (`rtgate webhook`).

`pull_request_target` gives a job that builds foreign code the token and the secrets of the repository: it is refused.
With `pull_request`, the job of a fork has a token that only reads (page `actions/concepts/security/github_token`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.github_answer import ACTIONS, Check, Conversation
from rtgate.forge.github_api import Forbidden, GitHubApi
from rtgate.forge.github_event import DispatchRequest, PullRequest, pull_request, read_event
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.forge.note_body import GITHUB, harmless, note_body
from rtgate.http import failures
from rtgate.http.client import nobody
from rtgate.http.patience import Patience, Result
from rtgate.http.secret import Token, take_token
from rtgate.kernel.merge import commit_of

TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "RTGATE_GITHUB_TOKEN_FILE"  # noqa: S105
_API = "GitHub's API (expected https://api.github.com)"
_DEEPEN = "give actions/checkout `fetch-depth: 0`"
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_ONLY_HERE = "the answer is note.md of the report and the job's summary"
# `failure` is the author's. What others must set right stops the merge too, and does not say that the kernel failed.
_CONCLUSIONS = {0: "success", 1: "failure", 5: "neutral"}
_OTHER_CONCLUSION = "action_required"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHub:
    """A pull request on GitHub, reviewed by a job of a workflow. Keeps to `Forge`.

    Attributes:
        event: what started the job. Read once, before the proposed kernel is built: builds can write to its file.
        variables: GitHub's default ones.
        tree: the job's clone.
        token: writes the answer; without one it stays with the job.
        say: is told what people should know while they wait.
        patience: how long to wait for GitHub.
        refusal: why the pull request is not reviewed that a job is asked about; empty if it is.
    """

    event: PullRequest
    variables: Mapping[str, str] = field(repr=False)
    tree: Path = Path()
    token: Token | None = None
    say: Callable[[str], None] = nobody
    patience: Patience = field(default_factory=Patience)
    refusal: str = ""

    @classmethod
    def from_environment(
        cls,
        tree: Path = Path(),
        *,
        say: Callable[[str], None] = nobody,
        variables: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> GitHub:
        """Return the pull request of this job, by default that of the environment, which the token leaves.

        Raises:
            ConfigError: no pull request started this job, or the token or its file is wrong.
            InfrastructureError: GitHub does not answer, which is asked about a pull request that a job is asked about.
        """
        present = os.environ if variables is None else dict(variables)
        token = take_token(present, TOKEN, TOKEN_FILE)
        environment, patience = dict(present), patience or Patience()
        event, refused = _event(environment), ""
        if isinstance(event, DispatchRequest):
            event, refused = _requested_pull_request(event, _api(environment, token, patience), patience, say)
        return cls(
            event=event, variables=environment, tree=tree, token=token, say=say, patience=patience, refusal=refused
        )

    def merge_request(self) -> MergeRequest:
        """Return what is to be reviewed.

        Raises:
            ConfigError: the clone lacks a commit, or the pull request is closed or ends at another one by now.
        """
        if self.refusal:
            raise ConfigError(self.refusal)
        event, merge = self.event, self._merge()
        base = f"{merge}^1" if merge else event.base or f"refs/remotes/origin/{event.target}"
        number = f"#{event.number}" if event.number else ""
        return MergeRequest(
            base=self._commit(base),
            head=merge or self._commit(event.head),
            name=" of ".join(filter(None, ["merge group", number])) if event.group else number,
            title=event.title,
            url=event.url,
            target=event.target,
            merged=bool(merge) or event.group,
        )

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        """Do nothing: `merge_request` has seen to it that the commits are there."""

    def check_access(self) -> None:
        """Ask for the proposed commit with the token. What it may not read, it may write all the same.

        Raises:
            ConfigError: GitHub refuses the token.
            InfrastructureError: GitHub does not answer.
        """
        if self.token is None:
            return
        api = _api(self.variables, self.token, self.patience)
        with contextlib.suppress(Forbidden):
            self._repeat(lambda: api.get(f"commits/{self.event.head}"))

    def publish(self, answer: Answer) -> None:
        """Write the check run `rtgate` and our comment; what the token may not do is said once, also for a fork.

        Of a group in a merge queue there is only the check run: the queue waits for it. The job's summary has the
        answer, whatever GitHub says.

        Raises:
            ConfigError: GitHub refuses the token or the answer.
            InfrastructureError: GitHub does not answer, or the job's summary cannot be written.
        """
        try:
            self._write_to_pull_request(answer, self._run())
        finally:
            self._write_summary(harmless(answer.markdown))

    def _write_to_pull_request(self, answer: Answer, run: int | None) -> None:
        if self.token is None:
            self.say(f"nothing is written to the pull request: set {TOKEN} to `${{{{ github.token }}}}`; {_ONLY_HERE}")
            return
        conversation = Conversation(api=_api(self.variables, self.token, self.patience), number=self.event.number)
        try:
            author = self._repeat(lambda: conversation.check(self._check(answer)))
        except Forbidden as error:
            if self.event.fork:
                self.say(f"the pull request is from a fork, whose jobs only read: {_ONLY_HERE}")
                return
            self.say(f"{error}: there is no check run; give the job `permissions: {{checks: write}}`")
            author = ACTIONS
        if self.event.group:
            return
        body = note_body(answer.markdown, run, GITHUB)
        try:
            later = self._repeat(lambda: conversation.comment(body, run, author))
        except Forbidden as error:
            self.say(f"{error}: there is no comment; give the job `permissions: {{pull-requests: write}}`")
            return
        if later is not None:
            self.say(f"the comment is of run {later}, which is later than this one ({run}), and stays")

    def _repeat(self, attempt: Callable[[], Result]) -> Result:
        # The whole is repeated: a comment whose answer got lost is there when it is looked for again.
        return self.patience.repeat(attempt, self._value("GITHUB_API_URL"), self.say)

    def _merge(self) -> str:
        """Return GitHub's merge of the pull request; empty where the clone does not have it, and of a group.

        `GITHUB_SHA` of a dispatched job is the default branch's tip: perhaps a merge of the same commit, into that.
        """
        if self.event.group or not self.event.base:
            return ""
        merge = self._value("GITHUB_SHA")
        try:
            return merge if self._commit(f"{merge}^2") == self.event.head else ""
        except ConfigError:
            return ""

    def _commit(self, reference: str) -> str:
        return commit_of(self.tree, reference, _DEEPEN)

    def _check(self, answer: Answer) -> Check:
        run, server = self.variables.get("GITHUB_RUN_ID", ""), self.variables.get("GITHUB_SERVER_URL", "")
        return Check(
            head=self.event.head,
            conclusion=_CONCLUSIONS.get(answer.exit_code, _OTHER_CONCLUSION),
            title=harmless(answer.text).partition("\n")[0] or f"exit code {answer.exit_code}",
            summary=note_body(answer.markdown, limit=GITHUB),
            run=run,
            url=f"{server}/{self._value('GITHUB_REPOSITORY')}/actions/runs/{run}" if run and server else "",
        )

    def _write_summary(self, markdown: str) -> None:
        path = self.variables.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8") as summary:
                summary.write(GITHUB.cut(markdown))
        except OSError as error:
            raise InfrastructureError(f"the job's summary {path} cannot be written: {error.strerror}") from error

    def _run(self) -> int | None:
        text = self.variables.get("GITHUB_RUN_ID", "")
        if text and not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise ConfigError(f"GITHUB_RUN_ID is {text!r}, not a number")
        return int(text) if text else None

    def _value(self, name: str) -> str:
        return _value(self.variables, name)


def check_repository(name: str, variable: str) -> str:
    """Return a repository's name. Raises ConfigError: it is none, as a path with more parts."""
    if not _REPOSITORY.fullmatch(name):
        raise ConfigError(f"{variable} is {name!r}, not owner/name")
    return name


def _event(variables: Mapping[str, str]) -> PullRequest | DispatchRequest:
    name = _value(variables, "GITHUB_EVENT_NAME")
    if name == "pull_request_target":
        raise ConfigError(
            "pull_request_target gives what builds the proposed kernel the repository's token and secrets: use the "
            "event pull_request"
        )
    return read_event(Path(_value(variables, "GITHUB_EVENT_PATH")), name)


def _requested_pull_request(
    request: DispatchRequest, api: GitHubApi, patience: Patience, say: Callable[[str], None]
) -> tuple[PullRequest, str]:
    """Return the pull request that a job is asked about, and why it is not reviewed; empty if it is.

    Raises:
        ConfigError: GitHub refuses the token.
        InfrastructureError: GitHub does not answer.
    """
    answer = patience.repeat(lambda: api.get(f"pulls/{request.number}"), api.url, say)
    try:
        pull = pull_request(answer)
    except (KeyError, TypeError, ValueError):
        raise InfrastructureError(f"{api.url} did not answer with a pull request: a proxy's page?") from None
    refused = ""
    if answer.get("state") != "open":
        refused = f"#{request.number} is not open: there is nothing to review"
    elif pull.head != request.commit:
        refused = (
            f"#{request.number} ends at {pull.head[:12]}, and {request.commit[:12]} was to run: look at what was "
            "pushed, and say `/rtgate run` again"
        )
    # `base` is what the branch had when the pull request was opened, and the token is of a job of the default branch.
    # The commit that was to run gets the check run: another job may have reviewed the later one already.
    return replace(pull, base="", fork=False, head=request.commit), refused


def _api(variables: Mapping[str, str], token: Token | None, patience: Patience) -> GitHubApi:
    if token is None:
        raise ConfigError(f"{TOKEN} is not set: set it to `${{{{ github.token }}}}`")
    repository = check_repository(_value(variables, "GITHUB_REPOSITORY"), "GITHUB_REPOSITORY")
    url = failures.server_url(_value(variables, "GITHUB_API_URL"), "GITHUB_API_URL", _API)
    return GitHubApi(url=url, repository=repository, token=token, patience=patience)


def _value(variables: Mapping[str, str], name: str) -> str:
    text = variables.get(name, "")
    if not text:
        raise ConfigError(f"{name} is not set: `--forge github` needs a job of GitHub Actions (on: pull_request)")
    return text
