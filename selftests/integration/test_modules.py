# SPDX-License-Identifier: MIT
"""Our kernel modules are built for real, and the one that QEMU can try is tried."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rtgate.console import faults
from rtgate.kernel.modules import information

from .conftest import boot_plan, rtgate

ROOT = {"rtgate_msi_count", "rtgate_elbi_send", "rtgate_pcie_bar"}
ENDPOINT = {"rtgate_elbi_count", "rtgate_msi_send"}  # found in a device tree


@pytest.mark.parametrize(
    ("build", "fixture", "names"),
    [
        ("virt-arm64-preempt_rt", "kernel", ENDPOINT),  # it has no PCI
        ("virt-arm64-pcie", "pcie_kernel", ROOT | ENDPOINT),
        pytest.param(
            "virt-x86_64-pcie",
            "x86_64_pcie_kernel",
            ROOT,
            marks=pytest.mark.long("another kernel is built, minutes without a cache; arm64 is the same question"),
        ),
    ],
)
def test_the_modules_belong_to_their_kernel(
    build: str, fixture: str, names: set[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kernel: Path = request.getfixturevalue(fixture)
    modules = tmp_path / "modules"
    assert rtgate("modules", build, "-o", modules).returncode == 0
    told = json.loads((kernel / "build.json").read_text())
    made = json.loads((modules / "modules.json").read_text())
    assert (made["kernel"], made["toolchain"]) == (told["inputs"], told["toolchain"])
    assert {path.stem for path in modules.glob("*.ko")} == names
    for name in names:
        found = information(modules / f"{name}.ko")
        assert found["license"] == "GPL"
        assert found["vermagic"].split()[0] == told["release"]
        assert {"SMP", "preempt_rt", "mod_unload"} <= set(found["vermagic"].split())


@pytest.mark.skipif(shutil.which("modinfo") is None, reason="kmod is not installed")
def test_modinfo_reads_the_same(pcie_kernel: Path, tmp_path: Path) -> None:
    assert pcie_kernel.is_dir()
    assert rtgate("modules", "virt-arm64-pcie", "-o", tmp_path / "modules").returncode == 0
    for path in (tmp_path / "modules").glob("*.ko"):
        for field in ("name", "license", "description", "depends", "vermagic"):
            value = information(path)[field]
            told = subprocess.run(["modinfo", "-F", field, path], capture_output=True, text=True, check=True)
            assert told.stdout.split("\n")[0] == value


PLAN = """
put() { insmod /rtgate/$1.ko $2; echo "put $1 $2: $?"; }
put rtgate_msi_send cpu=0
put rtgate_elbi_count
put rtgate_elbi_send
put rtgate_elbi_send cpu=0
put rtgate_msi_count
put rtgate_msi_count "$nvme vector=99"
put rtgate_msi_count "$nvme vector=1"
came() { grep nvme0q1 /proc/interrupts | tr -s ' ' | cut -d ' ' -f 3; }
before=$(came)
dd if=/dev/nvme0n1 of=/dev/null bs=4096 count=1000 iflag=direct 2>/dev/null
sleep 2.5
echo "came: $(($(came) - before))"
echo 0000:01:00.0 >/sys/bus/pci/drivers/nvme/unbind
rmmod rtgate_msi_count
echo "removed: $?"
put rtgate_msi_count "$nvme vector=1"
echo 0000:01:00.0 >/sys/bus/pci/drivers/nvme/bind
sleep 1
put rtgate_msi_count "$nvme vector=1"
echo 1 >/sys/bus/pci/devices/0000:01:00.0/remove
rmmod rtgate_msi_count
echo "removed: $?"
"""


def test_msis_are_counted_beside_a_driver_that_may_go(pcie_kernel: Path, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    assert rtgate("modules", "virt-arm64-pcie", "-o", modules).returncode == 0
    files = {f"rtgate/{path.name}": path.read_bytes() for path in modules.glob("*.ko")}
    log = boot_plan(pcie_kernel, tmp_path, f"nvme='vendor=0x1b36 device=0x10'\n{PLAN}", "nvme", files=files)
    put = dict(re.findall(r"^put (.*): ([0-9]+)$", log, re.MULTILINE))
    nvme = "rtgate_msi_count vendor=0x1b36 device=0x10 vector"
    assert put.pop(f"{nvme}=1") == "0"  # with a driver, again after one
    assert "0" not in put.values()
    for reason in (
        "rtgate_msi_send: no PCIe controller in endpoint mode",
        "rtgate_elbi_count: no PCIe controller in endpoint mode",
        "rtgate_elbi_send: cpu=-1: name an online CPU",
        "rtgate_elbi_send: no PCI function 1d87:356a",
        "rtgate_msi_count: 0000:01:00.0 has no vector 99",
        "rtgate_msi_count: 0000:01:00.0 has no MSI: bind its driver",
    ):
        assert reason in log
    came = re.search(r"^came: ([0-9]+)$", log, re.MULTILINE)
    counted = re.findall(r"rtgate_msi_count: msi count=([0-9]+) [0-9]+us \+[0-9]+ in [0-9]+ns$", log, re.MULTILINE)
    assert came is not None
    assert int(came[1]) >= 1000
    assert came[1] in counted
    # Unbound, and then pulled out: the counter goes first, and nothing breaks.
    assert log.count("the driver of 0000:01:00.0 goes: counting ends") == 2
    assert log.count("removed: 0") == 2
    assert not faults.scan(log)


def test_a_module_that_needs_what_the_kernel_does_not_export_is_refused(kernel: Path, tmp_path: Path) -> None:
    assert kernel.is_dir()
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "Kbuild").write_text("obj-m += lost.o\n")
    (sources / "lost.c").write_text(
        "#include <linux/module.h>\nvoid rtgate_no_such_symbol(void);\nint init_module(void);\n"
        "int init_module(void) { rtgate_no_such_symbol(); return 0; }\n"
        'MODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("x");\n'
    )
    done = rtgate("modules", "virt-arm64-preempt_rt", "--modules", sources, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "rtgate_no_such_symbol" in done.stderr
    assert not (tmp_path / "out").exists()
