# SPDX-License-Identifier: MIT
"""A run's own copy of a kernel: it stays what it is, and nothing of it stays."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import artefacts, build_copy
from rtgate.kernel.build import build
from rtgate.kernel.source import open_tree

from .conftest import Describe

IMAGE = bytes(56) + b"ARM\x64" + bytes(8)
HOLD = """
import sys, time
from pathlib import Path
from rtgate.kernel.build_copy import pin_kernel
print(pin_kernel(Path(sys.argv[1])).directory, flush=True)
if len(sys.argv) > 2:
    time.sleep(60)
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "Image").write_bytes(IMAGE)
    return directory


def test_who_rewrites_the_original_changes_nothing(kernel: Path) -> None:
    found = build_copy.pin_kernel(kernel)
    (kernel / "Image").write_bytes(IMAGE + b"other")
    assert (found.directory.name, found.image.read_bytes()) == ("mine", IMAGE)
    assert found.image_sha256 == hashlib.sha256(IMAGE).hexdigest()
    assert build_copy.pin_kernel(found.directory) == found  # a copy is not copied again
    assert build_copy.pin_kernel(kernel).image_sha256 != found.image_sha256


def test_the_directory_above_has_a_name_too(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel / "scripts").mkdir()
    monkeypatch.chdir(kernel / "scripts")
    pinned = build_copy.pin_kernel(Path(".."))
    assert (pinned.directory.name, pinned.image.read_bytes()) == ("mine", IMAGE)


def test_a_link_to_a_kernel_keeps_its_name(kernel: Path) -> None:
    (kernel.parent / "latest").symlink_to(kernel)
    assert build_copy.pin_kernel(kernel.parent / "latest").directory.name == "latest"


@pytest.mark.usefixtures("toolchain")
def test_a_build_of_ours_is_copied_whole_and_once(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    made = build(describe(), open_tree(fake_tree), tmp_path / "out")
    found = build_copy.pin_kernel(tmp_path / "out")
    assert (found.inputs, found.vmlinux and found.vmlinux.parent) == (made.inputs, found.directory)
    assert build_copy.pin_kernel(tmp_path / "out").directory == found.directory


def test_what_changes_while_it_is_copied_is_no_kernel(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = build_copy._copy

    def changed(build: artefacts.KernelBuild, place: Path) -> None:
        (kernel / "Image").write_bytes(IMAGE + b"other")
        copy(build, place)

    monkeypatch.setattr(build_copy, "_copy", changed)
    with pytest.raises(InfrastructureError, match="changed while it was copied: wait for whoever builds there"):
        build_copy.pin_kernel(kernel)


def test_no_kernel_is_told_of_the_directory_that_was_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{tmp_path} holds no kernel build"):
        build_copy.pin_kernel(tmp_path)


def test_a_copy_ends_with_its_process_and_what_a_killed_one_left_goes_with_the_next(kernel: Path, cache: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(kernel)]
    environment = {**os.environ, "RTGATE_CACHE": str(cache)}
    alive, killed = (
        subprocess.Popen([*argv, "wait"], stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)
    )
    try:
        assert alive.stdout is not None
        assert killed.stdout is not None
        held, left = (Path(one.stdout.readline().strip()) for one in (alive, killed) if one.stdout)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.is_dir()
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
        assert not Path(done.stdout.strip()).exists()
        assert [path.name for path in (cache / "pinned").iterdir()] == [held.parent.name]
    finally:
        for one in (alive, killed):
            one.kill()
            one.communicate()
