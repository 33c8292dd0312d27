# SPDX-License-Identifier: MIT
"""The container image, in docker: it gates, builds and submits by itself, for a user without rights.

There is no clone in a container, and no network where a test does not say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.lab.lab import PROGRAM, STATE, Lab

from rtgate import __version__, site, strict_yaml
from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.kernel.identity import BUILD_DIRECTORY_PREFIX, TEMPORARY
from rtgate.rootfs import images

pytestmark = pytest.mark.long("a gate, a build and a job in containers; test_submit's jobs run in the same image")

USER = 1000
SHARE = "/usr/local/lib/python3.11/dist-packages/rtgate/share"
BUILD = "virt-arm64-preempt_rt"
# A compiler without a cache takes half as long as for the board's own kernel.
SMALL = """arch: arm64
flavour: generic
base: tinyconfig
fragments:
  - preempt
targets:
  - kernel
"""


@dataclass(frozen=True, slots=True)
class Containers:
    """Containers of the image, which share a directory.

    Attributes:
        work: the directory, `/here` inside; `/here/cache` is rtgate's cache.
    """

    work: Path

    def run(self, *words: object, network: str = "none", options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        """Run a command and return exit code, standard output and standard error."""
        argv: list[object] = [PROGRAM, "exec", "docker", "run", "--rm", f"--network={network}"]
        argv += [f"--user={USER}:{USER}", f"--volume={self.work}:/here", "--workdir=/here", "--env=HOME=/here"]
        argv += ["--env=RTGATE_CACHE=/here/cache", *options, f"rtgate:{__version__}", *words]
        done = subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=3000, check=False)
        print(done.stdout, done.stderr, sep="\n")
        return done.returncode, done.stdout, done.stderr

    def owned(self, *directories: Path) -> None:
        """Give directories, not their files, to the containers' user."""
        for directory in directories:
            os.chown(directory, USER, USER)


@pytest.fixture(scope="module")
def containers(lab: Lab) -> Iterator[Containers]:
    assert lab.token_file.exists()
    # The lab sees no other directory of this machine.
    place = Containers(STATE / "image-test")
    shutil.rmtree(place.work, ignore_errors=True)  # of a run that was killed
    (place.work / "cache").mkdir(parents=True)
    STATE.chmod(0o711)
    place.owned(place.work, place.work / "cache")
    yield place
    shutil.rmtree(place.work)
    STATE.chmod(0o700)


@pytest.fixture(scope="module")
def kernel(containers: Containers) -> Path:
    """Build the kernel outside, and the root filesystem that its boots need."""
    assert main(["build", BUILD, "-o", str(containers.work / "kernel")]) == 0
    rootfs = images.image(boards.board("virt-arm64").rootfs, "arm64").path.parent
    place = containers.work / "cache" / "rootfs"
    shutil.copytree(rootfs, place / rootfs.name)
    containers.owned(place)
    return containers.work / "kernel"


def test_it_is_the_clone_s_wheel(containers: Containers) -> None:
    code, output, _ = containers.run("rtgate", "--version")
    assert (code, output.split()[-1]) == (0, __version__)
    code, output, _ = containers.run("rtgate", "check")
    assert code == 0
    assert f"{SHARE}/boards/virt-arm64.yaml: ok" in output
    assert {line.startswith(SHARE) for line in output.splitlines()} == {True}


def test_a_gate_passes(containers: Containers, kernel: Path) -> None:
    words = ("--kernel", f"/here/{kernel.name}", "-k", "idle", "-o", "report")
    read_only = ("--volume", f"{kernel}:/here/{kernel.name}:ro")
    code, output, _ = containers.run("rtgate", "gate", "--board", "virt-arm64", *words, options=read_only)
    assert code == 0
    assert "PASS   latency/cyclictest:idle" in output
    report = containers.work / "report"
    assert json.loads((report / "verdict.json").read_text())["outcome"] == "PASS"
    assert (report / "verdict.json").stat().st_uid == USER
    assert "every limit was kept" in (report / "summary.html").read_text()


def test_a_build_is_the_machine_s(containers: Containers, tmp_path: Path) -> None:
    (containers.work / "small.yaml").write_text(SMALL)
    assert main(["build", str(containers.work / "small.yaml"), "-o", str(tmp_path / "built")]) == 0
    # Links to files that the containers' user cannot change, as a copy of 2 GB takes long; without what others build.
    sources = containers.work / "cache" / "sources"
    ours = shutil.ignore_patterns("lock", f"{BUILD_DIRECTORY_PREFIX}*", *TEMPORARY)
    shutil.copytree(site.cache() / "sources", sources, copy_function=os.link, symlinks=True, ignore=ours)
    containers.owned(sources, *(path for path in sources.iterdir() if path.is_dir()))
    code, _, _ = containers.run("rtgate", "build", "small.yaml", "-o", "built", "--quiet")
    assert code == 0
    theirs, ours = (json.loads((path / "built" / "build.json").read_text()) for path in (containers.work, tmp_path))
    assert theirs["artefacts"]["image"]["sha256"] == ours["artefacts"]["image"]["sha256"]


def test_a_job_is_rendered_and_submitted(lab: Lab, containers: Containers, kernel: Path) -> None:
    case = ("--suite", "scheduling", "--profile", "functional")
    words = ("--board", "lab-virt-arm64", "--kernel", f"/here/{kernel.name}", *case)
    code, _, _ = containers.run(
        "rtgate", "render", *words, "--artefacts-url", "https://builds.example.org", "-o", "job"
    )
    assert code == 0
    assert strict_yaml.data((containers.work / "job" / "job.yaml").read_text())["device_type"] == "lab-virt-arm64"
    token = containers.work / "token"
    shutil.copyfile(lab.token_file, token)
    token.chmod(0o600)
    containers.owned(token)
    options = ("--env", f"RTGATE_LAVA_URL={lab.url}", "--env", "RTGATE_LAVA_TOKEN_FILE=/here/token")
    code, _, errors = containers.run(
        "rtgate", "submit", *words, "--wait", "-o", "submitted", network="host", options=options
    )
    assert code in {0, 5}  # 5: nothing was judged, as the lab's boards run on the time of this machine
    assert f"{lab.url}/scheduler/job/" in errors
    verdicts = json.loads((containers.work / "submitted" / "verdict.json").read_text())["verdicts"]
    assert {one["case"].partition("/")[0] for one in verdicts} == {"scheduling"}
    assert {one["status"] for one in verdicts} <= {"PASS", "DONE"}
