# SPDX-License-Identifier: MIT
"""Kernel sources of other lines than the pinned one: the newest of a Debian suite, and the RT series for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from rtgate.files import waiting_lock
from rtgate.rootfs.debian import Archive


@cache
def newest_kernel(suite: str, store: Path) -> Path:
    """Return the newest kernel's source of a suite, fetched and unpacked if it is not there; Debian is asked once.

    Args:
        suite: `bookworm` for 6.1, `sid` for the newest line.
        store: keeps one tree of each suite.
    """
    store.mkdir(parents=True, exist_ok=True)
    with waiting_lock(store / f"{suite}.lock", "fetches a kernel's source", print):
        with tempfile.TemporaryDirectory(prefix=f".partial-{suite}-", dir=store) as scratch:
            archive = Archive.open(Path(scratch) / "apt", [suite], "amd64")
            version = archive.versions({"linux-source": suite})["linux-source"][0]
            package = "linux-source-" + ".".join(re.findall(r"\d+", version)[:2])
            version = archive.versions({package: suite})[package][0]
            tree = store / f"{suite}-{version}"
            if not tree.is_dir():
                _unpack(archive.download({package: version})[package], Path(scratch))
                for old in store.glob(f"{suite}-*"):
                    shutil.rmtree(old)
                (Path(scratch) / "tree").rename(tree)
        return tree


def real_time_series(suite: str, tree: Path) -> Path:
    """Return Debian's own RT series for a tree that `newest_kernel` made, as a directory with a file `series`.

    It is in the source of Debian's kernel package, below `debian/patches-rt`, where a line has one: 6.1 does.
    """
    place = tree.with_name(f"rt-{tree.name}")
    version = tree.name.removeprefix(f"{suite}-")
    with (
        waiting_lock(tree.parent / f"{suite}.lock", "fetches an RT series", print),
        tempfile.TemporaryDirectory(prefix=f".partial-{suite}-", dir=tree.parent) as scratch,
    ):
        if not place.is_dir():
            archive = Archive.open(Path(scratch) / "apt", [suite], "amd64")
            sources = archive.directory / "sources.list"
            sources.write_text(re.sub(r"^deb \[.*target=Packages ", "deb-src [", sources.read_text()))
            for words in (["update", "-qq"], ["source", "-qq", "--diff-only", "--download-only", f"linux={version}"]):
                environment = {**os.environ, "APT_CONFIG": str(archive.directory / "apt.conf")}
                subprocess.run(["apt-get", *words], cwd=scratch, env=environment, check=True)
            (tarball,) = Path(scratch).glob("linux_*.debian.tar.xz")
            subprocess.run(["tar", "--extract", "--file", tarball, "debian/patches-rt"], cwd=scratch, check=True)
            for old in tree.parent.glob(f"rt-{suite}-*"):
                shutil.rmtree(old)
            (Path(scratch) / "debian" / "patches-rt").rename(place)
    return place


def _unpack(package: Path, scratch: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, scratch / "package"], check=True)
    (tarball,) = (scratch / "package/usr/src").glob("linux-source-*.tar.xz")
    (scratch / "tree").mkdir()
    where = ("--file", str(tarball), "--directory", str(scratch / "tree"))
    subprocess.run(["tar", "--extract", "--strip-components=1", "--no-same-owner", *where], check=True)
