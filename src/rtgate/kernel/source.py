# SPDX-License-Identifier: MIT
"""Kernel source trees: the user's, and the pinned default."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgate import files
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel import debian, identity
from rtgate.kernel.version import KernelVersion

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rtgate.kernel.identity import SourceIdentity

_ASSIGNMENT = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL)\s*=\s*(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tree:
    """A kernel source tree.

    Attributes:
        owned: rtgate made it, below its cache, and may keep build directories in it.
        warnings: what the reader of a result must know about this source.
        sources: of a user's git tree, what tells whether somebody edits it (`identity.sources`).
    """

    path: Path
    version: KernelVersion
    identity: SourceIdentity
    owned: bool = False
    warnings: tuple[str, ...] = ()
    sources: str = ""

    def copy_at(self, path: Path, fingerprint: str) -> Tree:
        """Return the copy of this tree at `path`, which rtgate owns; `fingerprint` also covers what was changed there.

        Raises:
            ConfigError: what was changed there left no kernel tree.
        """
        return Tree(
            path=path,
            version=read_version(path),
            identity=dataclasses.replace(self.identity, fingerprint=fingerprint),
            owned=True,
            warnings=self.warnings,
        )

    def refuse_edits(self) -> None:
        """Refuse a git tree of a user that was edited since it was opened: no identity would be that of the image.

        Raises:
            ConfigError: it was edited.
            InfrastructureError: git fails on it.
        """
        commit = self.identity.commit
        if commit and self.sources and identity.sources(self.path, commit) != self.sources:
            raise ConfigError(f"{self.path} was changed while it was built: build again")


def open_tree(path: Path) -> Tree:
    """Look at a source tree; reads only.

    Raises:
        ConfigError: it is not a kernel tree.
        InfrastructureError: git fails on it.
    """
    real_path = path.resolve()
    version = read_version(real_path)
    source = identity.of_tree(real_path, str(version))
    return Tree(real_path, version, source, sources=identity.sources(real_path, source.commit) if source.commit else "")


def read_version(tree: Path, title: str = "") -> KernelVersion:
    """Return the version in the top Makefile.

    Args:
        tree: the source.
        title: what messages call it; empty for its path.

    Raises:
        ConfigError: this is not a kernel tree; says what is missing.
    """
    title = title or str(tree)
    if not tree.exists():
        raise ConfigError(f"{title} does not exist: name the directory of a kernel's source")
    for name in ("Makefile", "Kbuild", "Kconfig", "arch"):
        if not (tree / name).exists():
            raise ConfigError(f"{title} is not a kernel tree: it has no {name}")
    try:  # of code that nobody has read it may be a link to something endless
        text = files.read_bytes(tree / "Makefile", files.YAML_LIMIT).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{title}: its Makefile cannot be read: {error}") from error
    numbers = {name: int(number) for name, number in _ASSIGNMENT.findall(text)}
    if not {"VERSION", "PATCHLEVEL", "SUBLEVEL"} <= numbers.keys():
        raise ConfigError(f"{title} is not a kernel tree: its Makefile has no VERSION, PATCHLEVEL and SUBLEVEL")
    return KernelVersion(numbers["VERSION"], numbers["PATCHLEVEL"], numbers["SUBLEVEL"])


def default_tree(notice: Callable[[str], None] = lambda _: None) -> Tree:
    """Return the pinned default source, fetched and unpacked once into the cache.

    Args:
        notice: told what takes time.

    Raises:
        ConfigError: the lock file is wrong.
        InfrastructureError: the package cannot be fetched, or it is not the one that was pinned.
    """
    source = debian.unpacked_source(notice)
    version = read_version(source.path)
    source_identity = dataclasses.replace(
        identity.of_directory(source.path, str(version)),
        kind="debian",
        package=source.package,
        package_version=source.version,
        pinned=source.pinned is None,
    )
    warnings = () if source.pinned is None else (_version_warning(source.version, source.pinned),)
    return Tree(source.path, version, source_identity, owned=True, warnings=warnings)


def _version_warning(version: str, pinned_version: str) -> str:
    return (
        f"the source package is {version}, not the pinned {pinned_version}, which Debian no longer has: "
        "shipped limits were calibrated with the pinned one"
    )


def check_buildable(tree: Path, arch: str, source: Path) -> None:
    """Check that Kbuild will build this tree, in a directory of its own.

    Args:
        tree: what is built.
        arch: for which it is built.
        source: whose copy the tree is, or the tree itself.

    Raises:
        ConfigError: somebody built the kernel inside the tree, or Kbuild cannot cope with its path.
    """
    if re.search(r"[\s:]", str(tree)):
        raise ConfigError(f"{str(tree)!r} has a space or a colon, which Kbuild does not allow in a path")
    signs = (tree / ".config", tree / "include/config", tree / "arch" / ARCHES[arch].directory / "include/generated")
    for sign in signs:
        if sign.exists():
            raise ConfigError(
                f"{source} was built in place ({sign.relative_to(tree)} exists), then Kbuild builds it nowhere else: "
                f"run 'make -C {source} mrproper', which also deletes its .config, or build a copy"
            )
