# SPDX-License-Identifier: MIT
"""Xenomai's programs and libraries for a target, built from its source by its own makefiles and kept in the cache.

They measure Cobalt because they are linked with its library, so they must be of the Xenomai that the kernel is of.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rtgate import process, site
from rtgate.arches import ARCHES
from rtgate.errors import BuildError
from rtgate.files import scratch, short_hash, waiting_lock
from rtgate.kernel.patches import synchronise
from rtgate.kernel.xenomai import XenomaiTree, require_arch
from rtgate.rootfs import programs
from rtgate.rootfs.debian import Member

PREFIX = "/usr/xenomai"
# As its own test images are built; a board of one CPU runs what is made for several.
_CONFIGURE = (
    "--with-core=cobalt",
    "--enable-smp",
    "--enable-pshared",
    "--disable-doc-install",
    f"--prefix={PREFIX}",
    "--mandir=/man",
    "--includedir=/include",
)
_STEP_S = 3600.0  # of configuring, or of compiling; minutes on two cores
_ERROR = re.compile("error:|undefined reference|No rule to make")


def key(tree: XenomaiTree, arch: str) -> str:
    """Return a short name for everything that decides what is made.

    Raises:
        ConfigError: Xenomai has no Cobalt for this architecture.
        InfrastructureError: there is no compiler.
    """
    require_arch(arch)
    compiler = programs.compiler(arch).identity
    return short_hash(f"{tree.version} {tree.identity.fingerprint} {arch} {_CONFIGURE} {compiler}")


def installed(tree: XenomaiTree, arch: str, progress: Callable[[str], None]) -> Mapping[str, Member]:
    """Return what Xenomai installs for a target, stripped, by name relative to the root directory.

    Raises:
        BuildError: it does not compile; names the log.
        ConfigError: Xenomai has no Cobalt for this architecture.
        InfrastructureError: a tool is missing.
    """
    place = site.cache().absolute() / "xenomai" / f"{arch}-{key(tree, arch)}"
    with waiting_lock(place.with_suffix(".lock"), f"builds Xenomai for {arch}", progress):
        if not place.is_dir():
            _build(tree, arch, place, progress)
    return dict(_members(place))


def _build(tree: XenomaiTree, arch: str, place: Path, progress: Callable[[str], None]) -> None:
    process.require("autoreconf", "libtoolize", "make", "pkg-config")
    compiler, jobs = programs.compiler(arch).path, len(os.sched_getaffinity(0))
    log = place.with_suffix(".log")
    log.unlink(missing_ok=True)
    with scratch(Path(tempfile.gettempdir()), "rtgate-xenomai-") as work:
        source, objects = work / "source", work / "objects"
        objects.mkdir()
        progress(f"building Xenomai {tree.version} for {arch}: configuring")
        synchronise(tree.path, source)
        _run(["autoreconf", "-fi"], source, log)
        # What the compiler notes of a path is relative, so that the same bytes come out wherever it runs.
        flags = f"-g0 -O2 -ffile-prefix-map={work}=."
        variables = (f"CC={compiler}", f"CFLAGS={flags}", "LDFLAGS=-Wl,--build-id=none")
        _run(["../source/configure", f"--host={ARCHES[arch].gnu}", *_CONFIGURE, *variables], objects, log)
        progress(f"building Xenomai {tree.version} for {arch}: compiling")
        _run(["make", f"-j{jobs}"], objects, log)
        _run(["make", "install-strip", f"DESTDIR={work / 'installed'}"], objects, log)
        with scratch(place.parent, ".partial-") as whole:  # a copy that was interrupted is no result
            shutil.move(work / "installed", whole / "installed")
            (whole / "installed").rename(place)


def _run(command: Sequence[str], directory: Path, log: Path) -> None:
    child = process.attempt(command, directory=directory, timeout_s=_STEP_S)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{child.stdout}{child.stderr}\n")
    if child.returncode != 0:
        lines = [line for line in child.stderr.splitlines() if _ERROR.search(line)] or [child.stderr.strip()]
        raise BuildError(f"Xenomai does not build ({posixpath.basename(command[0])}): {lines[0][:300]}", log)


def _members(place: Path) -> Iterator[tuple[str, Member]]:
    for path in sorted(place.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(place))
        if stat.S_ISLNK(mode):
            yield name, Member(stat.S_IFLNK | 0o777, str(path.readlink()).encode())
        elif stat.S_ISREG(mode):
            yield name, Member(stat.S_IFREG | stat.S_IMODE(mode) & 0o755, path.read_bytes())
