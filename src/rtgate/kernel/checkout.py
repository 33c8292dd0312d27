# SPDX-License-Identifier: MIT
"""A commit of a git repository as a tree of its own in the cache; the repository's own files and index stay alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rtgate import process, site
from rtgate.errors import BuildError, InfrastructureError
from rtgate.files import remove_tree, short_hash, waiting_lock
from rtgate.kernel import merge
from rtgate.kernel.identity import BUILD_DIRECTORY_PREFIX, SourceIdentity, commit_fingerprint
from rtgate.kernel.orphans import note_origins
from rtgate.kernel.source import Tree, read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def checkout(
    repository: Path, reference: str, label: str, notice: Callable[[str], None] = lambda _: None, *, keep: bool = True
) -> Iterator[Tree]:
    """Yield `reference` of `repository` as a tree, which is the caller's alone until the block is left.

    Trees with one `label` (such as `baseline`) share a place: going from one commit to the next writes only the files
    that differ, so a build there stays incremental. Whoever wants another commit there waits, and is told so by
    `notice`: it would change the sources below a compiler that is reading them.

    Without `keep` the tree is written anew and removed when the block is left, whatever was done to it.

    Raises:
        BuildError: the commit has files where rtgate builds.
        ConfigError: no git repository, or no such commit in it.
        InfrastructureError: git fails.
    """
    repository = repository.resolve()
    # Of a clone that shows only some directories a kernel still needs all.
    git = [*merge.git(repository), "-c", "core.sparseCheckout=false"]
    commit = merge.commit_of(repository, reference)
    _refuse_build_directories(git, commit)
    place = site.cache().absolute() / "checkouts" / short_hash(f"{repository}\0{label}")
    index = {"GIT_INDEX_FILE": str(place.with_suffix(".index")), "GIT_WORK_TREE": str(place)}
    with waiting_lock(place.with_suffix(".lock"), f"builds the {label} of {repository}", notice):
        place.mkdir(parents=True, exist_ok=True)
        note_origins(place, repository, notice=notice)
        # Git's own lock, left by one that was killed: whoever lives waits for ours.
        place.with_suffix(".index.lock").unlink(missing_ok=True)
        # git writes its index last: of a checkout that was stopped it does not know what is there.
        mark = place.with_suffix(".unfinished")
        if not keep or mark.exists():
            _empty(place)
        _empty_if_converted(git, place, commit, index)
        mark.touch()
        _write(git, place, commit, index)
        mark.unlink()
        try:
            yield _tree(git, place, repository, commit)
        finally:
            if not keep:
                _empty(place)


def _write(git: list[str], place: Path, commit: str, index: dict[str, str]) -> None:
    """Write a commit's files. Raises BuildError for a name or a link that is too long, else InfrastructureError."""
    # The second: also files that somebody changed in the cache.
    for words in (["read-tree", "--reset", "-u", commit], ["checkout-index", "--all", "--force", "--index", "--quiet"]):
        try:
            process.output([*git, *words], environment=index)
        except InfrastructureError as error:
            if "File name too long" in str(error):
                _empty(place)
                raise BuildError(f"{commit[:12]} cannot be checked out: {error}") from error
            raise


def _empty(place: Path) -> None:
    """Remove a tree, and what git knows of it. Raises InfrastructureError."""
    try:
        remove_tree(place)
    except OSError as error:
        raise InfrastructureError(f"{place} cannot be removed: {error}") from error
    place.mkdir()
    place.with_suffix(".index").unlink(missing_ok=True)


def _refuse_build_directories(git: list[str], commit: str) -> None:
    """Refuse a commit that has something where rtgate builds: a link there would lead the build out of the tree."""
    names = process.output([*git, "ls-tree", "--name-only", "-z", "--full-tree", commit]).split("\0")
    clashes = [name for name in names if name.startswith(BUILD_DIRECTORY_PREFIX)]
    if clashes:
        raise BuildError(f"{commit[:12]} has {clashes[0]!r}, where rtgate builds: rename it")


def _empty_if_converted(git: list[str], place: Path, commit: str, index: dict[str, str]) -> None:
    """Remove the tree of a commit with other attributes: they convert files that git would take for unchanged."""
    if not place.with_suffix(".index").exists():
        return
    names = ["--", ":(top,glob)**/.gitattributes"]
    if process.attempt([*git, "diff-index", "--cached", "--quiet", commit, *names], environment=index).returncode:
        _empty(place)


def _tree(git: list[str], place: Path, repository: Path, commit: str) -> Tree:
    version = read_version(place, f"commit {commit[:12]} of {repository}")
    name = process.attempt([*git, "describe", "--tags", "--always", "--abbrev=12", commit]).stdout.strip()
    source = SourceIdentity(
        kind="git",
        version=str(version),
        path=str(repository),
        fingerprint=commit_fingerprint(commit),
        commit=commit,
        describe=name or commit[:12],
        subject=merge.subject_of(repository, commit),
        dirty=False,
    )
    return Tree(place, version, source, owned=True)
