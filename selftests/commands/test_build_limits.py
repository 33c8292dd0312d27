# SPDX-License-Identifier: MIT
"""Builds that would never end, or fill the disk, with the real bubblewrap."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from selftests.commands.test_confinement import _HOSTILE, job
from selftests.commands.test_tuxmake import processes_in
from selftests.unit.kernel.conftest import cache, describe, fake_tree, git, toolchain

from rtgate.errors import BuildLimitError, InfrastructureError
from rtgate.kernel import build_limits, tuxmake
from rtgate.kernel.build_limits import MIB, BuildLimits

__all__ = ["cache", "describe", "fake_tree", "git", "job", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_limits, "_POLL_S", 0.1)


def _run(job: tuxmake.Job, command: str, limits: BuildLimits) -> bool:
    makefile = job.tree / "Makefile"
    makefile.write_text(_HOSTILE % command.replace("$", "$$") + makefile.read_text())
    return tuxmake.run(dataclasses.replace(job, limits=limits), ("config", "kernel"), job.tree.parent / "log.txt")


@pytest.mark.parametrize("trusted", [True, False])
def test_a_build_that_never_ends_is_stopped(job: tuxmake.Job, tmp_path: Path, *, trusted: bool) -> None:
    began = time.monotonic()
    with pytest.raises(BuildLimitError, match=r"took longer than 2 s\..*author of .*--build-time, or build_time"):
        _run(dataclasses.replace(job, trusted=trusted), "while :; do sleep 1; done", BuildLimits(time_s=2.0))
    assert time.monotonic() - began < 30.0
    # What is in a namespace of its own dies after its first process, which is all that is waited for.
    while processes_in(tmp_path) and time.monotonic() - began < 60.0:
        time.sleep(0.1)
    assert processes_in(tmp_path) == []


def test_a_build_that_fills_the_disk_is_stopped(job: tuxmake.Job) -> None:
    fill = f"for i in $(seq 100); do head -c 10M /dev/zero >{job.build_directory}/$i; sleep 0.1; done"
    with pytest.raises(BuildLimitError, match=r"filled more than 100 MiB of the disk.*set build_disk in policy.yaml"):
        _run(job, fill, BuildLimits(disk=100 * MIB))
    assert len(list(job.build_directory.glob("[0-9]*"))) < 100


def test_no_file_is_larger_than_all_may_be(job: tuxmake.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the second between two looks at the whole."""
    monkeypatch.setattr(build_limits, "_POLL_S", 60.0)
    _run(job, f"head -c 100M /dev/zero >{job.build_directory}/large", BuildLimits(disk=50 * MIB))
    assert (job.build_directory / "large").stat().st_size == 50 * MIB


@pytest.mark.parametrize("command", ["yes", "tr '\\0' x </dev/zero"])  # lines, and one that does not end
def test_a_build_that_prints_for_ever_is_stopped(
    job: tuxmake.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(tuxmake, "LOG", MIB)
    job.log_directory.mkdir()
    trusted = dataclasses.replace(job, trusted=True, limits=BuildLimits(time_s=30.0))
    with pytest.raises(BuildLimitError, match=r"printed more than 1 MiB.*look at what it does$"):
        tuxmake._run_with_log(["sh", "-c", command], trusted, tmp_path / "log.txt")
    assert (tmp_path / "log.txt").stat().st_size < 2 * MIB


def test_without_the_room_nothing_is_built(job: tuxmake.Job) -> None:
    """It is the machine's, as nothing of the change has run."""
    with pytest.raises(InfrastructureError, match=r"GiB free, and an unreviewed build may fill .*build_disk"):
        _run(job, "true", BuildLimits(disk=1 << 60))


@pytest.mark.parametrize(("after", "error"), [(False, BuildLimitError), (True, InfrastructureError)])
def test_a_disk_that_is_full_without_the_build_is_the_machine_s(
    job: tuxmake.Job, monkeypatch: pytest.MonkeyPatch, *, after: bool, error: type[Exception]
) -> None:
    """What the build has deleted and holds open is free again when it has ended."""
    watching = [True]
    monkeypatch.setattr(build_limits, "is_full", lambda _: watching[0])

    def stop() -> None:
        watching[0] = after

    watch = build_limits.Watch(BuildLimits(disk=64 * MIB), (job.tree,), stop)
    watch.follow()
    with pytest.raises(error):
        watch.check()


def test_memory_that_looks_like_a_disk_is_small(job: tuxmake.Job) -> None:
    _run(job, "head -c 300M /dev/zero >/tmp/x; head -c 300M /dev/zero >/dev/shm/x", BuildLimits(disk=512 * MIB))
    said = (job.build_directory / "said").read_text()
    assert said.count("No space left on device") == 2
