# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import artefacts
from rtgate.kernel.artefacts import sha256
from rtgate.rootfs import images as rootfs
from rtgate.rootfs.images import RootfsImage
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.target.power import PowerCycle, PowerCycledTarget
from rtgate.target.virtual import VirtualBoard
from rtgate.tools.loads import Load
from rtgate.workflow.arms import ArmRequest, identity, make_arms

if TYPE_CHECKING:
    from selftests.unit.cli.conftest import Lab


def _request(
    kernels: dict[str, Path],
    board: str = "virt-arm64",
    console: str | None = None,
    flavour: str | None = None,
    profile: str = "smoke",
    power_cycle: str | None = None,
) -> ArmRequest:
    return ArmRequest(
        board=board, kernels=kernels, profile=profile, console=console, flavour=flavour, power_cycle=power_cycle
    )


def test_a_virtual_board_runs_on_virtual_time(lab: Lab) -> None:
    stop = threading.Event()
    (arm,) = make_arms(_request({"candidate": lab.kernel}), stop)
    assert (arm.name, arm.board.name, arm.time, arm.profile.name) == ("candidate", "virt-arm64", "virtual", "smoke")
    assert isinstance(arm.target, VirtualBoard)
    assert arm.target.image.name == "Image"
    (lab.kernel / "Image").write_bytes(b"another kernel")  # the run has its own
    assert (arm.kernel.image_sha256, arm.target.image_sha256) == (sha256(arm.target.image),) * 2
    assert arm.target.image.stat().st_mode & 0o222 == 0
    assert arm.target.stop is stop
    assert arm.target.rootfs(_plan()).name == "core"


def _plan(image: str = "core") -> Plan:
    return Plan(case="a/b:idle", argv=("true",), load=Load(name="idle"), seed=1, duration_s=1, image=image)


