# SPDX-License-Identifier: MIT
from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from selftests.cpio_reader import unpack

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.rootfs import cpio, images
from rtgate.rootfs.recipe import Recipe

Built = list[str]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """Replace the building of images by one that takes no time; return the names of the images it built."""
    names: Built = []

    def build(
        chain: tuple[Recipe, ...], arch: str, directory: Path, work: Path, progress: Callable[[str], None]
    ) -> None:
        assert not list(work.iterdir())
        names.append(chain[-1].name)
        archive = cpio.pack([cpio.file("init", b"#!/bin/sh\n", 0o755)])
        compressed = cpio.compress(archive)
        (directory / "x.cpio").write_bytes(archive)
        (directory / "x.cpio.gz").write_bytes(compressed)
        manifest = {
            "format": 1,
            "name": chain[-1].name,
            "arch": arch,
            "image": "x.cpio.gz",
            "archive": "x.cpio",
            "sha256": hashlib.sha256(compressed).hexdigest(),
            "content_sha256": hashlib.sha256(archive).hexdigest(),
            "packages": {"libc6": "2.41-1"},
            "tools": {"cyclictest": "2.10"},
            "warnings": ["careful"],
        }
        (directory / "manifest.json").write_text(json.dumps(manifest))
        progress("built")

    monkeypatch.setattr(images, "build", build)
    return names


def test_an_image_is_built_once(built: Built, tmp_path: Path) -> None:
    first = images.image("core", "arm64", cache=tmp_path)
    second = images.image("core", "arm64", cache=tmp_path)
    assert built == ["core"]
    assert first == second
    assert first.versions == {"libc6": "2.41-1"}
    assert first.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert gzip.decompress(first.path.read_bytes()) == first.archive.read_bytes()
    assert [path.name for path in (tmp_path / "rootfs").iterdir() if path.is_dir()] == [first.path.parent.name]


def test_architectures_have_images_of_their_own(built: Built, tmp_path: Path) -> None:
    assert images.image("core", "arm64", cache=tmp_path) != images.image("core", "x86_64", cache=tmp_path)
    assert len(built) == 2


@pytest.mark.parametrize("name", ["x.cpio.gz", "x.cpio", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_image_is_built_again(built: Built, tmp_path: Path, name: str, damage: str) -> None:
    path = images.image("core", "arm64", cache=tmp_path).path.with_name(name)
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-1])
    images.image("core", "arm64", cache=tmp_path)
    assert built == ["core", "core"]


