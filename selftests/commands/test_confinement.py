# SPDX-License-Identifier: MIT
"""What a kernel's Makefile that nobody has reviewed can do, with the real bubblewrap."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import cache, fake_tree, toolchain

from rtgate.errors import BuildError, InfrastructureError
from rtgate.kernel import confinement, tuxmake
from rtgate.kernel.build_limits import MIB, BuildLimits

__all__ = ["cache", "fake_tree", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")
_HOSTILE = """
$(shell { %s ; } >$(O)/said 2>&1)
"""


@pytest.fixture
def job(fake_tree: Path, tmp_path: Path) -> tuxmake.Job:
    (tmp_path / "requested.config").write_text("CONFIG_EXPERT=y\n")
    return tuxmake.Job(
        tree=fake_tree,
        build_directory=tmp_path / "build",
        log_directory=tmp_path / "log",
        arch="arm64",
        bases=("tinyconfig",),
        fragment=tmp_path / "requested.config",
        jobs=2,
        ccache_directory=tmp_path / "ccache",
        trusted=False,
        limits=BuildLimits(disk=64 * MIB),
    )


def _said(job: tuxmake.Job, command: str) -> str:
    """Return what a command prints that the tree's Makefile runs while a kernel is built."""
    makefile = job.tree / "Makefile"
    makefile.write_text(_HOSTILE % command.replace("$", "$$") + makefile.read_text())
    tuxmake.run(job, ("config", "kernel"), job.tree.parent / "log.txt")
    return (job.build_directory / "said").read_text()


def test_a_kernel_is_built_all_the_same(job: tuxmake.Job, tmp_path: Path) -> None:
    assert tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt")
    confined = (job.build_directory / "arch/arm64/boot/Image").read_bytes()
    shutil.rmtree(job.build_directory)
    assert tuxmake.run(dataclasses.replace(job, trusted=True), ("config", "kernel"), tmp_path / "log.txt")
    assert (job.build_directory / "arch/arm64/boot/Image").read_bytes() == confined


def test_a_machine_without_namespaces_is_not_the_build_s_fault(
    job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bwrap = tmp_path / "bin" / "bwrap"
    bwrap.parent.mkdir()
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bwrap.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(InfrastructureError, match=r"confinement: bwrap: No permissions to create .* user namespaces"):
        tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt")


def test_a_python_beside_the_machine_s_programs_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "_PROGRAMS", (str(tmp_path / "opt"),))
    for name in ("opt/python", "optional/python"):
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / name))
        words = confinement.confine(["true"], (), (), tmp_path)
        assert (str(tmp_path / name) in words) == name.startswith("optional")


def test_nothing_is_written_but_the_build(job: tuxmake.Job, tmp_path: Path) -> None:
    (tmp_path / "boots").mkdir()
    job.ccache_directory.mkdir()
    places = (job.tree, job.ccache_directory, tmp_path / "boots", Path("/etc"), Path.home(), Path("/usr/local/bin"))
    before = {place: sorted(place.iterdir()) for place in places}
    said = _said(job, "; ".join(f"echo hostile >{place}/hostile" for place in places))
    after = {place: sorted(place.iterdir()) for place in places}
    assert after == before
    assert said.count("Read-only file system") + said.count("nonexistent") == len(places)


def test_a_copy_that_the_build_is_in_may_be_written(job: tuxmake.Job) -> None:
    """As merge_config.sh of Kconfig does, whose temporary file lies beside the sources."""
    inside = dataclasses.replace(job, build_directory=job.tree / "rtgate-build-fake")
    _said(inside, f"mktemp {inside.tree}/.tmp.config.XXXXXXXXXX")
    assert list(inside.tree.glob(".tmp.config.*"))


def test_there_is_no_network(job: tuxmake.Job) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        said = _said(job, f"bash -c 'echo hello >/dev/tcp/127.0.0.1/{port}'")
        with pytest.raises(TimeoutError):
            server.accept()
    assert "connect: " in said  # it was tried


def test_no_secret_and_no_other_process_is_there(
    job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGATE_GITLAB_TOKEN", "glpat-secret")
    (tmp_path / "token").write_text("file-secret")
    said = _said(
        job, f"env; cat {tmp_path}/token; cat /proc/*/environ | tr '\\0' '\\n'; ls -d /proc/{os.getpid()}; whoami"
    )
    assert "glpat-secret" not in said
    assert "file-secret" not in said
    assert f"ls: cannot access '/proc/{os.getpid()}'" in said


def test_of_the_machine_only_programs_can_be_read(job: tuxmake.Job) -> None:
    """What make prints stands in the answer, and a service's password may lie in /etc, a CI's variables in /builds."""
    said = _said(job, "ls /; ls /etc; cat /etc/shadow")
    assert "root:" not in said
    assert not {"builds", "media", "mnt", "run", "srv", "sys", "var"} & set(said.split())


def test_logs_are_not_the_build_s_to_write(job: tuxmake.Job) -> None:
    """rtgate writes them with its own rights, also through a link."""
    _said(job, f"cd {job.log_directory}; for name in build.log made.json; do ln -sf /etc/passwd $name; done")
    assert [path.name for path in job.log_directory.iterdir()] == ["tuxmake"]


def test_nothing_of_a_build_lives_longer_than_it(job: tuxmake.Job) -> None:
    """It could change results that were looked at."""
    loop = "while :; do echo x >>$(O)/alive; done".replace("$(O)", str(job.build_directory))
    _said(job, f"setsid bash -c '{loop}' >/dev/null 2>&1 </dev/null & sleep 0.1")
    size = (job.build_directory / "alive").stat().st_size
    time.sleep(0.2)
    assert (job.build_directory / "alive").stat().st_size == size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("rm -f System.map; ln -s /etc/passwd System.map", "made a link of System.map"),
        ("rm -rf arch; ln -s /etc arch", "made a link of Image"),
        ("rm -f vmlinux; mkfifo vmlinux", "made something else of vmlinux"),
        ("truncate -s 3G vmlinux", "made vmlinux larger than 2 GiB"),
    ],
)
def test_results_that_lead_elsewhere_are_not_read(job: tuxmake.Job, make: str, message: str) -> None:
    build = job.build_directory
    (build / "arch/arm64/boot").mkdir(parents=True)
    results = [build / name for name in ("System.map", "vmlinux", "arch/arm64/boot/Image", "missing")]
    for path in results[:3]:
        path.touch()
    confinement.require_own_files(results, job.writable)
    subprocess.run(["sh", "-c", make], cwd=build, check=True)
    with pytest.raises(BuildError, match=message):
        confinement.require_own_files(results, job.writable)


def test_without_bubblewrap_nothing_is_built(job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"not installed: bwrap \(Debian: apt-get install bubblewrap\)"):
        tuxmake.run(job, ("config", "kernel"), tmp_path / "log.txt")
