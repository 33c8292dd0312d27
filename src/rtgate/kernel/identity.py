# SPDX-License-Identifier: MIT
"""What exactly a source tree is: a commit with its changes, or the state of all files."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rtgate import process
from rtgate.kernel.merge import git_of_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BUILD_DIRECTORY_PREFIX = "rtgate-build-"
"""Build directories inside trees that rtgate owns; no part of the source."""

_SOURCE_NAMES = (".c", ".h", ".S", ".dts", ".dtsi", "Makefile", "Kbuild", "Kconfig")
TEMPORARY = (".tmp.config.??????????", ".merge_tmp.config.??????????", "sed??????")
"""Files that scripts/kconfig/merge_config.sh and its sed keep at the top of a tree for a moment, as shell patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """What a kernel was built from, as `build.json` has it.

    Attributes:
        kind: `debian` (a source package), `git`, or `directory`.
        fingerprint: SHA-256 that changes whenever any source file does. Of a directory it covers names, sizes and
            times, not contents: it compares states of one machine, not of two.
        subject: the first line of the commit's message.
        dirty: whether a git tree differs from its commit, or may.
    """

    kind: str
    version: str
    path: str
    fingerprint: str
    package: str | None = None
    package_version: str | None = None
    pinned: bool | None = None
    commit: str | None = None
    describe: str | None = None
    subject: str | None = None
    dirty: bool | None = None

    def as_json(self) -> dict[str, str | bool]:
        """Return the fields that are known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def commit_fingerprint(commit: str) -> str:
    """Return the fingerprint of a commit's own tree, which nothing else has."""
    return hashlib.sha256(f"{commit}\n".encode()).hexdigest()


def of_tree(tree: Path, version: str) -> SourceIdentity:
    """Identify a tree, by git where it has a repository. Raises as `of_git`."""
    return of_git(tree, version) if (tree / ".git").exists() else of_directory(tree, version)


def of_git(tree: Path, version: str) -> SourceIdentity:
    """Return the identity of a git tree: its commit, and a hash of what was changed since.

    Raises:
        InfrastructureError: git is missing or fails.
    """
    commit = _git(tree, "rev-parse", "HEAD").strip()
    attempt = process.attempt([*git_of_user(tree), "describe", "--tags", "--always", "--abbrev=12"])
    changes = _git(tree, "diff", "HEAD", "--binary", "--no-ext-diff")
    untracked_files = sorted(filter(None, _git(tree, "ls-files", "-z", "--others", "--exclude-standard").split("\0")))
    state = hashlib.sha256(f"{commit}\n{changes}".encode("utf-8", "surrogateescape"))
    for name in untracked_files:
        if not name.endswith("/"):  # a repository within this one
            state.update(_state(tree / name, name, f"{name}\0gone\n").encode("utf-8", "surrogateescape"))
    for name in _repositories_within(tree, untracked_files):
        for line in sorted(_states(str(tree / name), f"{name}/")):
            state.update(line.encode("utf-8", "surrogateescape"))
    unwatched = _unwatched_states(tree)
    state.update(unwatched)
    return SourceIdentity(
        kind="git",
        version=version,
        path=str(tree),
        fingerprint=state.hexdigest(),
        commit=commit,
        describe=attempt.stdout.strip() or commit[:12],
        subject=_git(tree, "log", "-1", "--format=%s", commit).strip(),
        dirty=bool(changes or untracked_files or unwatched),
    )


def sources(tree: Path, commit: str) -> str:
    """Return a hash of what a git tree has for the compiler: tracked files against a commit, and new ones by name.

    It stays the same if somebody commits what is there, or writes a log or a build into the tree. Raises as `of_git`.
    """
    state = hashlib.sha256(_git(tree, "diff", commit, "--binary", "--no-ext-diff").encode("utf-8", "surrogateescape"))
    for name in sorted(_git(tree, "ls-files", "-z", "--others", "--exclude-standard").split("\0")):
        if name.endswith(_SOURCE_NAMES):
            state.update(_state(tree / name, name, f"{name}\0gone\n").encode("utf-8", "surrogateescape"))
    state.update(_unwatched_states(tree))
    return state.hexdigest()


def _unwatched_states(tree: Path) -> bytes:
    """Return the states of tracked files in which git sees no change, because somebody told it not to look.

    `git update-index` sets these bits: assume-unchanged (a small letter), skip-worktree (S, also of what a sparse clone
    does not show).
    """
    tagged = (entry.split(" ", 1) for entry in _git(tree, "ls-files", "-z", "-v").split("\0") if entry)
    names = (name for tag, name in tagged if tag == "S" or tag.islower())
    return "".join(_state(tree / name, name) for name in names).encode("utf-8", "surrogateescape")


def _git(tree: Path, *arguments: str) -> str:
    return process.output([*git_of_user(tree), *arguments])


def git_files(tree: Path) -> tuple[str, ...]:
    """Return the files of a git working tree as they are now: tracked ones and new ones, not the ignored."""
    names = _git(tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    within = set(_repositories_within(tree, names))
    files = {name for name in names if name and name.rstrip("/") not in within and os.path.lexists(tree / name)}
    for name in within:
        files |= {line.partition("\0")[0] for line in _states(str(tree / name), f"{name}/")} - {""}
    return tuple(sorted(files))


def _repositories_within(tree: Path, names: Iterable[str]) -> list[str]:
    """Return the directories with a repository of their own: submodules, and what somebody has cloned into the tree.

    git says nothing of the files in them. `names` are what it calls untracked: those end with a slash.
    """
    stages = _git(tree, "ls-files", "-z", "--stage").split("\0")
    submodules = {entry.partition("\t")[2] for entry in stages if entry.startswith("160000 ")}
    directories = submodules | {name.rstrip("/") for name in names if name.endswith("/")}
    return sorted(name for name in directories if (tree / name).is_dir() and not (tree / name).is_symlink())


def of_directory(tree: Path, version: str) -> SourceIdentity:
    """Return the identity of a tree without git."""
    return SourceIdentity(kind="directory", version=version, path=str(tree), fingerprint=fingerprint(tree))


def fingerprint(tree: Path) -> str:
    """Return a SHA-256 over names, sizes and times of all files: about a second for Linux."""
    state = hashlib.sha256()
    for line in sorted(_states(str(tree), "")):
        state.update(line.encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def _states(directory: str, prefix: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                # Build directories live inside trees that rtgate owns; they are no source.
                if entry.name != ".git" and not name.startswith(BUILD_DIRECTORY_PREFIX):
                    yield from _states(entry.path, f"{name}/")
            elif prefix or not any(fnmatchcase(name, pattern) for pattern in TEMPORARY):
                yield _state(entry.path, name)


def _state(path: str | Path, name: str, gone: str = "") -> str:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return gone  # an editor's, or that of a build beside this one
    return f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
