# SPDX-License-Identifier: MIT
"""Where names are looked up: the lab's site directory, the kernel repository, then what rtgate ships.

A lab keeps its own boards, builds, limits, profiles, tools and loads in a *site directory* (`--site` or `RTGATE_SITE`);
a kernel repository may keep its own in `.rtgate/`. The first directory that has a name wins, so nobody forks rtgate to
use it; but a tool or a load has one name only (`tools.extensions`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache as cached
from pathlib import Path

from rtgate.errors import ConfigError

KINDS = ("boards", "kernel-configs", "lava-jobs", "target/rootfs", "tests")


@dataclass(frozen=True, slots=True)
class Layer:
    """One directory in which names are looked up."""

    origin: str  # "site", "kernel repository" or "shipped"
    directory: Path


def shipped_directory() -> Path:
    """Return the directory that holds rtgate's own boards, builds, limits and suites.

    It is the one that `RTGATE_SHARE` names; else `share` in the installed package (a wheel); else the clone.

    Raises:
        ConfigError: that directory has no boards.
    """
    package_share, clone = _places(__file__)
    setting = os.environ.get("RTGATE_SHARE")
    directory = Path(setting) if setting else package_share if package_share.is_dir() else clone
    if not (directory / "boards").is_dir():
        remedy = (
            "set RTGATE_SHARE to a clone of rtgate, or unset it" if setting else "install rtgate again, from its wheel"
        )
        raise ConfigError(f"{directory} has no boards/: {remedy}")
    return directory


@cached
def _places(module: str) -> tuple[Path, Path]:
    """Return where a wheel's and where a clone's shipped files lie; every look at a name asks."""
    package = Path(module).resolve().parent
    return package / "share", package.parents[1]


def layers() -> tuple[Layer, ...]:
    """Return the directories to search, first wins.

    Raises:
        ConfigError: `RTGATE_SITE` names no directory.
    """
    own_layers: list[Layer] = []
    site = os.environ.get("RTGATE_SITE")
    if site:
        if not Path(site).is_dir():
            raise ConfigError(f"the site directory {site} does not exist (--site or RTGATE_SITE)")
        own_layers.append(Layer("site", Path(site).resolve()))
    repository = _kernel_repository()
    if repository:
        own_layers.append(Layer("kernel repository", repository))
    return (*own_layers, Layer("shipped", shipped_directory()))


def _kernel_repository() -> Path | None:
    tree = os.environ.get("RTGATE_TREE")
    candidates = [Path(tree, ".rtgate")] if tree else _candidates(Path.cwd())
    return next((place.parent.resolve() / ".rtgate" for place in candidates if place.is_dir()), None)


@cached
def _candidates(directory: Path) -> tuple[Path, ...]:
    """Return where a kernel repository's own files may lie, seen from a directory in it."""
    return tuple(place / ".rtgate" for place in (directory, *directory.parents))


def matches(kind: str, name: str) -> tuple[tuple[Layer, Path], ...]:
    """Return every file or directory that has this name, the winner first; it is there although nobody can read it."""
    places = ((layer, layer.directory / kind / name) for layer in layers())
    return tuple((layer, path) for layer, path in places if os.path.lexists(path))


def find(kind: str, name: str) -> Path:
    """Return the file `name` of a kind (`boards`, `kernel-configs`, ...).

    Raises:
        ConfigError: no layer has it; the message lists the names that exist.
    """
    hits = matches(kind, name)
    if not hits:
        places = ", ".join(str(layer.directory / kind) for layer in layers())
        choices = ", ".join(names(kind, Path(name).suffix)) or "none"
        raise ConfigError(f"unknown name {Path(name).stem!r} in {kind} (allowed: {choices}; searched: {places})")
    return hits[0][1]


def names(kind: str, suffix: str = ".yaml") -> tuple[str, ...]:
    """Return all names of a kind, sorted, without their suffix."""
    return tuple(
        sorted(
            {
                path.name.removesuffix(suffix)
                for layer in layers()
                for path in (layer.directory / kind).glob(f"*{suffix}")
                if not path.name.endswith(".lock.yaml")
            }
        )
    )


def files(name: str) -> tuple[Path, ...]:
    """Return every file of this name at the top of a layer (`thresholds.yaml`, `profiles.yaml`), the winner first.

    Their top-level entries are names too: an entry of the site hides the shipped one of the same name. A file that
    nobody can read, as a link to nowhere, is one of them: whoever reads it says so.
    """
    paths = (layer.directory / name for layer in layers())
    return tuple(path for path in paths if os.path.lexists(path))


def cache() -> Path:
    """Return the directory of things that can be made again: sources, build trees, images."""
    directory = os.environ.get("RTGATE_CACHE")
    if directory:
        return Path(directory)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rtgate"
