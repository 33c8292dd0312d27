# SPDX-License-Identifier: MIT
"""What pcie-bar and pcie-edu do when a device fails them, on a real kernel: one boot in which everything goes wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.integration.conftest import boot_plan

from rtgate.rootfs import images

ENDPOINT, EDU = "0000:00:0a.0", "0000:00:09.0"

# Each step is a name and a command; what it printed and its exit code stand between marks on the console. MSI is
# switched off behind VFIO's back by the capability's Message Control register, which a device answers with silence.
STEPS = {
    "bar": f"pcie-bar --seconds=0.02 {ENDPOINT}",
    "no such bar": f"pcie-bar --bar=5 {ENDPOINT}",
    "no such device": "pcie-bar 0000:00:1e.0",
    "bar too small": f"pcie-bar --length=32M {ENDPOINT}",
    "not prefetchable": f"pcie-bar --bar=0 --write-combining {ENDPOINT}",
    "bar removed": f"""pcie-bar --seconds=30 {ENDPOINT} &
        sleep 0.5; echo 1 >/sys/bus/pci/devices/{ENDPOINT}/remove; wait $!""",
    "bar again": f"echo 1 >/sys/bus/pci/rescan; pcie-bar --seconds=0.02 {ENDPOINT}",
    "no edu": f"pcie-edu dma {ENDPOINT}",
    "too much": f"pcie-edu dma --sizes=4096 {EDU}",
    "dma": f"pcie-edu dma {EDU}",
    "msi": f"pcie-edu msi --interrupts=200 {EDU}",
    "given back": f"ls -d /sys/bus/pci/devices/{EDU}/driver; cat /sys/bus/pci/devices/{EDU}/driver_override",
    "msi lost": f"""pcie-edu msi --interrupts=100000 {EDU} &
        sleep 0.5
        at=$(($(od -An -tu1 -j52 -N1 /sys/bus/pci/devices/{EDU}/config) + 2))
        printf '\\200\\000' | dd of=/sys/bus/pci/devices/{EDU}/config bs=1 seek=$at conv=notrunc 2>/dev/null
        cut -d ' ' -f 1 /proc/uptime; wait $!; code=$?; cut -d ' ' -f 1 /proc/uptime; (exit $code)""",
    "edu removed": f"""pcie-edu msi --interrupts=100000 {EDU} &
        sleep 0.5; echo 1 >/sys/bus/pci/devices/{EDU}/remove; wait $!""",
    "dma again": f"echo 1 >/sys/bus/pci/rescan; pcie-edu dma {EDU}",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What a step printed, and what it ended with."""

    text: str
    code: int


def _steps(console: str) -> dict[str, Step]:
    found = re.findall(r"^=== (.*)\n((?:.*\n)*?)--- (\d+)$", console, re.MULTILINE)
    return {name: Step(text, int(code)) for name, text, code in found}


@pytest.fixture(scope="module")
def steps(pcie_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Step]:
    script = "echo 1 >/proc/sys/kernel/printk\n" + "".join(
        f"echo '=== {name}'\n( {command} ) 2>&1\necho \"--- $?\"\n" for name, command in STEPS.items()
    )
    directory = tmp_path_factory.mktemp("boot")
    root = images.image("full", "arm64").archive
    found = _steps(boot_plan(pcie_kernel, directory, script, "edu", "endpoint", root=root, seed=1))
    assert list(found) == list(STEPS)
    return found


@pytest.mark.parametrize("name", ["bar", "bar again", "dma", "msi", "dma again"])
def test_good_devices_are_measured_also_after_bad_ones(steps: dict[str, Step], name: str) -> None:
    assert steps[name].code == 0, steps[name].text
    assert '"program": "pcie-' in steps[name].text


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no such bar", 4, f"pcie-bar: {ENDPOINT} has no BAR 5\n"),
        ("no such device", 3, "pcie-bar: there is no PCI device 0000:00:1e.0\n"),
        ("bar too small", 5, f"pcie-bar: BAR 2 of {ENDPOINT} has 16777216 bytes: 33554432 at offset 0 do not fit\n"),
        ("not prefetchable", 4, f"pcie-bar: BAR 0 of {ENDPOINT} is not prefetchable"),
        ("bar removed", 8, f"pcie-bar: {ENDPOINT} is gone: its configuration space does not answer any more\n"),
        ("no edu", 3, f"pcie-edu: {ENDPOINT} is 1af4:1110, no edu (1234:11e8)\n"),
        ("too much", 2, "pcie-edu: --sizes 4096: expected a number from 1 to 4088"),
        ("msi lost", 10, "did not come within 1 s"),
        ("edu removed", 8, f"pcie-edu: {EDU} is being removed: the kernel wants it back\n"),
    ],
)
def test_what_goes_wrong_is_one_sentence(steps: dict[str, Step], name: str, code: int, message: str) -> None:
    assert steps[name].code == code, steps[name].text
    assert message in steps[name].text
    assert steps[name].text.count("pcie-bar: ") + steps[name].text.count("pcie-edu: ") == 1


def test_the_device_is_given_back(steps: dict[str, Step]) -> None:
    assert "driver: No such file" in steps["given back"].text
    assert "(null)" in steps["given back"].text


def test_a_lost_interrupt_is_told_within_seconds(steps: dict[str, Step]) -> None:
    before, after = (float(line) for line in re.findall(r"^([0-9]+\.[0-9]+)$", steps["msi lost"].text, re.MULTILINE))
    assert after - before < 2