class Images:
    """Stands in for making root filesystems, and notes which."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, str]] = []
        self._real = rootfs.image("core", "arm64")
        patch.setattr(rootfs, "image", self._image)

    def _image(self, name: str, arch: str, progress: object = None) -> RootfsImage:
        self.made.append((name, arch))
        return replace(self._real, name=name)


@pytest.mark.parametrize("console", [None, "host"])
def test_a_plan_s_image_is_made_when_it_is_needed_and_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, console: str | None
) -> None:
    images, found = Images(monkeypatch), []
    started = LiveTarget.of_qemu

    def noted(
        board: Board,
        image: Path,
        made: Callable[[Plan], RootfsImage],
        stop: threading.Event,
    ) -> LiveTarget:
        found.append(made)
        return started(board, image, made, stop)

    monkeypatch.setattr(LiveTarget, "of_qemu", noted)
    (arm,) = make_arms(_request({"candidate": lab.kernel}, console=console))
    if isinstance(arm.target, VirtualBoard):
        found.append(arm.target.rootfs)
    (of,) = found
    assert images.made == [("core", "arm64")]  # before anything runs: a mistake shows at once
    assert [of(_plan(name)).name for name in ("core", "full", "full", "core")] == ["core", "full", "full", "core"]
    assert images.made == [("core", "arm64"), ("full", "arm64")]


def test_both_arms_share_their_images(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(monkeypatch)
    arms = make_arms(_request({"baseline": lab.kernel, "candidate": lab.kernel}))
    for arm in arms:
        assert isinstance(arm.target, VirtualBoard)
        assert arm.target.rootfs(_plan("full")).name == "full"
    assert images.made == [("core", "arm64"), ("full", "arm64")]


def test_a_kernel_that_says_nothing_must_prove_to_be_real_time(lab: Lab) -> None:
    (arm,) = make_arms(_request({"candidate": lab.kernel}))
    assert (arm.kernel.flavour, arm.kernel.provenance, arm.kernel.source) == ("preempt_rt", "unknown", "unknown")
    assert (arm.kernel.name, arm.kernel.image_sha256) == ("kernel", sha256(lab.kernel / "Image"))
    (arm,) = make_arms(_request({"candidate": lab.kernel}, flavour="generic"))
    assert arm.kernel.flavour == "generic"


@pytest.mark.parametrize(
    ("describe", "dirty", "expected"),
    [
        ("v6.12-1-g9be34d077e1a", False, 'v6.12-1-g9be34d077e1a "sched: faster"'),
        ("v6.12", False, 'v6.12 9be34d077e1a "sched: faster"'),
        ("v6.12", True, 'v6.12 9be34d077e1a "sched: faster" with local changes 0123abcd'),
    ],
)
def test_a_kernel_is_named_by_tag_commit_and_subject(lab: Lab, describe: str, dirty: bool, expected: str) -> None:
    source: dict[str, str | bool] = {
        "kind": "git",
        "version": "6.12.0",
        "commit": "9be34d077e1a" + "0" * 28,
        "describe": describe,
        "subject": "sched: faster",
        "dirty": dirty,
        "fingerprint": "0123abcd" + "0" * 56,
    }
    build = replace(artefacts.load(lab.kernel), source=source)
    assert identity(build, None).source == expected
    assert identity(build, None).commit == ("" if dirty else "9be34d077e1a" + "0" * 28)
    assert identity(replace(build, patches=("rt.patch",)), None).commit == ""
    versions = "aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40"
    assert identity(replace(build, toolchain=versions), None).compiler == "aarch64-linux-gnu-gcc 12"
    assert identity(replace(build, toolchain=None), None).compiler == ""


def test_two_kernels_are_two_arms_that_end_together(lab: Lab) -> None:
    stop = threading.Event()
    made = make_arms(_request({"baseline": lab.kernel, "candidate": lab.kernel}), stop)
    assert [arm.name for arm in made] == ["baseline", "candidate"]
    targets = [arm.target for arm in made]
    assert all(isinstance(target, VirtualBoard) and target.stop is stop for target in targets)


def test_a_virtual_board_may_run_on_host_time(lab: Lab) -> None:
    stop = threading.Event()
    (arm,) = make_arms(_request({"candidate": lab.kernel}, console="host"), stop)
    assert (arm.time, arm.attached) == ("host", False)
    assert isinstance(arm.target, LiveTarget)
    assert arm.target.boots
    assert arm.target.stop is stop
    assert arm.target.machine == {
        "qemu": "QEMU emulator version 0.0 (fake)",
        "qemu_sha256": sha256(lab.kernel.parent / "bin" / "qemu-system-aarch64"),
        "image_sha256": arm.kernel.image_sha256,
    }


def test_a_board_on_host_time_may_be_silent_for_as_long_as_its_file_says(lab: Lab) -> None:
    board = boards.board("virt-arm64")
    patient = replace(board, console=replace(board.console, silence_s=300.0))
    live = LiveTarget.of_qemu(patient, lab.kernel / "Image", lambda _: rootfs.image("core", "arm64"), threading.Event())
    assert (live.waits.hang, live.waits.spare) == (300, 300)


def test_a_console_has_a_kernel_of_its_own(lab: Lab) -> None:
    (arm,) = make_arms(_request({}, console="command:sh"))
    assert (arm.name, arm.kernel.name, arm.kernel.flavour) == ("candidate", "running", "preempt_rt")
    assert isinstance(arm.target, PowerCycledTarget)
    assert not arm.target.live.boots
    assert arm.target.cycle is None
    (arm,) = make_arms(
        _request({"candidate": lab.kernel}, console="command:sh", flavour="generic", power_cycle="socket 3 cycle")
    )
    assert isinstance(arm.target, PowerCycledTarget)
    assert arm.target.cycle == PowerCycle("socket 3 cycle")
    assert (arm.kernel.name, arm.kernel.flavour) == ("kernel", "generic")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"board": "virt-mips"}, r"unknown name 'virt-mips' in boards \(allowed: .*virt-arm64"),
        ({"console": "host", "power_cycle": "true"}, r"--power-cycle is for boards that are attached"),
        ({"profile": "daily"}, r"unknown profile 'daily' \(allowed: .*smoke"),
        ({"flavour": "fast"}, r"unknown flavour 'fast' \(allowed: preempt_rt, "),
        ({"kernels": {}}, "a virtual board needs a kernel: --kernel DIR"),
        ({"kernels": {}, "console": "host"}, "a virtual board needs a kernel"),
        ({"kernels": {"candidate": Path("none")}}, "none holds no kernel build"),
        ({"board": "virt-x86_64"}, "kernel is a kernel for arm64, virt-x86_64 is x86_64"),
        ({"console": "telepathy", "kernels": {}}, "telepathy"),
        ({"console": "lava"}, "--console lava: the job says which kernel it has booted"),
        ({"console": "lava", "kernels": {}, "power_cycle": "true"}, "LAVA turns the board on: leave out"),
        (
            {"console": "command:sh", "kernels": {"baseline": Path("a"), "candidate": Path("b")}},
            "is attached to one running kernel, and a baseline is a second one: leave it out",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], message: str
) -> None:
    (lab.fake.parent / "bin" / "qemu-system-x86_64").symlink_to("qemu-system-aarch64")
    with pytest.raises(ConfigError, match=message):
        make_arms(_request(**{"kernels": {"candidate": lab.kernel}, **changes}))  # type: ignore[arg-type]


HARDWARE = """\
description: a board on a desk
soc: RK3568
arch: arm64
cpus: 4
memory: 4 GiB
console: {device: ttyS2, baud: 1500000}
build: virt-arm64-preempt_rt
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    boards = tmp_path / "site" / "boards"
    boards.mkdir(parents=True)
    (boards / "desk.yaml").write_text(HARDWARE)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    return "desk"


