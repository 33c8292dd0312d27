# SPDX-License-Identifier: MIT
"""Xenomai's source tree, and how a copy of a kernel tree with Dovetail gets the Cobalt core from it.

Facts of Xenomai 3.2 and 3.3 that this module depends on (scripts/prepare-kernel.sh):

* The script links the core's files into a kernel tree. With `--outpatch` it leaves the tree alone and writes a patch.
* It takes a tree for prepared whose `init/Kconfig` has XENOMAI, and needs `include/linux/dovetail.h`.
* `config/version-code` holds the version.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import files, process
from rtgate.errors import ConfigError
from rtgate.kernel import identity
from rtgate.kernel.source import read_version
from rtgate.kernel.version import KernelVersion

if TYPE_CHECKING:
    from rtgate.kernel.identity import SourceIdentity

VARIABLE = "RTGATE_XENOMAI"
FLAVOUR = "xenomai"
DIRECTORIES = {"arm64": "arm64", "x86_64": "x86"}
"""The architectures that have Cobalt, and what Xenomai calls them."""
_DOVETAIL = "include/linux/dovetail.h"
_SCRIPT = "scripts/prepare-kernel.sh"
_VERSION = re.compile(r"([0-9]{1,3}\.[0-9]{1,3})(?:[.-][0-9A-Za-z.-]{1,20})?")
_SCRIPT_S = 900.0  # it copies a kernel tree, and compares both
_RELEASES = ("3.2", "3.3")
# Kernels with Dovetail for which both have code (.gitlab-ci.yml; for the later ones 3.2 by vendors' patches).
_FIRST, _LAST = KernelVersion(5, 10), KernelVersion(6, 12)


@dataclass(frozen=True, slots=True)
class XenomaiTree:
    """Xenomai's source."""

    path: Path
    version: str
    identity: SourceIdentity


@dataclass(frozen=True, slots=True)
class CobaltCore:
    """What Xenomai adds to a kernel of one architecture."""

    source: XenomaiTree
    arch: str

    @property
    def fingerprint(self) -> str:
        """Changes with any file of the source."""
        return f"{self.source.identity.fingerprint} {self.arch}"


def named_tree() -> XenomaiTree:
    """Return the tree that RTGATE_XENOMAI names. Raises as `open_xenomai`, and ConfigError where it is not set."""
    directory = os.environ.get(VARIABLE)
    if not directory:
        raise ConfigError(f"{VARIABLE} is not set: name the directory of Xenomai's source, as of xenomai 3.3.1")
    return open_xenomai(Path(directory).expanduser())


def open_xenomai(path: Path) -> XenomaiTree:
    """Look at Xenomai's source; reads only.

    Raises:
        ConfigError: it is something else, or of a release that nothing here knows.
        InfrastructureError: git fails on it.
    """
    real_path = path.resolve()
    for name in (_SCRIPT, "config/version-code", "configure.ac"):
        if not (real_path / name).is_file():
            raise ConfigError(f"{path} is not the source of Xenomai 3: it has no {name} ({VARIABLE})")
    version = files.read_text(real_path / "config/version-code", files.YAML_LIMIT).strip()
    match = _VERSION.fullmatch(version)
    if match is None or match[1] not in _RELEASES:
        raise ConfigError(f"{path} is Xenomai {version[:40]!r}; rtgate knows {', '.join(_RELEASES)} ({VARIABLE})")
    return XenomaiTree(real_path, version, identity.of_tree(real_path, version))


def require_arch(arch: str) -> None:
    """Raise ConfigError if Xenomai has no Cobalt for an architecture."""
    if arch not in DIRECTORIES:
        raise ConfigError(f"Xenomai has no Cobalt for {arch} (it has: {', '.join(DIRECTORIES)})")


def is_prepared(tree: Path) -> bool:
    """Return whether a kernel tree has the Cobalt core."""
    return any((tree / "kernel" / "xenomai").glob("*"))  # what a change takes away leaves directories in a copy


def has_dovetail(tree: Path) -> bool:
    """Return whether a kernel tree has the interrupt pipeline that Cobalt runs on."""
    return (tree / _DOVETAIL).is_file()


def _check_pair(xenomai: XenomaiTree, kernel: KernelVersion) -> None:
    if not _FIRST <= kernel < KernelVersion(_LAST.version, _LAST.patchlevel + 1):
        raise ConfigError(
            f"Xenomai {xenomai.version} in {xenomai.path} is for Linux {_FIRST.version}.{_FIRST.patchlevel} to "
            f"{_LAST.version}.{_LAST.patchlevel}, and this is Linux {kernel}: take another pair"
        )


def core_patch(core: CobaltCore, tree: Path, directory: Path) -> Path:
    """Write the patch that gives a kernel tree the Cobalt core, as Xenomai's own script makes it, and return its path.

    Raises:
        ConfigError: the tree has no Dovetail, or is of a version that this Xenomai is not for.
    """
    source, version = core.source, read_version(tree)
    if not has_dovetail(tree):
        raise ConfigError(f"Linux {version} in {tree} has no Dovetail ({_DOVETAIL}), which Cobalt needs")
    _check_pair(source, version)
    patch = directory / f"xenomai-{source.version}.patch"
    words = (f"--linux={tree}", f"--arch={DIRECTORIES[core.arch]}", f"--outpatch={patch}")
    # Where the script fails, it leaves a copy of the tree behind: in `directory`, with which it goes.
    command = ["sh", str(source.path / _SCRIPT), *words]
    attempt = process.attempt(command, environment={"TMPDIR": str(directory)}, timeout_s=_SCRIPT_S)
    if attempt.returncode != 0:
        line = (attempt.stderr.strip() or attempt.stdout.strip() or f"exit code {attempt.returncode}").splitlines()[-1]
        raise ConfigError(f"Xenomai {source.version} cannot prepare {tree}: {line}")
    return patch
