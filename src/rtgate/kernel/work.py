# SPDX-License-Identifier: MIT
"""What one build is made from, and where: sources, directories in the cache, and a hash of all inputs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.files import short_hash, waiting_lock
from rtgate.kernel import jailhouse, kconfig, tuxmake, xenomai
from rtgate.kernel.build_limits import BuildLimits
from rtgate.kernel.fragments import UNSET
from rtgate.kernel.identity import BUILD_DIRECTORY_PREFIX
from rtgate.kernel.patches import Series, copy_of, load_series, patched_tree
from rtgate.kernel.source import Tree, check_buildable
from rtgate.kernel.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rtgate.kernel.configuration import BuildDescription
    from rtgate.kernel.fragments import Option

RECIPE = 1
"""Part of every build's inputs: raise it when the same inputs come to be built in another way."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told how a build goes.

    Attributes:
        notice: gets one line for people: what is going on, what they should know.
        progress: gets files made, files to be made (None: not known, an incremental build), the file made now.
    """

    notice: Callable[[str], None] = lambda _: None
    progress: Callable[[int, int | None, str], None] = lambda _count, _total, _file: None


@dataclass(frozen=True, slots=True)
class Options:
    """How a build is made; only `patches` and `toolchain` change what comes out.

    Attributes:
        jobs: compilers at the same time; None for one per CPU.
        patches: a directory with a patch series, instead of the description's.
        toolchain: what compiles it.
        trusted: whether the code that is built may do what this user may; else it is confined, and begins anew.
        limits: what it may take.
    """

    jobs: int | None = None
    patches: Path | None = None
    toolchain: Toolchain = Toolchain.GCC
    trusted: bool = True
    limits: BuildLimits = field(default_factory=BuildLimits)
    listener: Listener = field(default_factory=Listener)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A build that is about to be made.

    Attributes:
        source: the tree that was asked for.
        tree: the tree that is built: the same, or a copy with patches.
        requested_options: the requested options for this tree's version, by symbol.
        tool_versions: the versions of what Kbuild may find beside the toolchain; empty where it finds nothing.
        hypervisor: what becomes part of the image, beside the kernel.
    """

    description: BuildDescription
    source: Tree
    tree: Tree
    series: Series | None
    requested_options: dict[str, Option]
    job: tuxmake.Job
    toolchain_versions: str
    tool_versions: Mapping[str, str] = field(default_factory=dict)
    hypervisor: jailhouse.Hypervisor | None = None

    @property
    def inputs(self) -> str:
        """A hash that changes with anything that can change the result."""
        inputs = {
            "recipe": RECIPE,
            "name": self.description.name,
            "arch": self.description.arch,
            "flavour": self.description.flavour,
            "base": " ".join(self.description.bases),
            "targets": sorted(self.description.targets),
            "options": sorted(option.line for option in self.requested_options.values()),
            "optional": sorted(self.description.optional),
            "source": self.tree.identity.fingerprint,
            "toolchain": self.toolchain_versions,
            "tuxmake": tuxmake.recipe(self.job),
        }
        if self.tool_versions:
            inputs["tools"] = self.tool_versions
        if self.hypervisor:
            inputs["jailhouse"] = self.hypervisor.fingerprint
        if not self.job.trusted:
            # A kernel notes what it finds on the machine, and in confinement there is less of it.
            inputs["confined"] = True
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    @property
    def kconfig_sources(self) -> kconfig.Sources:
        """The Kconfig files that decide the configuration."""
        return kconfig.Sources(self.tree.path, ARCHES[self.description.arch].directory)

    @property
    def steps_file(self) -> Path:
        """Remembers how many files the last full build made."""
        return site.cache() / "steps" / f"{self.description.name}-{self.description.arch}"


