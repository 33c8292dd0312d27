# SPDX-License-Identifier: MIT
"""Real images: built from the archive, by root and by an ordinary user, and booted. They need the network."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from selftests.cpio_reader import unpack
from selftests.integration.conftest import boot_plan

from rtgate.arches import ARCHES
from rtgate.rootfs import images, recipe

_PROGRAMS = """
    awk base64 cat chrt cksum cut cyclicdeadline cyclictest deadline_test dmesg gzip hackbench kill mkdir od oslat paste
    pi_stress pip_stress pmqtest poweroff ptsematest queuelat reboot rm rt-migrate-test sed setsid sh sha256sum
    signaltest sigwaittest sleep split ssdd stress stress-ng svsematest tail tar taskset timeout uname usleep
"""

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


_LONG = pytest.mark.long("builds or boots an image more; that of arm64 is built twice and booted in make test")


@pytest.fixture(
    scope="module", params=[arch if arch == "arm64" else pytest.param(arch, marks=_LONG) for arch in ARCHES]
)
def core(request: pytest.FixtureRequest, cache: Path) -> images.RootfsImage:
    return images.image("core", str(request.param), cache=cache)


def test_two_builds_give_the_same_bytes(core: images.RootfsImage, tmp_path: Path) -> None:
    again = images.image("core", core.arch, cache=tmp_path)
    assert again.path.read_bytes() == core.path.read_bytes()
    assert again.manifest.read_bytes() == core.manifest.read_bytes()


def test_it_is_small(core: images.RootfsImage) -> None:
    assert core.path.stat().st_size <= 6_000_000


def test_every_version_is_the_locked_one_or_told(core: images.RootfsImage) -> None:
    """The archive drops a version when it has a newer one, on any day: that is no fault of a change of rtgate."""
    lock = recipe.locked_versions(recipe.find("core")[-1], core.arch)
    assert core.versions.keys() == lock.keys()
    others = [f"{name} {lock[name]}: took {taken}," for name, taken in core.versions.items() if taken != lock[name]]
    assert len(core.warnings) == len(others)
    assert all(any(other in warning for warning in core.warnings) for other in others)


def test_it_holds_every_program_that_plans_and_tools_call(core: images.RootfsImage) -> None:
    entries = {entry.name: entry for entry in unpack(core.archive.read_bytes())}
    for name in _PROGRAMS.split():
        entry = entries[f"usr/bin/{name}"]
        real = entries[f"usr/bin/{entry.target}"] if stat.S_ISLNK(entry.mode) else entry
        assert real.mode & 0o111, name
        assert real.data.startswith(b"\x7fELF"), name


def _build_as_nobody(directory: Path, user: pwd.struct_passwd) -> None:
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(0o077)
    os.environ["HOME"] = str(directory)
    images.image("core", "arm64", cache=directory)


@_LONG
@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here already runs as an ordinary user")
def test_an_ordinary_user_gets_the_same_bytes(cache: Path) -> None:
    user = pwd.getpwnam("nobody")
    directory = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        os.chown(directory, user.pw_uid, user.pw_gid)
        child = multiprocessing.get_context("fork").Process(target=_build_as_nobody, args=(directory, user))
        child.start()
        child.join(600)
        assert child.exitcode == 0
        [image] = directory.glob("rootfs/core-arm64-*/core-arm64.cpio.gz")
        assert image.read_bytes() == images.image("core", "arm64", cache=cache).path.read_bytes()
        assert image.stat().st_uid == user.pw_uid
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("compressed", [True, pytest.param(False, marks=_LONG)])
def test_a_plan_runs_and_the_machine_is_switched_off(
    kernel: Path, cache: Path, tmp_path: Path, *, compressed: bool
) -> None:
    image = images.image("core", "arm64", cache=cache)
    names = " ".join(_PROGRAMS.split())
    plan = f"for name in {names}; do command -v $name >/dev/null || echo missing $name; done; echo done\n"
    root = image.path if compressed else image.archive
    console = boot_plan(kernel, tmp_path, plan, root=root, seed=1)
    said = console.partition("Run /init as init process")[2].split("\n")
    assert next(line.strip() for line in said if line.strip()) == "done"
