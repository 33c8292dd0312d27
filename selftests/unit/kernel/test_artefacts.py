# SPDX-License-Identifier: MIT
from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel import artefacts

ARM64 = b"\0" * 56 + b"ARM\x64" + b"\0" * 8
X86 = b"\0" * 0x202 + b"HdrS"


@pytest.mark.parametrize(("name", "content", "arch"), [("Image", ARM64, "arm64"), ("bzImage", X86, "x86_64")])
def test_kernel_of_unknown_provenance(tmp_path: Path, name: str, content: bytes, arch: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "vmlinux").write_bytes(b"")
    found = artefacts.load(tmp_path)
    assert (found.provenance, found.arch, found.image) == ("unknown", arch, tmp_path / name)
    assert (found.name, found.flavour, found.release, found.config) == (None, None, None, None)
    assert found.vmlinux == tmp_path / "vmlinux"
    assert found.image_sha256 == artefacts.sha256(tmp_path / name)


def test_an_image_that_nobody_may_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(image: Path) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(image))

    (tmp_path / "Image").write_bytes(ARM64)
    monkeypatch.setattr(artefacts, "image_arch", deny)  # root may read everything
    with pytest.raises(ConfigError, match=r"Image: cannot be read: Permission denied"):
        artefacts.load(tmp_path)


def test_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"expected build.json .* or one of Image \(arm64, riscv64\) and bzImage .* none"
    ):
        artefacts.load(tmp_path)
    with pytest.raises(ConfigError, match="holds no kernel build"):
        artefacts.load(tmp_path / "missing")


@pytest.mark.parametrize("name", ["build.json", "config", "vmlinux"])
def test_a_file_that_is_there_and_cannot_be_read_is_not_left_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "Image").write_bytes(ARM64)
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(ConfigError, match=rf"/{name}: "):
        artefacts.load(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match=rf"/{name}: .*not a regular file"):
        artefacts.load(tmp_path)


def test_two_kernels(tmp_path: Path) -> None:
    (tmp_path / "Image").write_bytes(ARM64)
    (tmp_path / "bzImage").write_bytes(X86)
    with pytest.raises(ConfigError, match="found both"):
        artefacts.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"ELF", b"\x1f\x8b compressed"])
def test_no_kernel_image(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "Image").write_bytes(content)
    with pytest.raises(ConfigError, match="not a kernel image"):
        artefacts.load(tmp_path)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    files = {"image": "Image", "config": "config", "system_map": "System.map"}
    for name in files.values():
        (tmp_path / name).write_bytes(ARM64 + name.encode())
    stored = {
        "format": 1,
        "name": "fake",
        "arch": "arm64",
        "flavour": "preempt_rt",
        "release": "6.12.7",
        "source": {"kind": "directory"},
        "toolchain": "gcc",
        "warnings": ["w"],
        "patches": [{"file": "0001-slow.patch", "sha256": "d" * 64}],
        "inputs": "abc",
        "artefacts": {
            kind: {"file": name, "sha256": artefacts.sha256(tmp_path / name)} for kind, name in files.items()
        },
    }
    (tmp_path / "build.json").write_text(json.dumps(stored))
    return tmp_path


def test_our_build(ours: Path) -> None:
    found = artefacts.load(ours)
    assert (found.provenance, found.name, found.flavour, found.release) == ("rtgate", "fake", "preempt_rt", "6.12.7")
    assert (found.inputs, found.vmlinux) == ("abc", None)
    assert found.patches == ("0001-slow.patch",)


def test_changed_and_missing_files(ours: Path) -> None:
    (ours / "config").write_text("other")
    with pytest.raises(ConfigError, match=r"config: not the file that was built"):
        artefacts.load(ours)
    (ours / "config").unlink()
    with pytest.raises(ConfigError, match=r"config: no such file, but build\.json names it"):
        artefacts.load(ours)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text[:-20], "not understood"),
        (lambda _: "[]", "not understood"),
        (lambda _: "{}", "not understood"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "format 2 is not 1"),
        (lambda text: text.replace('"flavour"', '"flavor"'), "not understood"),
        (lambda text: text.replace('"file": "config"', '"file": "../config"'), "outside its directory"),
        (lambda text: text.replace('"image"', '"picture"'), "not understood"),
    ],
)
def test_damaged_build_json(ours: Path, change: Callable[[str], str], complaint: str) -> None:
    path = ours / "build.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ConfigError, match=complaint):
        artefacts.load(ours)
