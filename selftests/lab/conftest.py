# SPDX-License-Identifier: MIT
"""A real lab for the tests of this directory: brought up if there is none, and taken down if it was brought up here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.lab.lab import PROGRAM, Lab, exists, why_not

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.rootfs import images


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    is_of_others = exists()
    try:  # Ctrl-C may come while it comes up
        subprocess.run([PROGRAM, "up"], check=True, timeout=1500)
        yield Lab()
    finally:
        if not is_of_others:
            subprocess.run([PROGRAM, "down"], check=True, timeout=120)


@pytest.fixture(scope="session")
def files(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return kernel and ramdisk by board and kind, as files inside the lab that LAVA can fetch by `file://`."""
    found = {}
    for name in ("lab-virt-arm64", "lab-virt-x86_64"):
        board = boards.board(name)
        directory = tmp_path_factory.mktemp("kernel") / board.arch
        assert main(["build", board.build, "-o", str(directory)]) == 0
        image = directory / ("Image" if board.arch == "arm64" else "bzImage")
        ramdisk = images.image(board.rootfs, board.arch).path
        for kind, path in (("kernel", image), ("ramdisk", ramdisk)):
            found[f"{name} {kind}"] = given(path, f"{name}-{kind}")
    return found


def given(path: Path, name: str) -> Path:
    """Copy a file into the lab and return its path there."""
    inside = Path("/srv/files") / name
    script = 'mkdir -p /srv/files; cat >"$1"'
    with path.open("rb") as data:
        subprocess.run([PROGRAM, "exec", "sh", "-c", script, "sh", str(inside)], stdin=data, check=True)
    return inside