def test_hardware_needs_a_console(lab: Lab, desk: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    with pytest.raises(
        ConfigError, match="say where its console is, for example --console serial:/dev/ttyUSB0:1500000"
    ):
        make_arms(_request({}, board=desk))
    with pytest.raises(ConfigError, match="desk is not a virtual board, --console host starts QEMU"):
        make_arms(_request({}, board=desk, console="host"))
    (arm,) = make_arms(_request({}, board=desk, console="tcp:localhost:1"))
    assert (arm.time, arm.attached, arm.board.cpus) == ("real", True, 4)


@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64-smp2", "lab-virt-arm64"])
def test_a_virtual_board_that_is_attached_measures_host_time(lab: Lab, board: str) -> None:
    """Somebody's QEMU is behind the console, whose host makes wake-ups late: it must not be judged as hardware."""
    (arm,) = make_arms(_request({}, board=board, console="tcp:localhost:1"))
    assert (arm.time, arm.attached) == ("host", True)


def test_a_flavour_that_contradicts_the_build_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    real = replace(artefacts.load(lab.kernel), flavour="preempt_rt", provenance="rtgate")
    monkeypatch.setattr(artefacts, "load", lambda _: real)
    with pytest.raises(ConfigError, match="was built as preempt_rt, --flavour says generic"):
        make_arms(_request({"candidate": lab.kernel}, flavour="generic"))


def test_a_machine_without_qemu(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(InfrastructureError, match="qemu-system-aarch64 is not installed: on Debian, apt install"):
        make_arms(_request({"candidate": lab.kernel}))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"package": "linux-source-6.12", "package_version": "6.12.117-1"}, "linux-source-6.12 6.12.117-1"),
        ({"kind": "git", "describe": "v6.12-1-gdead", "dirty": False}, "v6.12-1-gdead"),
        ({"kind": "git", "describe": "v6.12-1-gdead", "dirty": True}, "v6.12-1-gdead with local changes 01234567"),
        ({"kind": "directory", "version": "6.12.117"}, "directory 6.12.117 01234567"),
    ],
)
def test_a_source_that_no_version_names_has_its_fingerprint(
    lab: Lab, source: dict[str, str | bool], named: str
) -> None:
    built = replace(artefacts.load(lab.kernel), source={**source, "fingerprint": "0123456789abcdef"})
    assert identity(built, None).source == named
