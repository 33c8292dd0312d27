# SPDX-License-Identifier: MIT
"""What a merge request would make of its target branch: the result of merging, without touching a work tree.

`git merge-tree --write-tree` (git 2.38) merges in the object store alone, so nobody's index, branch or file changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate import process
from rtgate.errors import BuildError, ConfigError, InfrastructureError

COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
"""The whole name of a commit, SHA-1 or SHA-256."""
_USAGE = 129  # of git, for arguments that it does not know
_WHO = {"NAME": "rtgate", "EMAIL": "rtgate@localhost", "DATE": "2000-01-01T00:00:00Z"}
COMMITTER = {f"GIT_COMMITTER_{name}": value for name, value in _WHO.items()}
"""Commits of ours depend on nothing but what they hold."""
_NO_SETTINGS = ("GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1")
_AUTHOR = {f"GIT_AUTHOR_{name}": value for name, value in _WHO.items()}


class ConflictError(BuildError):
    """A merge request does not merge into its target branch: its author has to rebase it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """The two commits that are compared, in full.

    Attributes:
        base: what the target branch has.
        head: the last commit that is proposed.
        candidate: what it would have after the merge.
        subject: the first line of `head`.
    """

    base: str
    head: str
    candidate: str
    subject: str


def commit_of(tree: Path, reference: str, deepen: str = "") -> str:
    """Return the full name of a commit.

    Args:
        tree: the clone.
        reference: what git understands.
        deepen: what to do where the clone is shallow; empty for what a person types.

    Raises:
        ConfigError: it is not there.
    """
    attempt = process.attempt(
        [*git(tree), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"]
    )
    if attempt.returncode != 0:
        require_clone(tree)
        deepen = deepen or f"run 'git -C {tree} fetch --unshallow'"
        advice = (
            f"it is a shallow clone: {deepen}"
            if _is_shallow(tree)
            else f"check the spelling, or fetch its branch: git -C {tree} fetch origin BRANCH"
        )
        raise ConfigError(f"{tree} has no commit {reference!r}; {advice}")
    return attempt.stdout.strip()


def prepare_merge(tree: Path, base: str, head: str) -> Commits:
    """Return the commits to compare where `head` is to be merged into `base`.

    The merge is a commit that no branch names. The same two commits make the same merge, on any machine.

    Raises:
        ConfigError: a commit is not there, there is nothing to merge, or the two have no history in common.
        ConflictError: they do not merge; the message names the files.
        InfrastructureError: git is older than 2.38, or fails.
    """
    base, head = commit_of(tree, base), commit_of(tree, head)
    if _is_ancestor(tree, head, base):
        raise ConfigError(f"{head[:12]} is in {base[:12]} already: there is nothing to review")
    subject = subject_of(tree, head)
    if _is_ancestor(tree, base, head):
        return Commits(base=base, head=head, candidate=head, subject=subject)
    _require_history(tree, base, head)
    # In the repository itself: in a work tree git takes the attributes of what is checked out there.
    inside = Path(process.output([*git(tree), "rev-parse", "--absolute-git-dir"]).removesuffix("\n"))
    merge = process.attempt(
        [*git(inside), "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head]
    )
    if merge.returncode == 1:
        files = sorted(set(merge.stdout.split("\0")[1:]) - {""})
        names = ", ".join(files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
        raise ConflictError(f"{head[:12]} does not merge into {base[:12]}: conflicts in {names}: rebase it")
    if merge.returncode == _USAGE:
        raise InfrastructureError("git merges without a work tree from 2.38 on, and this one is older: install it")
    if merge.returncode:
        raise ConfigError(f"{head[:12]} cannot be merged into {base[:12]}: {merge.stderr.strip()[:300]}")
    arguments = [
        *git(tree),
        "commit-tree",
        merge.stdout.rstrip("\0\n"),
        "-p",
        base,
        "-p",
        head,
        "-m",
        f"merge {head[:12]}",
    ]
    candidate = process.output(arguments, environment={**COMMITTER, **_AUTHOR}).strip()
    return Commits(base=base, head=head, candidate=candidate, subject=subject)


def merged_by_forge(tree: Path, base: str, merge: str) -> Commits:
    """Return the commits to compare where a forge has merged already, into `base`.

    Of a merge the other parent is what was proposed; of anything else, as after a rebase, it is that itself.

    Raises:
        ConfigError: a commit is not there, or there is nothing to review.
        InfrastructureError: git fails.
    """
    base, candidate = commit_of(tree, base), commit_of(tree, merge)
    if _is_ancestor(tree, candidate, base):
        raise ConfigError(f"{candidate[:12]} is in {base[:12]} already: there is nothing to review")
    parents = process.output([*git(tree), "log", "-1", "--format=%P", candidate]).split()
    head = parents[1] if len(parents) == 2 and parents[0] == base else candidate
    return Commits(base=base, head=head, candidate=candidate, subject=subject_of(tree, head))


def subject_of(tree: Path, commit: str) -> str:
    """Return the first line of a commit's message."""
    return process.output([*git(tree), "log", "-1", "--format=%s", commit]).strip()


def series(tree: Path, commits: Commits) -> tuple[str, ...]:
    """Return the proposed commits, the first one first; of a merge among them only what it merged into."""
    names = process.output([*git(tree), "rev-list", "--reverse", "--first-parent", f"{commits.base}..{commits.head}"])
    return tuple(names.split())


def changed_files(tree: Path, commits: Commits, directory: str) -> Sequence[str]:
    """Return the files below a directory that differ between the two commits."""
    arguments = ["diff", "--name-only", "-z", commits.base, commits.candidate, "--", directory]
    return [name for name in process.output([*git(tree), *arguments]).split("\0") if name]


def export(tree: Path, commit: str, directory: str, place: Path) -> None:
    """Write a directory of a commit below `place`, if the commit has it.

    Raises:
        ConfigError: there is a link or a submodule in it, or it is one itself: what it leads to is not in this commit.
        InfrastructureError: git fails.
    """
    itself = process.output([*git(tree), "ls-tree", "-z", "--full-tree", commit, "--", directory])
    if itself and itself.split()[1] != "tree":
        raise ConfigError(f"{commit[:12]}:{directory} is not a directory (a link, a submodule?): put one there")
    listing = process.output([*git(tree), "ls-tree", "-r", "-z", "--full-tree", commit, "--", f"{directory}/"])
    for entry in filter(None, listing.split("\0")):
        about, _, name = entry.partition("\t")
        mode, kind, blob = about.split()
        if kind != "blob" or mode == "120000":
            raise ConfigError(f"{commit[:12]}:{name} is a link or a submodule: put the file itself there")
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(process.output_bytes([*git(tree), "cat-file", "blob", blob]))
        path.chmod(0o755 if mode == "100755" else 0o644)


def tracked_file(tree: Path, place: Path) -> str:
    """Return a file of the clone's work tree that is `place`, or a link on the way to it, or below it; else nothing."""
    top = process.attempt([*git(tree), "rev-parse", "--show-toplevel"])
    if top.returncode != 0:
        return ""  # a bare repository
    root = Path(top.stdout.removesuffix("\n"))
    parents = (Path(os.path.realpath(path.parent), path.name) for path in (place.absolute(), *place.absolute().parents))
    own = [str(path.relative_to(root)) for path in parents if path != root and path.is_relative_to(root)]
    if not own:
        return ""
    names = process.output([*git(root), "ls-files", "-z"]).split("\0")
    return next((name for name in names if name in own or name.startswith(f"{own[0]}/")), "")


def require_clone(tree: Path) -> None:
    """Raise ConfigError where a directory is no clone."""
    if process.attempt([*git(tree), "rev-parse", "--git-dir"]).returncode != 0:
        raise ConfigError(f"{tree} is not a git clone: name one of the kernel with --tree DIR")


def git(tree: Path) -> list[str]:
    """Return the begin of a command on a clone, whoever owns it; no program that the clone or a commit names is run.

    Settings of the user and of the machine do not count: a `.gitattributes` of a commit may name their filters.

    Raises InfrastructureError: git is not installed.
    """
    process.require("git")
    return ["env", *_NO_SETTINGS, *git_of_user(tree)]


def git_of_user(tree: Path) -> list[str]:
    """Return the same with the user's settings, such as a proxy, a certificate, or files that git is to ignore."""
    settings = ("safe.directory=*", "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null")
    return ["git", *(word for setting in settings for word in ("-c", setting)), "-C", str(tree)]


def _require_history(tree: Path, base: str, head: str) -> None:
    """Raise ConfigError where a clone lacks the commit that two others have in common, because it is shallow."""
    if process.attempt([*git(tree), "merge-base", base, head]).returncode == 0:
        return
    if _is_shallow(tree):
        raise ConfigError(
            f"{tree} is a shallow clone, which lacks what {base[:12]} and {head[:12]} have in common: run "
            f"'git -C {tree} fetch --unshallow' (in CI: clone with the whole history)"
        )


def _is_shallow(tree: Path) -> bool:
    return process.output([*git(tree), "rev-parse", "--is-shallow-repository"]).strip() == "true"


def _is_ancestor(tree: Path, ancestor: str, descendant: str) -> bool:
    return process.attempt([*git(tree), "merge-base", "--is-ancestor", ancestor, descendant]).returncode == 0
