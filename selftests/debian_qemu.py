# SPDX-License-Identifier: MIT
"""QEMU of another Debian release than this machine's, unpacked beside it. It runs with its own libraries."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from rtgate.files import waiting_lock
from rtgate.rootfs.debian import Archive

_PACKAGES = {"qemu-system-aarch64": "qemu-system-arm", "qemu-system-x86_64": "qemu-system-x86"}
_SCRIPT = """\
#!/bin/sh
export QEMU_MODULE_DIR={libraries}/qemu
exec {linker} --library-path {libraries} --argv0 {program} {tree}/usr/bin/{program} -L {tree}/usr/share/qemu "$@"
"""


@cache
def programs(suite: str, store: Path) -> Path:
    """Return a directory for PATH with QEMU's programs of a suite, fetched and unpacked if they are not there.

    Args:
        suite: `trixie` for QEMU 10.0, `sid` for the newest.
        store: keeps one tree of each suite.
    """
    store.mkdir(parents=True, exist_ok=True)
    with waiting_lock(store / f"{suite}.lock", "fetches another QEMU", print):
        with tempfile.TemporaryDirectory(prefix=f".partial-{suite}-", dir=store) as scratch:
            architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
            archive = Archive.open(Path(scratch) / "apt", [suite], architecture)
            version = archive.versions(dict.fromkeys(_PACKAGES.values(), suite))["qemu-system-arm"][0]
            tree = store / f"{suite}-{version.replace(':', '.')}"
            if not tree.is_dir():
                for old in store.glob(f"{suite}-*"):
                    shutil.rmtree(old)
                _unpack(archive, Path(scratch) / "tree")
                (Path(scratch) / "tree").rename(tree)
        return _write_programs(tree)


def _unpack(archive: Archive, tree: Path) -> None:
    """Unpack the packages with all that they depend on: to this apt nothing is installed."""
    environment = {**os.environ, "APT_CONFIG": str(archive.directory / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    fetch = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", "--download-only"]
    subprocess.run([*fetch, *_PACKAGES.values()], env=environment, check=True)
    for package in (archive.directory / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, tree], check=True)


def _write_programs(tree: Path) -> Path:
    (linker,) = (tree / "usr" / "lib").glob("*/ld-linux-*.so.*")
    directory = tree / "rtgate"
    directory.mkdir(exist_ok=True)
    for program in _PACKAGES:
        paths = {"libraries": linker.parent, "linker": linker, "tree": tree}
        script = _SCRIPT.format(program=program, **{name: shlex.quote(str(path)) for name, path in paths.items()})
        (directory / program).write_text(script)
        (directory / program).chmod(0o755)
    return directory