class UnsupportedTreeError(ConfigError):
    """A tree lacks a device tree or a fragment of its own that a build needs; `reason` says which."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@contextmanager
def prepare_work(description: BuildDescription, source: Tree, options: Options) -> Iterator[Work]:
    """Yield what `prepare` returns; a patched copy stays as it is until the block is left. Raises as `prepare`."""
    series = _series(description, source, options)
    if series is None:
        yield prepare(description, source, options)
        return
    copy = copy_of(source, series)
    with waiting_lock(copy.with_suffix(".build.lock"), f"builds {source.path} with patches", options.listener.notice):
        yield prepare(description, source, options)


def prepare(description: BuildDescription, source: Tree, options: Options) -> Work:
    """Apply patches where asked, and name everything that goes into the build.

    Raises:
        ConfigError: a patch series is wrong or does not apply, or the tree was built in place.
        UnsupportedTreeError: the tree lacks a device tree, or a fragment of its own, that the build needs.
        InfrastructureError: a tool is missing.
    """
    tuxmake.require_tools(description.arch, options.toolchain)
    series = _series(description, source, options)
    tree = _patched(description, source, series, options) if series else source
    check_buildable(tree.path, description.arch, source.path)
    if reason := description.unsupported(tree.path) or _missing_fragments(description, tree):
        raise UnsupportedTreeError(
            f"Linux {tree.version} in {source.path} has {reason}, which {description.name} needs: "
            "give a kernel that has it (--tree)",
            reason,
        )
    requested_options = description.requested_options(tree.version)
    enabled_symbols = {symbol for symbol, option in requested_options.items() if option.value != UNSET}
    hidden_tools = tuxmake.hidden_tools(description.base, enabled_symbols)
    place = _build_directory(description, tree, options)
    log_directory = _log_directory(place, tree, trusted=options.trusted)
    return Work(
        description=description,
        source=source,
        tree=tree,
        series=series,
        requested_options=requested_options,
        job=tuxmake.Job(
            tree=tree.path,
            build_directory=place,
            log_directory=log_directory,
            arch=description.arch,
            bases=description.bases,
            fragment=log_directory / "requested.config",
            jobs=options.jobs or len(os.sched_getaffinity(0)),
            ccache_directory=site.cache().absolute() / "ccache",
            variables={**hidden_tools, **options.toolchain.variables},
            # Overlays name what they change by symbols, which kernels leave out of most device trees.
            environment={"DTC_FLAGS": "-@"} if "dtbs" in description.targets else {},
            toolchain=options.toolchain,
            trusted=options.trusted,
            limits=options.limits,
        ),
        toolchain_versions=options.toolchain.versions(description.arch),
        tool_versions=tuxmake.tool_versions(hidden_tools),
        hypervisor=_hypervisor(description, trusted=options.trusted),
    )


def _missing_fragments(description: BuildDescription, tree: Tree) -> str:
    """Return which fragments of the kernel's own are missing; a vendor's RT series may bring one."""
    names = description.missing_fragments(tree.path)
    base = description.series_base(tree.version)
    return f"no fragment {', '.join(names)}{f' ({base}, and may bring it: --patches)' if base else ''}" if names else ""


def _patched(description: BuildDescription, source: Tree, series: Series, options: Options) -> Tree:
    try:
        return patched_tree(source, series, options.listener.notice)
    except ConfigError as error:
        base = description.series_base(source.version)
        raise ConfigError(f"{error}; {base}" if base else str(error)) from error


def _series(description: BuildDescription, source: Tree, options: Options) -> Series | None:
    """Return what is changed in a copy of the tree; None if it is built as it is. Raises ConfigError."""
    directory = options.patches or description.patches
    series = load_series(directory) if directory else None
    if description.built_in:
        series = dataclasses.replace(series or Series(description.built_in[0].parent, ()), code=description.built_in)
    patched = series is not None and bool(series.patches)
    if core := _core(description, source, patched=patched, trusted=options.trusted):
        series = dataclasses.replace(series or Series(core.source.path, ()), core=core)
    return series


def _core(description: BuildDescription, source: Tree, *, patched: bool, trusted: bool) -> xenomai.CobaltCore | None:
    """Return the Cobalt core that a build adds to a tree; None where it adds none. Raises ConfigError."""
    if description.flavour != xenomai.FLAVOUR or xenomai.is_prepared(source.path):
        return None
    if not patched and not xenomai.has_dovetail(source.path):
        return None  # said by `unsupported`
    if not trusted:  # Xenomai's script runs what a tree's Makefile and path tell it, and is not confined
        raise ConfigError(
            f"{description.name}: code that nobody has read gets no Cobalt core: prepare the tree with Xenomai before"
        )
    xenomai.require_arch(description.arch)
    return xenomai.CobaltCore(xenomai.named_tree(), description.arch)


def _hypervisor(description: BuildDescription, *, trusted: bool) -> jailhouse.Hypervisor | None:
    """Return the Jailhouse that a build adds to its image; None where it adds none. Raises ConfigError."""
    if not description.cells:
        return None
    if not trusted:  # its makefiles take what the kernel's tree tells them, and are not confined
        raise ConfigError(f"{description.name}: code that nobody has read gets no Jailhouse: no build with cells")
    return jailhouse.named_tree(description.cells, ARCHES[description.arch].kbuild)


def _build_directory(description: BuildDescription, tree: Tree, options: Options) -> Path:
    """Return where make works. It is kept, so that the next build is incremental.

    Below a tree of its own Kbuild uses relative paths, and ccache's results serve every such tree: a patched copy, or
    the other commit of a comparison, compiles only what differs. Nothing is ever written into a user's tree.
    What is not trusted has a place of its own, where nothing is kept, and so has what another compiler makes.
    """
    trust = "" if options.trusted else "-untrusted"
    name = f"{description.name}-{description.arch}{options.toolchain.suffix}{trust}"
    if tree.owned:
        return tree.path / f"{BUILD_DIRECTORY_PREFIX}{name}"
    return site.cache().absolute() / "builds" / f"{name}-{short_hash(str(tree.path))}"


def _log_directory(place: Path, tree: Tree, *, trusted: bool) -> Path:
    """Return where logs go: not into a tree that a build in confinement may write, and that goes with it."""
    if trusted:
        return place.with_name(f"{place.name}.log")
    return site.cache().absolute() / "builds" / f"{place.name}-{short_hash(str(tree.path))}.log"
