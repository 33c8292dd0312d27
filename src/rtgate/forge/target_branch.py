# SPDX-License-Identifier: MIT
"""The commits of a merge request in the clone of a CI job: whether they are there, and how they get there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rtgate import process
from rtgate.errors import ConfigError
from rtgate.http.patience import NotNow, Patience
from rtgate.kernel.merge import commit_of, git, git_of_user

_FETCH_S = 900  # a whole kernel history over a slow line; git itself ends sooner when nothing comes
_TIP = "refs/rtgate/target"
_PROPOSAL = "refs/rtgate/proposal"
_REFUSED = re.compile(
    r"Authentication failed|could not read Username|couldn't find remote ref|does not appear to be a git repository|"
    r"not our ref|Permission denied|[Rr]epository (?:'.*' )?not found|returned error: 403"
)
_SECRET = re.compile(r"(?<=://)[^/@\s]+@")  # a runner's remote may have the job's token in it


def is_merge(tree: Path, commit: str) -> bool:
    """Return whether a commit has more than one parent. Raises ConfigError: it is not in the clone."""
    commit_of(tree, commit)
    name = f"{commit}^2^{{commit}}"
    arguments = [*git(tree), "rev-parse", "--verify", "--quiet", "--end-of-options", name]
    return process.attempt(arguments).returncode == 0


def fetch_tip(tree: Path, remote: str, branch: str, patience: Patience, say: Callable[[str], None]) -> str:
    """Return the commit that a branch of a remote (name or URL) has now; the clone `tree` has it afterwards.

    Of the clone only objects and the ref `refs/rtgate/target` are written. `say` is told of a remote that is away.

    Raises:
        ConfigError: there is no such branch, or the remote refuses us.
        InfrastructureError: the remote does not answer, or git is not installed.
    """
    process.require("git", "timeout")
    reference = f"refs/heads/{branch}"
    if process.attempt([*git(tree), "check-ref-format", reference]).returncode != 0:
        raise ConfigError(f"{branch!r} is not the name of a branch")
    patience.repeat(lambda: _fetch(tree, remote, reference, _TIP), _clean(remote), say)
    return commit_of(tree, _TIP)


def fetch_commit(tree: Path, remote: str, commit: str, patience: Patience, say: Callable[[str], None]) -> str:
    """Return a commit of a remote (name or URL), which the clone `tree` has afterwards.

    The remote must hand out commits that no branch of it names, as GitLab does. Of the clone only objects and the ref
    `refs/rtgate/proposal` are written. `say` is told of a remote that is away.

    Raises:
        ConfigError: there is no such commit, or the remote refuses us.
        InfrastructureError: the remote does not answer, or git is not installed.
    """
    process.require("git", "timeout")
    patience.repeat(lambda: _fetch(tree, remote, commit, _PROPOSAL), _clean(remote), say)
    return commit_of(tree, commit)


def _fetch(tree: Path, remote: str, reference: str, place: str) -> None:
    # A server that accepts connections and sends nothing would be waited for without end.
    options = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"]
    fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap="]
    arguments = [*git_of_user(tree), *options, *fetch, "--end-of-options", remote, f"+{reference}:{place}"]
    command = ["timeout", "--kill-after=10", str(_FETCH_S), *arguments]
    attempt = process.attempt(command, environment={"GIT_TERMINAL_PROMPT": "0"})
    if attempt.returncode == 0:
        return
    lines = [line.strip() for line in attempt.stderr.split("\n") if line.strip()]
    reason = _clean(lines[0])[:300] if lines else f"git ended with status {attempt.returncode}"
    message = f"{reference} cannot be fetched from {_clean(remote)}: {reason}"
    if _REFUSED.search(attempt.stderr):
        raise ConfigError(message)
    raise NotNow(message)


def _clean(text: str) -> str:
    return _SECRET.sub("", text)
