# SPDX-License-Identifier: MIT
"""A lab without QEMU: a program of its name plays back a boot, whatever it is asked to boot."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest
from selftests.fake_target import files

from rtgate.report import latency
from rtgate.report.plots import Picture
from rtgate.rootfs import cpio, images, recipe
from rtgate.rootfs.packing import MANIFEST_FORMAT
from rtgate.target import qemu

# It finds the plan's nonce and seed in the initrd, as a target would, and frames the captured files. FAKE_QEMU is a
# directory; its `slow-SEED` makes one wake-up of that seed late, `skip-SEED` lacks what the tool needs. A kernel whose
# image has the word "slow" in it is late with every seed.
QEMU = """\
#!{python}
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)  # QEMU ends by it without a word
import gzip, io, os, pathlib, re, sys, tarfile
sys.path[:0] = {packages!r}
from selftests.frames import encode

if "--version" in sys.argv:
    print("QEMU emulator version 0.0 (fake)")
    sys.exit()
words = dict(zip(sys.argv, sys.argv[1:]))
console = pathlib.Path(words["-serial"].removeprefix("file:"))
initrd = pathlib.Path(words["-initrd"]).read_bytes()
plan = re.search(rb"# rtgate plan (F\\w+): \\S+, seed (\\d+)", initrd)
if plan is None:
    sys.stdin.read()  # a console for a person
    sys.exit()
nonce, seed = (part.decode() for part in plan.groups())
files = {{path.name: path.read_bytes() for path in pathlib.Path({capture!r}).iterdir()}}
fake = pathlib.Path(os.environ["FAKE_QEMU"])
if (fake / f"slow-{{seed}}").exists() or b"slow" in pathlib.Path(words["-kernel"]).read_bytes():
    text = files["cyclictest.json"].replace(b'"45360": 1', b'"99000": 1')
    files["cyclictest.json"] = text.replace(b'"max": 45360', b'"max": 99000')
if (fake / f"die-{{seed}}").exists():
    console.write_bytes(b"[    0.500000] Kernel panic - not syncing: no init\\r\\n")
    sys.exit()
if (fake / f"noise-{{seed}}").exists():
    console.write_bytes(os.urandom(8).hex().encode() + b"\\r\\n")
if (fake / f"skip-{{seed}}").exists():
    files["skip"] = b"needs two CPUs\\n"
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    for name, data in files.items():
        member = tarfile.TarInfo("r/" + name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
lines = ["rtgate: plan started", "rtgate: measured", *encode(gzip.compress(archive.getvalue(), mtime=0), nonce), ""]
with console.open("ab") as stream:
    stream.write("\\r\\n".join(lines).encode())
"""


_LONGEST_S = 60.0  # that reading a file may take on a busy machine


@dataclass(frozen=True)
class Lab:
    """A kernel's build directory, and what the boots shall do."""

    kernel: Path
    fake: Path

    def make(self, *names: str) -> None:
        """Say what happens: `slow-SEED`, `die-SEED`, `noise-SEED`, `skip-SEED`."""
        for name in names:
            (self.fake / name).touch()


def write_rootfs(cache: Path) -> None:
    directory = cache / "rootfs" / f"core-arm64-{recipe.key(recipe.find('core'), 'arm64')}"
    directory.mkdir(parents=True)
    archive = cpio.pack([cpio.file("init", b"#!/bin/sh\n", 0o755)])
    compressed = cpio.compress(archive)
    (directory / "x.cpio").write_bytes(archive)
    (directory / "x.cpio.gz").write_bytes(compressed)
    manifest = {
        "format": MANIFEST_FORMAT,
        "name": "core",
        "arch": "arm64",
        "image": "x.cpio.gz",
        "archive": "x.cpio",
        "sha256": hashlib.sha256(compressed).hexdigest(),
        "content_sha256": hashlib.sha256(archive).hexdigest(),
        "packages": {},
        "tools": {},
        "warnings": [],
    }
    (directory / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return make_lab(tmp_path, monkeypatch)


def make_lab(place: Path, patch: pytest.MonkeyPatch) -> Lab:
    """Make a lab in a directory, which becomes the current one."""
    programs, fake, kernel, captured = (place / name for name in ("bin", "fake", "kernel", "captured"))
    for directory in (programs, fake, kernel, captured):
        directory.mkdir()
    for name, data in files().items():
        (captured / name).write_bytes(data)
    program = programs / "qemu-system-aarch64"
    packages = [str(Path(images.__file__).parents[2]), str(Path(__file__).parents[3])]
    program.write_text(QEMU.format(python=sys.executable, packages=packages, capture=str(captured)))
    program.chmod(0o755)
    (kernel / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(8))
    write_rootfs(place / "cache")
    patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("RTGATE_CACHE", str(place / "cache"))
    patch.setenv("FAKE_QEMU", str(fake))
    patch.delenv("RTGATE_SITE", raising=False)
    patch.chdir(place)
    qemu.version.cache_clear()
    return Lab(kernel=kernel, fake=fake)


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Draw no latencies: half of a gate's time here. `report/` has what plots show, and integration tests draw them."""
    patch.setattr(latency, "histogram_plot", lambda *_: Picture(svg=b"<svg/>", png=b"PNG"))
    patch.setattr(latency, "boots_plot", lambda *_: b"<svg/>")


@pytest.fixture(autouse=True)
def _forget_qemu() -> None:
    qemu.version.cache_clear()


@pytest.fixture
def impatient() -> Iterator[None]:
    """Fail a test whose main thread waits for a file; nothing else would end it."""

    def waited(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise AssertionError(f"waited for {_LONGEST_S:g} s")

    former = signal.signal(signal.SIGUSR1, waited)
    main_thread = threading.get_ident()
    timer = threading.Timer(_LONGEST_S, lambda: signal.pthread_kill(main_thread, signal.SIGUSR1))
    timer.start()
    yield
    timer.cancel()
    timer.join()
    signal.signal(signal.SIGUSR1, former)