def test_the_cache_is_where_the_environment_says(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_CACHE", str(tmp_path / "one"))
    assert images.image("core", "arm64").path.is_relative_to(tmp_path / "one" / "rootfs")
    monkeypatch.delenv("RTGATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    assert images.image("core", "arm64").path.is_relative_to(tmp_path / "two" / "rtgate" / "rootfs")


def test_warnings_are_told_whenever_the_image_is_used(built: Built, tmp_path: Path) -> None:
    said: list[str] = []
    images.image("core", "arm64", cache=tmp_path, progress=said.append)
    images.image("core", "arm64", cache=tmp_path, progress=said.append)
    assert said == ["built", "warning: careful", "warning: careful"]


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown architecture 'riscv' \(allowed: arm64, x86_64, riscv64\)"):
        images.image("core", "riscv", cache=tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, InfrastructureError])
def test_what_breaks_off_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def broken(_chain: object, _arch: str, directory: Path, work: Path, _progress: object) -> None:
        (directory / "x").touch()
        (work / "y").mkdir()
        raise error

    monkeypatch.setattr(images, "build", broken)
    with pytest.raises(error):
        images.image("core", "arm64", cache=tmp_path)
    assert [path.name for path in (tmp_path / "rootfs").iterdir()] == ["core-arm64.lock"]


def test_a_cache_that_cannot_be_written_is_the_labs_fault(built: Built, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="file/rootfs cannot be written: Not a directory"):
        images.image("core", "arm64", cache=tmp_path / "file")
    assert built == []


def test_a_second_builder_waits_and_takes_what_the_first_made(built: Built, tmp_path: Path) -> None:
    (tmp_path / "rootfs").mkdir()
    holder = os.open(tmp_path / "rootfs" / "core-arm64.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    said: list[str] = []
    waiting = threading.Event()

    def progress(text: str) -> None:
        said.append(text)
        waiting.set()

    thread = threading.Thread(
        target=images.image, args=("core", "arm64"), kwargs={"cache": tmp_path, "progress": progress}
    )
    thread.start()
    assert waiting.wait(10)
    assert built == []
    os.close(holder)
    thread.join(10)
    assert said[0] == "waiting for another rtgate (process unknown) that builds the same image"
    assert built == ["core"]


def _build_in_another_process(cache: Path) -> None:
    images.image("core", "arm64", cache=cache)


def test_two_processes_build_one_image(built: Built, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_build_in_another_process, args=(tmp_path,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
    assert [child.exitcode for child in children] == [0] * 4
    assert len([path for path in (tmp_path / "rootfs").iterdir() if path.is_dir()]) == 1


class TestOverlay:
    def test_the_same_files_give_the_same_bytes(self) -> None:
        files = {"rtgate/plan": b"echo\n", "bin/x": b"y"}
        assert images.overlay(files) == images.overlay(dict(reversed(files.items())))

    def test_its_files_can_be_run(self) -> None:
        entries = {entry.name: entry for entry in unpack(images.overlay({"rtgate/plan": b"echo\n"}))}
        assert entries["rtgate/plan"] == cpio.file("rtgate/plan", b"echo\n", 0o755)
        assert stat.S_ISDIR(entries["rtgate"].mode)

    def test_it_can_follow_an_image(self, built: Built, tmp_path: Path) -> None:
        # The kernel looks for a further archive only at a multiple of four bytes.
        image = images.image("core", "arm64", cache=tmp_path)
        assert image.path.stat().st_size % 4 == 0
        assert image.archive.stat().st_size % 4 == 0


def test_the_lock_file_gets_the_newest_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "target" / "rootfs"
    place.mkdir(parents=True)
    (place / "tiny.yaml").write_text(
        "format: 1\nsuite: trixie\nmax-mib: 6\npackages: {busybox: [usr/bin/busybox]}\nlibraries: [libc6]\n"
    )
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))

    class Archive:
        @classmethod
        def open(cls, directory: Path, suites: object, architecture: str) -> Archive:
            return cls()

        def versions(self, suites: dict[str, str]) -> dict[str, tuple[str, ...]]:
            return dict.fromkeys(suites, ("2:3-1", "2:2-1"))

    monkeypatch.setattr(images, "Archive", Archive)
    lock = images.update_lock("tiny")
    assert lock == place / "tiny.lock.yaml"
    assert lock.read_text().count('"2:3-1"') == 2 * len(ARCHES)


def test_the_lock_file_of_an_extending_recipe_leaves_the_other_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "target" / "rootfs"
    place.mkdir(parents=True)
    (place / "tiny.yaml").write_text(
        "format: 1\nsuite: trixie\nmax-mib: 6\npackages: {rt-tests: [usr/bin/x]}\nlibraries: [libc6]\n"
        "suites: {rt-tests: forky}\n"
    )
    (place / "large.yaml").write_text(
        "format: 1\nextends: tiny\nsuite: trixie\nmax-mib: 6\n"
        "packages: {rt-tests: [usr/bin/y], fio: [usr/bin/fio]}\nlibraries: [zlib1g]\n"
    )
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    asked: list[dict[str, str]] = []

    class Archive:
        @classmethod
        def open(cls, directory: Path, suites: object, architecture: str) -> Archive:
            return cls()

        def versions(self, suites: dict[str, str]) -> dict[str, tuple[str, ...]]:
            asked.append(dict(suites))
            return dict.fromkeys(suites, ("3-1",))

    monkeypatch.setattr(images, "Archive", Archive)
    text = images.update_lock("large").read_text()
    assert asked == [{"fio": "trixie", "zlib1g": "trixie"}] * len(ARCHES)
    assert text.count('fio: "3-1"') == text.count('zlib1g: "3-1"') == len(ARCHES)
    assert "rt-tests" not in text
    assert not (place / "tiny.lock.yaml").exists()
