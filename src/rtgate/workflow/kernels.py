# SPDX-License-Identifier: MIT
"""From a board and what names its kernels to built ones: commits of a tree, a working tree, Debian's source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import site
from rtgate.board.boards import Board
from rtgate.board.boot import ArmName
from rtgate.errors import BuildError, ConfigError
from rtgate.kernel import build as kernel_build
from rtgate.kernel import source
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.build_limits import BuildLimits
from rtgate.kernel.checkout import checkout
from rtgate.kernel.configuration import BuildDescription, load_description
from rtgate.kernel.merge import COMMIT
from rtgate.kernel.source import Tree
from rtgate.report.build_progress import show_progress
from rtgate.report.notices import say, step

BUILDS = Path("build")
"""Where builds are left, seen from where rtgate is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the kernels of a gate are built from.

    Attributes:
        build: an entry of kernel-configs/, or a path; empty for the board's own.
        tree: kernel source; None for Debian's.
        base: a commit of the tree that is the baseline; empty for none.
        candidate: a commit of the tree; empty for the working tree.
        patches: a series that is applied to the candidate, instead of the build's own.
    """

    build: str = ""
    tree: Path | None = None
    base: str = ""
    candidate: str = ""
    patches: Path | None = None

    def description(self, board: Board) -> BuildDescription:
        """Return the build for a board.

        Raises:
            ConfigError: there is none, it is for another architecture, or its own series would be the baseline's alone.
        """
        name = self.build or board.build
        if not name:
            raise ConfigError(f"{board.name} has no build of its own: name one (--build), or a built kernel (--kernel)")
        description = find_description(name)
        if description.arch != board.arch:
            raise ConfigError(
                f"{description.path} is for {description.arch}, {board.name} is {board.arch}: name another build with "
                f"--build (default: {board.build})"
            )
        if self.base and self.patches and description.patches:
            raise ConfigError(
                f"{description.path} has a patch series of its own, which the candidate would lose to --patches and "
                f"the baseline keep: commit the change to {self.tree} and name that commit with --candidate"
            )
        return description


def build_commit(
    build: str,
    repository: Path,
    commit: str,
    label: str,
    options: kernel_build.Options,
    place: Path = BUILDS,
) -> Path:
    """Build a commit of a repository; return the build's directory in `place`, which is named by its content.

    Kernels with one `label` share a place for their sources, so a change builds only what it touches. What is not
    `trusted` is built in confinement, and from the beginning.

    Raises:
        BuildError, ConfigError, InfrastructureError: as `kernel.build.build` and `checkout`.
    """
    name = find_description(build).name
    trusted = options.trusted
    sources = label if trusted else "untrusted"
    with (
        _check_out(repository, commit, label, sources, keep=trusted) as tree,
        step(f"building {name} ({label})"),
    ):
        return build_kernel(build, tree, place / name, options, by_content=True).directory


@dataclass(frozen=True, slots=True)
class CommitBuilds:
    """Builds of a clone's commits.

    Attributes:
        trusted: whether somebody has read what is proposed. If not, both kernels are built in confinement: what is
            compared is built alike.
        place: gets the builds.
        limits: what a build may take.
        logs: gets the logs of builds that fail; None for nowhere.
    """

    tree: Path
    trusted: bool = True
    place: Path = BUILDS
    limits: BuildLimits = field(default_factory=BuildLimits)
    logs: Path | None = None

    def base(self, build: str, commit: str) -> Path:
        """Build a commit of the target branch. Raises as `build_commit`."""
        return self._build(build, commit, "base")

    def candidate(self, build: str, commit: str) -> Path:
        """Build what is proposed. Raises as `build_commit`."""
        return self._build(build, commit, "candidate")

    def _build(self, build: str, commit: str, label: str) -> Path:
        options = kernel_build.Options(trusted=self.trusted, limits=self.limits)
        try:
            return build_commit(build, self.tree, commit, label, options, self.place)
        except BuildError as error:
            if self.logs is None or error.log is None:
                raise
            self.logs.mkdir(exist_ok=True)
            copy = shutil.copyfile(error.log, self.logs / f"{find_description(build).name}-{label}.log")
            raise BuildError(f"{error.first_error} (log: {self.logs.name}/{copy.name} of the report)") from error


def build_arm(sources: Sources, board: Board, arm: ArmName) -> Path:
    """Build a kernel of a gate; return the build's directory. Raises as `kernel.build.build` and `checkout`."""
    description = sources.description(board)
    patches = sources.patches if arm is ArmName.CANDIDATE else None
    options = kernel_build.Options(patches=patches)
    marks = [patches.resolve().name] if patches else []
    directory = BUILDS / "-".join([description.name, *marks])
    # Only the default build has one content in all gates of one release of rtgate.
    own = sources.tree is not None or patches is not None
    title = f"building {description.name}" + (f" ({arm.value})" if sources.base else "")
    with _source(sources, arm) as tree, step(title):
        return build_kernel(sources.build or board.build, tree, directory, options, by_content=own).directory


@contextmanager
def _source(sources: Sources, arm: ArmName) -> Iterator[Tree | None]:
    """Yield the source of a kernel, which no other gate changes until the block is left; None for Debian's."""
    label, reference = ("base", sources.base) if arm is ArmName.BASELINE else ("candidate", sources.candidate)
    if reference and sources.tree:
        with _check_out(sources.tree, reference, label, label) as tree:
            yield tree
    else:
        yield source.open_tree(sources.tree) if sources.tree else None


@contextmanager
def _check_out(repository: Path, reference: str, label: str, place: str, *, keep: bool = True) -> Iterator[Tree]:
    """Yield a commit's tree as `checkout` does; to write one takes minutes the first time, so it is a step."""
    short = reference[:12] if COMMIT.fullmatch(reference) else reference
    with ExitStack() as stack:
        with step(f"checking out {short} ({label})"):
            tree = stack.enter_context(checkout(repository, reference, place, say, keep=keep))
        yield tree


def build_kernel(
    name: str,
    tree: Tree | None,
    output: Path,
    options: kernel_build.Options | None = None,
    *,
    by_content: bool = False,
) -> KernelBuild:
    """Build with progress shown; `tree` None is the pinned Debian source. Raises as `kernel.build.build`.

    With `by_content` the directory's name is `output` with a digest of all that goes into the build.
    """
    description = find_description(name)
    build = kernel_build.build_by_content if by_content else kernel_build.build
    with show_progress(description.name, quiet=False) as listener:
        build_options = replace(options or kernel_build.Options(), listener=listener)
        return build(description, tree or open_tree(None, listener), output, build_options)


def find_description(name: str) -> BuildDescription:
    """Return the build of this name, or of this path if it ends in `.yaml`.

    Raises:
        ConfigError: no such build, or a mistake in it.
    """
    path = Path(name) if name.endswith(".yaml") else site.find("kernel-configs", f"{name}.yaml")
    return load_description(path)


def open_tree(path: Path | None, listener: kernel_build.Listener) -> Tree:
    """Return the source of a build, None for the pinned Debian package; warnings go to standard error."""
    tree = source.open_tree(path) if path else source.default_tree(listener.notice)
    for warning in tree.warnings:
        say(f"warning: {warning}")
    return tree
