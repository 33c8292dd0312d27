# SPDX-License-Identifier: MIT
"""Whether a tree takes the configurations of builds: nothing is compiled, nothing is kept."""

from __future__ import annotations

import dataclasses
import functools
import re
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.files import scratch, short_hash
from rtgate.kernel import kconfig
from rtgate.kernel.configuration import LostOption
from rtgate.kernel.configure import CONFIG_LOG, configure, lost_from, series_hint, unrequested_from
from rtgate.kernel.patches import load_series, misfit
from rtgate.kernel.work import Options, UnsupportedTreeError, Work, prepare_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rtgate.kernel.configuration import BuildDescription
    from rtgate.kernel.fragments import Option
    from rtgate.kernel.source import Tree


_KCONFIG = re.compile(rb"^\+\+\+ .*(?:Kconfig|_defconfig|\.config)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """What a tree takes of one build.

    Attributes:
        unrequested: options that are asked of other versions alone, and that this tree has, too.
        requested: how many options were asked of a kernel of this version.
        lost: those that the tree did not take.
        unsupported: why this build is not for this tree, which then was not asked; empty where it is.
        failure: why it cannot be configured at all; empty where it can.
        hint: what the tree lacks that explains the lost options; empty where nobody knows.
    """

    description: BuildDescription
    requested: int = 0
    lost: tuple[LostOption, ...] = ()
    unrequested: tuple[Option, ...] = ()
    unsupported: str = ""
    failure: str = ""
    hint: str = ""


def check_config(description: BuildDescription, tree: Tree, options: Options | None = None) -> ConfigCheck:
    """Return what this tree takes of one build.

    Raises:
        BuildError: Kconfig itself fails.
        ConfigError: as `build`.
        InfrastructureError: a tool is missing.
    """
    with _scratch([description]) as place, _prepared(description, tree, options or Options()) as work:
        return place.check(description, work)


def check_configs(
    descriptions: Sequence[BuildDescription], tree: Tree, options: Options | None = None
) -> Iterator[ConfigCheck]:
    """Yield what this tree takes of each build, in their order, also of those that are not for it or that fail.

    Raises:
        InfrastructureError: as `check_config`.
    """
    options = options or Options()
    with _scratch(descriptions) as place:
        for description in descriptions:
            options.listener.notice(f"configuring {description.name} for Linux {tree.version}")
            try:
                with _prepared(description, tree, options) as work:
                    yield place.check(description, work)
            except UnsupportedTreeError as error:
                yield ConfigCheck(description, unsupported=error.reason)
            except (BuildError, ConfigError) as error:
                yield ConfigCheck(description, failure=str(error))


def _prepared(description: BuildDescription, tree: Tree, options: Options) -> AbstractContextManager[Work]:
    """Return the work without what Kconfig does not read, for which the tree would be copied: code and a patch of ours.

    Raises:
        UnsupportedTreeError: the build's own patch is not for this tree; and as `prepare`.
    """
    plain = dataclasses.replace(description, built_in=())
    if description.patches and not options.patches:
        patches = load_series(description.patches).patches
        if len(patches) == 1 and not _KCONFIG.search(patches[0].path.read_bytes()):
            if reason := misfit(patches[0].path, tree.path):
                raise UnsupportedTreeError(f"{patches[0].path}: does not apply: {reason}", "no place for its patch")
            plain = dataclasses.replace(plain, patches=None)
    return prepare_work(plain, tree, options)


_Key = tuple[Path, str, tuple[str, ...], tuple["Option", ...], frozenset[str]]


@dataclass(slots=True)
class _Scratch:
    """A temporary directory, and what need not be done twice in it: Kconfig takes seconds each time.

    Attributes:
        frequency: how many builds start from a base.
        bases: the configuration of a base that several builds start from.
        answers: of what was asked already.
    """

    directory: Path
    frequency: Counter[tuple[str, tuple[str, ...]]]
    scan: Callable[[kconfig.Sources], kconfig.Definitions]
    bases: dict[tuple[Path, str, tuple[str, ...]], Path] = field(default_factory=dict)
    answers: dict[_Key, tuple[tuple[LostOption, ...], tuple[Option, ...]]] = field(default_factory=dict)

    def check(self, description: BuildDescription, work: Work) -> ConfigCheck:
        """Return what the tree takes of a build; the work is that of its part for which no copy is needed."""
        build = work.description
        key = (work.tree.path, build.arch, build.bases, build.options, build.optional)
        if key not in self.answers:
            aside = self._aside(work)
            with _log_kept(aside, work):
                configure(self._from_base(aside))
            self.answers[key] = (lost_from(aside, self.scan), unrequested_from(aside, self.scan))
        losses, unrequested = self.answers[key]
        hint = series_hint(work, losses)
        return ConfigCheck(description, len(work.requested_options), losses, unrequested, hint=hint)

    def _aside(self, work: Work) -> Work:
        """Return the work with a place here, which all builds of an architecture share: Kconfig is compiled once."""
        place = self.directory / f"{work.description.arch}-{short_hash(str(work.tree.path))}"
        logs = place.with_suffix(".log")
        job = dataclasses.replace(
            work.job, build_directory=place, log_directory=logs, fragment=logs / work.job.fragment.name
        )
        return dataclasses.replace(work, job=job)

    def _from_base(self, work: Work) -> Work:
        """Return the work with its base made already, where several builds start from it."""
        arch, bases = work.description.arch, work.description.bases
        if self.frequency[arch, bases] == 1:
            return work
        key = (work.tree.path, arch, bases)
        if key not in self.bases:
            configure(dataclasses.replace(work, requested_options={}))
            config = work.job.build_directory / ".config"
            self.bases[key] = config.rename(work.job.log_directory / f"{'-'.join(bases)}.base")
        return dataclasses.replace(work, job=dataclasses.replace(work.job, bases=(str(self.bases[key]),)))


@contextmanager
def _log_kept(aside: Work, work: Work) -> Iterator[None]:
    """Name a log in an error that is there when the error is read: it moves to where the build's own logs are."""
    try:
        yield
    except (BuildError, ConfigError, InfrastructureError) as error:
        log, destination = aside.job.log_directory / CONFIG_LOG, work.job.log_directory / "check.log"
        if not log.is_file():
            raise
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(log, destination)
        raise type(error)(str(error).replace(str(log), str(destination))) from None


@contextmanager
def _scratch(descriptions: Sequence[BuildDescription]) -> Iterator[_Scratch]:
    frequency = Counter((description.arch, description.bases) for description in descriptions)
    with scratch(Path(tempfile.gettempdir()), "rtgate-check-") as directory:
        yield _Scratch(directory, frequency, functools.cache(kconfig.scan))
