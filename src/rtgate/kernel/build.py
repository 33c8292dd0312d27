# SPDX-License-Identifier: MIT
"""Building one kernel: configure, check, compile, and put the result into its directory in one step."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import BuildError, BuildLimitError, ConfigError, InfrastructureError
from rtgate.files import remove_tree, short_hash, waiting_lock
from rtgate.kernel import artefacts, build_log, jailhouse, publish, tuxmake
from rtgate.kernel.configure import configure_if_needed, refuse_lost
from rtgate.kernel.make import make
from rtgate.kernel.work import Listener, Options, Work, prepare_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rtgate.kernel.artefacts import KernelBuild
    from rtgate.kernel.configuration import BuildDescription
    from rtgate.kernel.source import Tree

__all__ = ["Listener", "Options", "build", "build_by_content", "in_place"]


def build(description: BuildDescription, tree: Tree, output: Path, options: Options | None = None) -> KernelBuild:
    """Build a kernel into `output`; do nothing if it is there already.

    Args:
        description: what is built.
        tree: its source; only read, unless rtgate owns it.
        output: gets the build. A former build there is replaced when the new one is complete, never before.
        options: jobs, patches, listener.

    Raises:
        BuildError: the kernel does not compile, or (LostOptionsError) does not take the configuration.
        ConfigError: a mistake in the description or in a patch series, or `output` holds something else.
        InfrastructureError: a tool is missing, or the disk is full.
        Interrupted: Ctrl-C.
    """
    options = options or Options()
    output = output.absolute()
    publish.check_output(output)
    with _disk_errors(), prepare_work(description, tree, options) as work:
        return _build_and_publish(work, output, options.listener)


def build_by_content(
    description: BuildDescription, tree: Tree, stem: Path, options: Options | None = None
) -> KernelBuild:
    """Build a kernel into `STEM-INPUTS`: what is in a directory of this name never changes. As `build` otherwise."""
    options = options or Options()
    with _disk_errors(), prepare_work(description, tree, options) as work:
        output = stem.absolute().with_name(f"{stem.name}-{work.inputs[:12]}")
        publish.check_output(output)
        return _build_and_publish(work, output, options.listener)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Say that a build could not be written, and which file where the system says it.

    Raises:
        InfrastructureError: the disk is full, for one.
    """
    try:
        yield
    except BrokenPipeError:  # whoever read the listener's lines has gone
        raise
    except OSError as error:
        place = error.filename or site.cache()
        raise InfrastructureError(
            f"{place}: {error.strerror or error}: make room for builds, or mend the disk"
        ) from error


def _build_and_publish(work: Work, output: Path, listener: Listener) -> KernelBuild:
    tuxmake.remove_stale_files(work.job)
    with _lock_directory(output, listener):
        old_build = _existing(output, work.inputs)
        if old_build is not None:
            listener.notice("nothing changed: this build exists already")
            return old_build
        with _lock_directory(work.job.build_directory, listener), _discard_untrusted(work):
            build_result = _make(work, listener)
            return publish.publish(work, build_result, output)


@contextmanager
def _discard_untrusted(work: Work) -> Iterator[None]:
    """Keep nothing of a build that is not trusted: the next one would take its objects for its own."""
    if work.job.trusted:
        yield
        return
    _remove(work.job.writable)
    try:
        yield
    finally:
        _remove(work.job.writable)


def _remove(directories: Iterable[Path]) -> None:
    """Remove directories, whatever a build has done to their modes. Raises InfrastructureError."""
    for directory in directories:
        try:
            remove_tree(directory)
        except OSError as error:
            raise InfrastructureError(f"{directory} cannot be removed: {error}") from error


@contextmanager
def _lock_directory(directory: Path, listener: Listener) -> Iterator[None]:
    """Keep other builds out of a directory: two at once would destroy each other."""
    lock = site.cache() / "locks" / short_hash(str(directory))
    with waiting_lock(lock, f"builds in {directory}", listener.notice):
        yield


