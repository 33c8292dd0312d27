# SPDX-License-Identifier: MIT
"""Kernel sources of other lines than the pinned one: the newest of a Debian suite."""

from __future__ import annotations

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


def _unpack(package: Path, scratch: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, scratch / "package"], check=True)
    (tarball,) = (scratch / "package/usr/src").glob("linux-source-*.tar.xz")
    (scratch / "tree").mkdir()
    where = ("--file", str(tarball), "--directory", str(scratch / "tree"))
    subprocess.run(["tar", "--extract", "--strip-components=1", "--no-same-owner", *where], check=True)
