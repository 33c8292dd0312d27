# SPDX-License-Identifier: MIT
"""A change in Gerrit: gates one patch set, as Jenkins' Gerrit Trigger or `rtgate gerrit` names it, and votes on it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate import process
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.gerrit_chain import Ballot, ballots
from rtgate.forge.gerrit_change import PatchSet, chain_of, patch_set
from rtgate.forge.gerrit_server import ClosedError, GerritServer, access
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.forge.target_branch import fetch_ended, run_fetch
from rtgate.http.client import AccessRefused, nobody
from rtgate.http.patience import Patience
from rtgate.kernel.merge import git, require_clone

LABEL, DEFAULT_LABEL = "RTGATE_GERRIT_LABEL", "Verified"
ANSWERED = "RTGATE_GERRIT_ANSWERED"
"""Names a file for `rtgate gerrit`, which exists once the patch set that was measured has its answer."""
# Gerrit's own limit (change.commentSizeLimit) is 16384 UTF-16 units.
_MESSAGE = 16000
_CUT = "\n[the rest is in the report]"
# What a board measured for an hour waits for a server that is being upgraded.
_PATIENCE = Patience(total=1800.0)
_FETCH_PAUSES_S = (0.0, 5.0, 30.0)  # before each attempt
_SIBLINGS = 10  # of a topic that are named
_CONTROLS = re.compile(r"[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class NoVoteError(ConfigError):
    """An answer was written without a vote: give the project the label, and the account the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gerrit:
    """A patch set in Gerrit; keeps to `Forge`.

    Attributes:
        chain: the patch sets that are answered with this one, which is the last of them; empty for it alone.
        label: what is voted on.
        url: of the change's page, as Jenkins has it; empty for the one that Gerrit has by itself.
        answered: a file that is made when `patch_set` has its answer, with a vote or without; None for none.
    """

    server: GerritServer
    patch_set: PatchSet
    chain: tuple[PatchSet, ...] = ()
    label: str = DEFAULT_LABEL
    url: str = ""
    answered: Path | None = None

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str] | None = None, *, say: Callable[[str], None] = nobody
    ) -> Gerrit:
        """Return the patch set that the environment names, which loses the password: what is built must not get it.

        Args:
            variables: the environment, if it is another.
            say: is told when the server is away and when it is back.

        Raises:
            ConfigError: it names no patch set, or no account.
        """
        environment: MutableMapping[str, str] = os.environ if variables is None else dict(variables)
        page = environment.get("GERRIT_CHANGE_URL", "")
        account = access(environment)
        tip = patch_set(environment)
        return cls(
            server=GerritServer(account, notify=say),
            patch_set=tip,
            chain=chain_of(environment, tip),
            label=environment.get(LABEL) or DEFAULT_LABEL,
            url=page if re.fullmatch(r"https?://[\x21-\x7e]+", page) else "",
            answered=Path(environment[ANSWERED]) if environment.get(ANSWERED) else None,
        )

    def merge_request(self) -> MergeRequest:
        """Return the patch set with its parents, against the tip of its branch.

        The commits are in Gerrit: `fetch` brings them into a clone.

        Raises:
            ConfigError: the branch is not there, or the account may not read it.
            InfrastructureError: Gerrit does not answer.
        """
        return MergeRequest(
            base=self.server.branch(self.patch_set.project, self.patch_set.branch),
            head=self.patch_set.revision,
            name=self.patch_set.name,
            title=self.patch_set.title,
            url=self.url or self.server.page(self.patch_set),
            target=self.patch_set.branch,
            fetch=f"git fetch {self.server.public_repository(self.patch_set.project)} {self.patch_set.ref}",
        )

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        """Get the commits of a merge request into a clone, which no branch and no file of it notices.

        Raises:
            ConfigError: `tree` is not a clone, or the account may not read the project.
            InfrastructureError: git could not fetch, or the commits are not there any more.
        """
        require_clone(tree)
        commits = problem = ""
        for pause in _FETCH_PAUSES_S:
            time.sleep(pause)
            # Waits for a server that is away, and says who must act when it refuses us.
            self.server.branch(self.patch_set.project, self.patch_set.branch)
            problem = self._fetch(tree)
            commits = ", ".join(commit for commit in (request.base, request.head) if not _has(tree, commit))
            if not commits:
                return
        raise InfrastructureError(f"{self.patch_set.name}: git fetched no {commits}: {problem or 'it is not there'}")

    def _fetch(self, tree: Path) -> str:
        """Fetch branch and patch set; return what went wrong."""
        references = [self.patch_set.branch_ref, self.patch_set.ref]
        remote = self.server.repository(self.patch_set.project)
        attempt = run_fetch(tree, remote, references, self.server.git_environment())
        return "" if attempt.returncode == 0 else " ".join(attempt.stderr.split())[-300:] or fetch_ended(attempt)

    def check_access(self) -> None:
        """Do nothing: `merge_request` has asked with our password."""

    def publish(self, answer: Answer) -> None:
        """Write the answer to the patch set that it is about, also when there is a newer one, and vote.

        The other changes of its relation chain get a vote and a short message. The last one comes last: whoever is
        killed in between has not answered it.

        Raises:
            NoVoteError: the label is not there, or the account may not vote; the answer was written without a vote.
            ConfigError: an answer was not written: Gerrit refuses it, or the account may not see the change.
            InfrastructureError: Gerrit does not answer.
        """
        server = replace(self.server, patience=_PATIENCE)
        whole = replace(answer, text="\n\n".join(filter(None, (answer.text.rstrip(), self._siblings()))))
        problems: list[ConfigError] = []
        is_written = False
        for ballot in ballots(self.chain or (self.patch_set,), whole, self.server.page(self.patch_set)):
            try:
                self._cast(ballot, server)
                is_written = True
            except ConfigError as error:  # the others get their messages all the same
                problems.append(error)
                is_written = isinstance(error, NoVoteError)
        # The last one has the whole answer. A message below it that is missing is not worth another measurement.
        if self.answered is not None and is_written:
            with contextlib.suppress(OSError):  # then the review may be made once more
                self.answered.touch()
        unwritten = [problem for problem in problems if not isinstance(problem, NoVoteError)]
        if problems:
            raise (unwritten or problems)[-1]

    def _siblings(self) -> str:
        """Return what is to be said of changes in other repositories with the same topic; empty for none."""
        try:
            topic, siblings = self.server.topic(self.patch_set)
        except (ConfigError, InfrastructureError):
            return ""  # the answer itself will say it
        if not siblings:
            return ""
        names = ", ".join(f"change {sibling.change} ({sibling.project})" for sibling in siblings[:_SIBLINGS])
        more = f" and {len(siblings) - _SIBLINGS} more" if len(siblings) > _SIBLINGS else ""
        return (
            f"The topic {topic!r} has changes in other repositories, which were not built or measured: {names}{more}."
        )

    def _cast(self, ballot: Ballot, server: GerritServer) -> None:
        """Write a message to a patch set and vote. Raises as `publish`."""
        message, vote = _message(ballot.text), ballot.vote
        try:
            labels = server.review(ballot.patch_set, message, {self.label: vote})
        except ClosedError:
            # It was submitted or abandoned meanwhile: there is nothing to vote on, and something to read.
            server.review(ballot.patch_set, message, {})
            return
        except AccessRefused as error:
            if error.reply.status == 401:
                raise
            server.review(ballot.patch_set, message, {})
            raise self._vote_error(f"{self.server.access.user} may not vote {_vote(vote)} on {self.label}") from error
        if self.label not in labels:
            raise self._vote_error(f"{self.patch_set.project} has no label {self.label} with a vote of {_vote(vote)}")

    def _vote_error(self, what: str) -> NoVoteError:
        return NoVoteError(
            f"{what}: the answer was written without a vote. In Gerrit give {self.patch_set.project} the label and "
            f"{self.server.access.user} the permission to vote -1 to +1 on it, or name another label in {LABEL}"
        )


def _has(tree: Path, commit: str) -> bool:
    return process.attempt([*git(tree), "cat-file", "-e", f"{commit}^{{commit}}"]).returncode == 0


def _vote(vote: int) -> str:
    return f"{vote:+d}" if vote else "0"


def _message(text: str) -> str:
    """Return a text as Gerrit takes it: no control characters, and not too long; it is cut where a line ends."""
    clean = _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n")).encode("utf-16-le", "replace")
    if len(clean) <= 2 * _MESSAGE:
        return clean.decode("utf-16-le")
    return clean[: 2 * _MESSAGE].decode("utf-16-le", "ignore").rpartition("\n")[0] + _CUT