@contextmanager
def in_place(description: BuildDescription, tree: Tree, options: Options) -> Iterator[Work]:
    """Build a kernel in its build directory alone, and keep others out of it meanwhile.

    Raises:
        BuildError, ConfigError, InfrastructureError, Interrupted: as `build`.
    """
    with ExitStack() as stack:
        with _disk_errors():
            work = stack.enter_context(prepare_work(description, tree, options))
            stack.enter_context(_lock_directory(work.job.build_directory, options.listener))
            _make(work, options.listener)
        yield work


def _existing(output: Path, inputs: str) -> KernelBuild | None:
    if not (output / "build.json").is_file():
        return None
    try:
        kernel = artefacts.load(output)
    except ConfigError:
        return None  # damaged: built again
    return kernel if kernel.inputs == inputs else None


def _make(work: Work, listener: Listener) -> publish.BuildResult:
    """Configure and compile in the build directory, unless exactly this is in it already."""
    if work.description.cells:
        jailhouse.require(work.hypervisor, work.description.name, work.job.toolchain)
    stamp = work.job.log_directory / "made.json"
    build_result = publish.BuildResult.read(stamp)
    if build_result is not None and build_result.inputs == work.inputs and publish.is_complete(work):
        listener.notice("nothing changed: taken from the build directory")
        return build_result
    stamp.unlink(missing_ok=True)
    start = time.monotonic()
    with _ended_by_itself(work, listener):
        configure_if_needed(work, listener)
        refuse_lost(work)
        steps, hits, misses = _compile(work, listener)
        refuse_lost(work)
    work.tree.refuse_edits()
    build_result = publish.BuildResult(work.inputs, round(time.monotonic() - start, 1), steps, hits, misses)
    build_result.write(stamp)
    return build_result


@contextmanager
def _ended_by_itself(work: Work, listener: Listener) -> Iterator[None]:
    """Begin anew after a build that was killed, interrupted, or had no room: make takes half a file for a whole one."""
    mark = work.job.log_directory / "unfinished"
    if mark.exists():
        listener.notice("the last build here was stopped half-way: its directory is made anew")
        if work.job.build_directory.exists():
            shutil.rmtree(work.job.build_directory)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    except BuildLimitError:
        raise
    except BuildError:  # make ended by itself and removed what it had half made
        mark.unlink()
        raise
    mark.unlink()


def _compile(work: Work, listener: Listener) -> tuple[int, int, int]:
    """Return the files made, and ccache's hits and misses."""
    job = work.job
    full = not (job.build_directory / "vmlinux").exists()
    shutil.rmtree(job.package_directory, ignore_errors=True)  # a former build's modules
    job.ccache_log.unlink(missing_ok=True)
    log = job.log_directory / "build.log"
    counter = _Counter(_expected_steps(work) if full else None, listener.progress)
    if work.hypervisor:
        jailhouse.prepare(work.hypervisor, job)
    make(work, work.description.targets, log, counter.watch)
    if work.hypervisor:
        listener.notice(f"building Jailhouse of {work.hypervisor.path} against Linux {work.tree.version}")
        _add_hypervisor(work, work.hypervisor, log)
    if full:
        work.steps_file.parent.mkdir(parents=True, exist_ok=True)
        work.steps_file.write_text(str(counter.done))
    return counter.done, *tuxmake.ccache_counts(job)


def _add_hypervisor(work: Work, hypervisor: jailhouse.Hypervisor, log: Path) -> None:
    """Build Jailhouse, and the image again with it; `log` gets what both print."""
    jailhouse.build(hypervisor, work.job)
    again = log.with_name("image.log")
    make(work, work.description.targets, again)
    with log.open("ab") as file:
        for part in (log.with_name("jailhouse.log"), again):
            file.write(part.read_bytes())


def _expected_steps(work: Work) -> int:
    try:
        return int(work.steps_file.read_text())
    except (OSError, ValueError):
        return ARCHES[work.description.arch].steps


class _Counter:
    """Turns make's lines into progress."""

    def __init__(self, total: int | None, progress: Callable[[int, int | None, str], None]) -> None:
        self.done = 0
        self._total = total
        self._progress = progress

    def watch(self, line: str) -> None:
        file = build_log.step(line)
        if file is not None:
            self.done += 1
            total = None if self._total is None else max(self._total, self.done)
            self._progress(self.done, total, file)
