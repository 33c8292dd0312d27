# SPDX-License-Identifier: MIT
"""The set-up of an endpoint that is shipped, on a real kernel whose endpoint controller is a stand-in."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from selftests.integration.conftest import ROOT, boot_plan, build_kernel, site_of_builds

from rtgate.console import faults

pytestmark = pytest.mark.long("a kernel of its own: minutes without a cache")

BUILD = "virt-arm64-endpoint"
DESCRIPTION = """\
arch: arm64
flavour: preempt_rt
base: tinyconfig
fragments: [realtime, preempt_rt, userspace, diagnosis, tracing, loads, pcie, virt-arm64, virt-arm64-pcie, endpoint]
built_in: [controller]
"""
FRAGMENT = """\
CONFIG_CONFIGFS_FS=y
CONFIG_PCI_ENDPOINT=y
CONFIG_PCI_ENDPOINT_CONFIGFS=y
CONFIG_PCI_EPF_TEST=y
"""
PLAN = """\
sh -ex /rtgate/set-up.sh; echo "set up: $?"
controller=/sys/kernel/config/pci_ep/controllers/controller
ls $controller
echo 0 >$controller/start
rm $controller/rtgate
rmdir /sys/kernel/config/pci_ep/functions/pci_epf_test/rtgate
sed '/^ln /d' /rtgate/set-up.sh >/rtgate/unlinked.sh
sh -ex /rtgate/unlinked.sh; echo "unlinked: $?"
umount /sys/kernel/config
mount -t tmpfs none /sys/kernel/config
try() { sh -e /rtgate/set-up.sh 2>&1; echo "failed: $?"; }
cd /sys/kernel/config
try
mkdir -p pci_ep/controllers pci_ep/functions && try
mkdir pci_ep/controllers/first && try
mkdir pci_ep/controllers/second && try
"""


def test_the_shipped_set_up_makes_an_endpoint_and_starts_it(tmp_path: Path) -> None:
    site = site_of_builds(tmp_path / "site", {BUILD: DESCRIPTION}, {"endpoint": FRAGMENT})
    (site / "target" / "modules").mkdir(parents=True)
    shutil.copy(ROOT / "selftests" / "data" / "endpoint" / "controller.c", site / "target" / "modules")
    kernel = build_kernel(tmp_path / "kernel", BUILD, RTGATE_SITE=str(site))
    script = (ROOT / "target" / "endpoint" / "set-up.sh").read_bytes()
    log = boot_plan(kernel, tmp_path, PLAN, "edu", files={"rtgate/set-up.sh": script})
    assert "\nset up: 0\n" in log
    said = [line.partition("controller: ")[2] for line in log.split("\n") if "] controller: " in line]
    bars = [f"BAR {number}, 1048576 bytes" for number in (0, 1, 2, 3, 5)]  # 4 is reserved
    assert said == ["header 1d87:3588", *bars, "32 MSIs", "2048 MSI-X", "started"]
    assert "\nunlinked: 1\n" in log
    reasons = re.findall(r"^set-up: (.*)\nfailed: 1$", log, re.MULTILINE)
    assert [reason.split(":")[0].split(" (")[0] for reason in reasons] == [
        "the kernel makes no endpoint",
        "no controller in endpoint mode",
        "the kernel has no test function",
        "several controllers in endpoint mode",
    ]
    assert not faults.scan(log)
