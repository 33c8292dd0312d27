# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import tarfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from selftests.unit.kernel.test_device_tree import OVERLAY, TREE, compiled, real, value

from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.kernel.artefacts import KernelBuild
from rtgate.measure.case import Case
from rtgate.tools import Tool
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.pcie_bar import PcieBar
from rtgate.tools.xenomai import XenomaiLatency
from rtgate.workflow import job_files
from rtgate.workflow.job_files import FileTransfer, NamedFiles, Source, publish, rootfs, source, store

BOARD = "rk3568-evb1"
IMAGE = bytes(56) + b"ARM\x64" + bytes(8)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "Image").write_bytes(IMAGE)
    (tmp_path / "ramdisk.cpio.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "a.dtb").write_bytes(b"\xd0\x0d\xfe\xed")
    return tmp_path / "kernel"


def made(kernel: Path, flavour: str | None = None, **more: object) -> Source:
    """Return what a kernel without a configuration boots, said to be mainline; or one that has a configuration."""
    more.setdefault("dtb", str(kernel.parent / "a.dtb"))
    if not (kernel / "config").exists():
        more = {"family": "mainline", **more}
    named = NamedFiles(kernel=str(kernel), ramdisk=str(kernel.parent / "ramdisk.cpio.gz"), **more)  # type: ignore[arg-type]
    with ExitStack() as stack:
        return source(boards.board(BOARD), named, flavour, stack)


def test_a_directory(kernel: Path) -> None:
    found = made(kernel)
    beside = {name: str(kernel.parent / path) for name, path in (("ramdisk", "ramdisk.cpio.gz"), ("dtb", "a.dtb"))}
    assert found.files == {"kernel": str(kernel / "Image"), **beside}
    assert (found.family, found.local, found.kernel.provenance) == ("mainline", True, "unknown")


@pytest.mark.parametrize(
    ("name", "flavour", "tool", "load", "image"),
    [
        (BOARD, "preempt_rt", Cyclictest(), "idle", "core"),
        (BOARD, "preempt_rt", PcieBar(), "idle", "full"),
        (BOARD, "preempt_rt", Cyclictest(), "fio", "full"),
        (BOARD, "preempt_rt", Cyclictest(), "fio-read", "full"),
        (BOARD, "xenomai", XenomaiLatency(), "idle", "xenomai"),
        (BOARD, "preempt_rt", XenomaiLatency(), "idle", "core"),
        (BOARD, "xenomai", PcieBar(), "idle", "full"),
        ("virt-arm64-xenomai", "xenomai", PcieBar(), "idle", "xenomai"),
    ],
)
def test_the_image_has_the_programs_of_all_cases(name: str, flavour: str, tool: Tool, load: str, image: str) -> None:
    case = Case(suite="pcie", tool=tool, load=load)
    assert (
        rootfs(boards.board(name), [Case(suite="latency", tool=Cyclictest(), load="hackbench"), case], flavour) == image
    )


def test_the_vendors_kernel_is_known_by_its_configuration(kernel: Path) -> None:
    (kernel / "config").write_text("CONFIG_FIQ_DEBUGGER=y\n")
    assert made(kernel).family == "bsp"


def test_the_configuration_is_believed_rather_than_the_command_line(kernel: Path) -> None:
    (kernel / "config").write_text("CONFIG_FIQ_DEBUGGER=y\n")
    assert made(kernel, family="bsp").family == "bsp"
    with pytest.raises(ConfigError, match=r"--family mainline: by its configuration .* is of the family bsp"):
        made(kernel, family="mainline")


@pytest.mark.parametrize("where", ["https://h/bsp/Image", "kernel"])
def test_a_kernel_of_which_nothing_tells_the_family_is_not_taken_for_one(kernel: Path, where: str) -> None:
    ramdisk = str(kernel.parent / "ramdisk.cpio.gz")
    named = NamedFiles(kernel=where if "://" in where else str(kernel), ramdisk=ramdisk, dtb="https://h/a.dtb")
    with ExitStack() as stack:
        with pytest.raises(ConfigError, match=r"rk3568-evb1 is ttyFIQ0 \(bsp\) or ttyS2 \(mainline\): .* --family"):
            source(boards.board(BOARD), named, None, stack)
        for family in ("bsp", "mainline"):
            assert source(boards.board(BOARD), replace(named, family=family), None, stack).family == family


def test_where_all_consoles_are_called_alike_no_family_is_needed() -> None:
    with ExitStack() as stack:
        named = NamedFiles(kernel="https://h/Image", ramdisk="https://h/r.gz", dtb="https://h/a.dtb")
        assert source(boards.board("lab-virt-arm64"), named, None, stack).family == "mainline"


def test_a_kernel_for_another_architecture(kernel: Path) -> None:
    (kernel / "Image").unlink()
    (kernel / "bzImage").write_bytes(bytes(0x202) + b"HdrS" + bytes(100))
    with pytest.raises(ConfigError, match="is a kernel for x86_64, rk3568-evb1 is arm64"):
        made(kernel)


def test_urls_are_taken_as_they_are() -> None:
    with ExitStack() as stack:
        named = NamedFiles(
            kernel="https://h/a/Image", ramdisk="https://h/r.gz", dtb="https://h/a.dtb", family="mainline"
        )
        found = source(boards.board(BOARD), named, "generic", stack)
    assert (found.local, found.kernel.name, found.kernel.flavour) == (False, "Image", "generic")


@pytest.mark.parametrize("what", ["dtb", "modules", "nfsroot"])
def test_a_file_that_is_not_there(kernel: Path, what: str) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        made(kernel, **{what: "/nowhere/x"})


@real
def test_overlays_are_applied_before_anything_is_published(kernel: Path, tmp_path: Path) -> None:
    tree = compiled(tmp_path / "board.dtb", TREE, "-@")
    overlay = compiled(tmp_path / "uart.dtbo", OVERLAY, "-@")
    named = NamedFiles(
        kernel=str(kernel),
        ramdisk=str(tmp_path / "ramdisk.cpio.gz"),
        dtb=str(tree),
        overlays=(str(overlay),),
        family="mainline",
    )
    with ExitStack() as stack:
        found = source(boards.board(BOARD), named, None, stack)
        files = publish({"candidate": found}, store(FileTransfer(server="http://127.0.0.1:1"), stack))["candidate"]
        assert files.dtb is not None
        (tmp_path / "served.dtb").write_bytes(requests.get(files.dtb, timeout=5).content)
    assert files.dtb.endswith("/board.dtb")
    assert value(tmp_path / "served.dtb", "/serial@1", "status") == "okay"
    assert not Path(found.files["dtb"]).exists()


@pytest.mark.parametrize(
    ("dtb", "overlay", "told"),
    [
        (None, "x.dtbo", r"boots with rockchip/rk3568-evb1-v10\.dtb, and .* has no device trees"),
        ("https://h/a.dtb", "x.dtbo", r"https://h/a\.dtb must be a file of this machine"),
        ("kernel/Image", "https://h/x.dtbo", r"https://h/x\.dtbo must be a file of this machine"),
        ("kernel/Image", "none.dtbo", r"none\.dtbo: no such file"),
    ],
)
def test_overlays_that_cannot_be_applied(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, dtb: str | None, overlay: str, told: str
) -> None:
    monkeypatch.chdir(kernel.parent)
    Path("x.dtbo").touch()
    with pytest.raises(ConfigError, match=told):
        made(kernel, dtb=dtb, overlays=(overlay,))


def test_overlays_where_no_device_tree_is_used(tmp_path: Path) -> None:
    named = NamedFiles(kernel="https://h/bzImage", ramdisk="https://h/r.gz", overlays=("x.dtbo",))
    with ExitStack() as stack, pytest.raises(ConfigError, match="has no use for a device tree"):
        source(boards.board("nuc-j3455"), named, None, stack)


def archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return path


def test_the_boards_device_tree_comes_from_the_build(kernel: Path, tmp_path: Path) -> None:
    dtb = "rockchip/rk3568-evb1-v10.dtb"
    found = job_files._unpack(archive(tmp_path / "dtbs.tar.xz", "dtbs/rockchip/x.dtb", f"dtbs/{dtb}"), dtb, tmp_path)
    assert (found.name, found.read_text()) == ("rk3568-evb1-v10.dtb", f"dtbs/{dtb}")
    with pytest.raises(ConfigError, match=r"has no rockchip/other\.dtb"):
        job_files._unpack(tmp_path / "dtbs.tar.xz", "rockchip/other.dtb", tmp_path)
    (tmp_path / "broken.tar.xz").write_bytes(b"no archive")
    with pytest.raises(ConfigError, match="cannot be read"):
        job_files._unpack(tmp_path / "broken.tar.xz", dtb, tmp_path)


@pytest.mark.parametrize(
    ("family", "where", "told"),
    [
        ("mainline", "", r"boots with rockchip/rk3568-evb1-v10\.dtb, and .*kernel has no device trees: .* --dtb"),
        ("bsp", "", r"boots with rockchip/rk3568-evb1-ddr4-v10-linux\.dtb, and .*`targets: \[kernel, dtbs\]`"),
        ("mainline", "https://h/Image", r"rk3568-evb1-v10\.dtb: give its URL beside the kernel's, by --dtb"),
    ],
)
def test_a_kernel_without_the_device_tree_that_its_board_boots_with_is_refused(
    kernel: Path, family: str, where: str, told: str
) -> None:
    """A board would boot it, and say nothing; the kernel would be blamed."""
    ramdisk = str(kernel.parent / "ramdisk.cpio.gz")
    named = NamedFiles(kernel=where or str(kernel), ramdisk=ramdisk, family=family)
    with ExitStack() as stack, pytest.raises(ConfigError, match=told):
        source(boards.board(BOARD), named, None, stack)


def test_a_board_that_promises_no_device_tree_needs_none(kernel: Path) -> None:
    named = NamedFiles(kernel=str(kernel), ramdisk=str(kernel.parent / "ramdisk.cpio.gz"))
    with ExitStack() as stack:
        assert "dtb" not in source(boards.board("lab-virt-arm64"), named, None, stack).files


def test_what_a_build_brings_is_used_where_the_way_of_booting_wants_it(kernel: Path, tmp_path: Path) -> None:
    dtbs = archive(tmp_path / "dtbs.tar.xz", "dtbs/rockchip/rk3568-evb1-v10.dtb")
    build = KernelBuild(
        directory=kernel, image=kernel / "Image", image_sha256="", provenance="rtgate", dtbs=dtbs, modules=dtbs
    )
    with ExitStack() as stack:
        found = job_files._of_build(boards.board(BOARD), build, "mainline", {"dtb", "modules"}, stack)
        assert Path(found["dtb"]).name == "rk3568-evb1-v10.dtb"
        assert found["modules"] == str(dtbs)
        assert job_files._of_build(boards.board(BOARD), build, "mainline", {"kernel"}, stack) == {}
    assert not Path(found["dtb"]).exists()


def test_a_kernel_that_was_replaced_since_it_was_looked_at_is_not_published(kernel: Path) -> None:
    found = made(kernel)
    (kernel / "Image").write_bytes(IMAGE + b"another")
    with ExitStack() as stack, pytest.raises(ConfigError, match="Image changed since rtgate looked at it"):
        publish({"candidate": found}, store(FileTransfer(server="http://127.0.0.1:1"), stack))


def test_publishing_equal_files_once(kernel: Path) -> None:
    sources = {"baseline": made(kernel), "candidate": made(kernel)}
    with ExitStack() as stack:
        found = publish(sources, store(FileTransfer(server="http://127.0.0.1:1"), stack))
        assert found["baseline"] == found["candidate"]
        assert requests.get(found["candidate"].kernel, timeout=5).content == IMAGE
    with pytest.raises(requests.ConnectionError):
        requests.get(found["candidate"].kernel, timeout=1)
