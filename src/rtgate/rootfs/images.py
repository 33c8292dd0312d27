# SPDX-License-Identifier: MIT
"""Root filesystems of targets: images for the kernel's initrd, made from `target/rootfs/NAME.yaml` and kept.

An image is a compressed archive to which more archives may be appended: `overlay` makes one that carries a plan.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import scratch, waiting_lock
from rtgate.rootfs import cpio
from rtgate.rootfs import recipe as rootfs_recipe
from rtgate.rootfs.debian import Archive
from rtgate.rootfs.packing import MANIFEST_FORMAT, Progress, build
from rtgate.rootfs.recipe import Recipe

_LOCK_S = 1800.0  # longer than a build over a slow network
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootfsImage:
    """An image on this machine's disk.

    Attributes:
        path: the image, compressed by gzip.
        archive: the same without compression. Virtual boards boot faster from it: unpacking gzip takes 124 million
            instructions of the target for `core` on arm64, 1.0 virtual seconds.
        sha256: of the file.
        content_sha256: of the archive before compression: equal wherever the content is equal.
        versions: Debian package and version.
        warnings: locked versions that the archive no longer had, and packages that a lock file lacks.
    """

    path: Path
    archive: Path
    manifest: Path
    name: str
    arch: str
    sha256: str
    content_sha256: str
    versions: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def image(name: str, arch: str, *, cache: Path | None = None, progress: Progress = lambda _: None) -> RootfsImage:
    """Return the image of this name for an architecture; build it if it is not in the cache.

    `progress` is told what is being done, and each of the image's warnings.

    Raises:
        ConfigError: no such recipe or architecture, or the recipe is wrong.
        InfrastructureError: the packages cannot be fetched, or the cache cannot be written.
    """
    _check_arch(arch)
    chain = rootfs_recipe.find(name)
    home = (cache or site.cache()) / "rootfs"
    directory = home / f"{name}-{arch}-{rootfs_recipe.key(chain, arch)}"
    try:
        rootfs = read(directory)
        if rootfs is None:
            with waiting_lock(home / f"{name}-{arch}.lock", "builds the same image", progress, patience_s=_LOCK_S):
                # Another process may have built it meanwhile.
                rootfs = read(directory) or _build(chain, arch, directory, progress)
    except OSError as error:
        raise InfrastructureError(f"the root filesystem {name} for {arch} cannot be kept: {error}") from error
    for warning in rootfs.warnings:
        progress(f"warning: {warning}")
    return rootfs


def overlay(files: Mapping[str, bytes]) -> bytes:
    """Return an archive to append to an image: these files, by name relative to the root directory, all executable.

    The same files give the same bytes.
    """
    return cpio.pack(cpio.file(name, data, 0o755) for name, data in files.items())


def read(directory: Path) -> RootfsImage | None:
    """Return the image in a directory; None if there is none, or if it is damaged."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text())
        if manifest["format"] != MANIFEST_FORMAT:
            return None
        rootfs = RootfsImage(
            path=directory / manifest["image"],
            archive=directory / manifest["archive"],
            manifest=directory / _MANIFEST,
            name=manifest["name"],
            arch=manifest["arch"],
            sha256=manifest["sha256"],
            content_sha256=manifest["content_sha256"],
            versions=MappingProxyType(manifest["packages"]),
            warnings=tuple(manifest["warnings"]),
        )
        sums = ((rootfs.path, rootfs.sha256), (rootfs.archive, rootfs.content_sha256))
        return rootfs if all(hashlib.sha256(path.read_bytes()).hexdigest() == digest for path, digest in sums) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def update_lock(name: str, *, progress: Progress = lambda _: None) -> Path:
    """Lock a recipe to the newest versions in the archive; return the lock file.

    Packages of a recipe that it extends stay as that recipe locks them.

    Raises:
        ConfigError: no such recipe, or it is wrong.
        InfrastructureError: the archive cannot be reached, or the lock file cannot be written.
    """
    chain = rootfs_recipe.find(name)
    recipe = chain[-1]
    versions: dict[str, dict[str, str]] = {}
    for arch, facts in ARCHES.items():
        progress(f"reading the versions of packages for {arch}")
        suites = rootfs_recipe.added_packages(chain, arch)
        with scratch(Path(tempfile.gettempdir()), "rtgate-apt-") as work:
            by_package = Archive.open(work, suites.values(), facts.debian).versions(suites)
        versions[arch] = {package: newest[0] for package, newest in by_package.items()}
    try:
        recipe.lock.write_text(rootfs_recipe.lock_text(recipe, versions))
    except OSError as error:
        raise InfrastructureError(f"the lock file cannot be written: {error}") from error
    return recipe.lock


def _check_arch(arch: str) -> None:
    if arch not in ARCHES:
        raise ConfigError(f"unknown architecture {arch!r} (allowed: {', '.join(ARCHES)})")


def _build(chain: tuple[Recipe, ...], arch: str, directory: Path, progress: Progress) -> RootfsImage:
    # All work is done beside the final place, so that one rename makes the image appear whole.
    with scratch(directory.parent, f".{directory.name}-") as place:
        work, output = place / "work", place / "image"
        work.mkdir()
        output.mkdir()
        build(chain, arch, output, work, progress)
        if directory.exists():  # damaged, or it would have been used
            shutil.rmtree(directory)
        output.rename(directory)
    rootfs = read(directory)
    if not rootfs:
        raise InfrastructureError(f"{directory} cannot be read back: is the disk full or failing?")
    return rootfs
