# SPDX-License-Identifier: MIT
"""The commits of a merge request in the clone of a CI job: whether they are there, and how they get there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from rtgate import durations, process
from rtgate.errors import ConfigError
from rtgate.http.patience import NotNow, Patience
from rtgate.kernel.merge import commit_of, git, git_of_user

_TIMED_OUT = 124  # of timeout (GNU coreutils)
_FETCH_S = 900  # a whole kernel history over a slow line; git itself ends sooner when nothing comes
_TIP = "refs/rtgate/target"
_PROPOSAL = "refs/rtgate/proposal"
_REFUSED = re.compile(
    r"Authentication failed|could not read Username|couldn't find remote ref|does not appear to be a git repository|"
    r"not our ref|Permission denied|[Rr]epository (?:'.*' )?not found|returned error: 403"
)
_SECRET = re.compile(r"(?<=://)[^/@\s]+@")  # a runner's remote may have the job's token in it


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


def run_fetch(
    tree: Path, remote: str, references: Sequence[str], environment: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Fetch references from a remote (name or URL) into a clone, once, in bounded time; `environment` is added to ours.

    Nothing of the clone is written but objects, and refs that a reference names as its place.
    """
    # A server that sends nothing is left sooner. One that packs a large history sends a few bytes (`keepAlive`).
    options = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"]
    fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap="]
    fetch += ["--no-auto-maintenance", "--end-of-options", remote, *references]
    command = ["timeout", "--kill-after=10", str(_FETCH_S), *git_of_user(tree), *options, *fetch]
    variables = {"GIT_TERMINAL_PROMPT": "0", **(environment or {})}
    return process.attempt(process.die_with_parent(command, "TERM"), environment=variables)


def fetch_ended(attempt: CompletedProcess[str]) -> str:
    """Return how a fetch ended that failed without a word."""
    if attempt.returncode == _TIMED_OUT:
        return f"git took longer than {durations.format_s(_FETCH_S)}, and was ended"
    return f"git ended with status {attempt.returncode}"


def _fetch(tree: Path, remote: str, reference: str, place: str) -> None:
    attempt = run_fetch(tree, remote, [f"+{reference}:{place}"])
    if attempt.returncode == 0:
        return
    lines = [line.strip() for line in attempt.stderr.split("\n") if line.strip()]
    reason = _clean(lines[0])[:300] if lines else fetch_ended(attempt)
    message = f"{reference} cannot be fetched from {_clean(remote)}: {reason}"
    if _REFUSED.search(attempt.stderr):
        raise ConfigError(message)
    raise NotNow(message)


def _clean(text: str) -> str:
    return _SECRET.sub("", text)
