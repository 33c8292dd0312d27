# SPDX-License-Identifier: MIT
"""PCI Express for real: links of QEMU's devices, errors that QEMU injects, devices that are pulled out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from selftests.integration.conftest import ROOT
from selftests.integration.live_board import LiveBoard, failures, live_board

from rtgate.board import boards
from rtgate.measure.profiles import profile
from rtgate.records.record import read
from rtgate.target.qemu import Monitor
from rtgate.tools import Expected, Setting
from rtgate.tools.pcie_link import PcieLink
from rtgate.tools.threads import ThreadScope

NVME, PORT = "0000:01:00.0", "0000:00:08.0"
BOARDS = {"virt-arm64": "pcie_kernel", "virt-x86_64": "x86_64_pcie_kernel"}  # with their kernels


def measured(
    board: str, kernel: Path, records: Path, *tests: str, site: Path | None = None
) -> tuple[int, list[dict[str, Any]]]:
    """Run tests of suites; return pytest's exit code and the verdicts."""
    words = ["--board", board, "--kernel", kernel, "--seeds", "1", "--records", records]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, **({"RTGATE_SITE": str(site)} if site else {})},
    )
    print(done.stdout, done.stderr, sep="\n")
    (verdict,) = records.parent.rglob("verdict.json")
    return done.returncode, json.loads(verdict.read_text())["verdicts"]


# What a virtual board has no device for, an endpoint on either side of a link, and what this kernel has no driver for.
ABSENT = {"dmatest", "dmatest-rkep", "msi-rate", "elbi-rate", "pci_endpoint_test", "pcitest", "pcie-bar-kernel"}
LOADS = {"idle", "stress-ng", "cyclictest"}
# What must have been moved, by case; each figure is above nothing.
TRAFFIC = {
    "pcie/pcie-bar:idle": ("store32.rate", "store128.rate", "load64.rate", "memcpy_fromio.rate"),
    "pcie/pcie-bar-wc:idle": ("store32.rate", "store128.rate", "load64.rate", "memcpy_fromio.rate"),
    "pcie/edu-dma:idle": ("transfers", "bytes"),
    "pcie/edu-msi:idle": ("interrupts", "latency.max"),
    "pcie/edu-msi:hackbench": ("interrupts", "latency.max"),
    "pcie/cyclictest:edu-dma": ("latency.max", "edu-dma.transfers"),
    "nvme/fio-read:idle": ("bandwidth", "iops"),
    "nvme/fio-write:idle": ("bandwidth", "iops"),
    "nvme/fio-randread:idle": ("bandwidth", "completion.p99"),
    "nvme/fio-randwrite:idle": ("bandwidth", "completion.p99"),
    "nvme/cyclictest:fio-write": ("latency.max", "fio-write.bandwidth"),
    "nvme/cyclictest:fio-randread": ("latency.max", "fio-randread.iops"),
}


_X86 = pytest.mark.long("another kernel is built, minutes without a cache; arm64 is the same question")


@pytest.mark.parametrize(
    ("board", "kernel_of"),
    [pytest.param(board, kernel, marks=_X86 if board == "virt-x86_64" else ()) for board, kernel in BOARDS.items()],
)
def test_every_case_runs_for_real(board: str, kernel_of: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kernel = request.getfixturevalue(kernel_of)
    code, verdicts = measured(board, kernel, tmp_path / "records", "tests/pcie", "tests/nvme")
    assert code == 0
    links = [verdict for verdict in verdicts if verdict["case"] == "pcie/pcie-link:idle"]
    assert {verdict["status"] for verdict in links} == {"PASS"}
    judged = {verdict["measurement"] for verdict in links}
    assert judged >= {"function.present", "port.present", "link.generation", "link.width", "payload.size"}

    stored = (read(path.parent) for path in (tmp_path / "records").rglob("record.json"))
    records = {record.case: record for record in stored}
    skipped = {case for case, record in records.items() if record.state == "skipped"}
    absent = ABSENT | ({"pcie-bar-wc"} if board == "virt-x86_64" else set())  # built without CONFIG_X86_PAT
    assert {name for case in skipped for name in re.split("[/:]", case)[1:]} - LOADS == absent
    assert all(absent & set(re.split("[/:]", case)) for case in skipped)
    assert {record.state for case, record in records.items() if case not in skipped} == {"measured"}
    traffic = {case: names for case, names in TRAFFIC.items() if not absent & set(re.split("[/:]", case))}
    assert set(records) - skipped == {"pcie/pcie-link:idle", *traffic}
    for case, names in traffic.items():
        figures = {one.name: one.quantity.value for one in records[case].measurements if one.quantity}
        assert all(figures[name] > 0 for name in names), case
        # Nothing was wrong, lost or broken; a failure would have been FAIL as well.
        assert not any(figures[name] for name in figures if name.endswith((".wrong", "interrupts.lost", "io.errors")))


def test_a_link_that_trained_lower_and_a_device_that_is_missing_fail(pcie_kernel: Path, tmp_path: Path) -> None:
    text = (ROOT / "boards" / "virt-arm64.yaml").read_text()
    assert "generation: 1, width: 1" in text
    text = text.replace("generation: 1, width: 1", "generation: 3, width: 4")
    text = text.replace('address: 0000:00:09.0, id: "1234:11e8"', 'address: 0000:00:1f.0, id: "1234:11e8"')
    (tmp_path / "site" / "boards").mkdir(parents=True)
    (tmp_path / "site" / "boards" / "better.yaml").write_text(text)
    code, verdicts = measured(
        "better", pcie_kernel, tmp_path / "records", "tests/pcie/test_link.py", site=tmp_path / "site"
    )
    assert code == 1
    failed = [verdict["sentence"] for verdict in verdicts if verdict["status"] == "FAIL"]
    assert any(
        "link.generation was 1 on" in one and "less than 3 (the board's file, pcie: nvme" in one for one in failed
    )
    assert any("link.width was 1 on" in one and "less than 4 (" in one for one in failed)
    assert any("function.present was 0 on function edu seen nothing there" in one for one in failed)
    assert len(failed) == 3


# --- a live board whose devices QEMU handles while it measures


@pytest.fixture(params=["virt-arm64"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveBoard]:
    board = boards.board(request.param)
    image = request.getfixturevalue(BOARDS[board.name]) / ("Image" if board.arch == "arm64" else "bzImage")
    with live_board(board, image, tmp_path, profile=profile("smoke")) as found:
        yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting(PcieLink):
    """Lets QEMU's root port report its errors: SERR# Enable in Command (0x04) and in Bridge Control (0x3e)."""

    name: ClassVar[str] = "reporting"

    def argv(self, setting: Setting) -> tuple[str, ...]:
        write = f"dd of=/sys/bus/pci/devices/{PORT}/config bs=1 conv=notrunc 2>/dev/null"
        enable = f"printf '\\001' | {write} seek=5; printf '\\002' | {write} seek=62"
        return ("sh", "-c", f"{enable}; {PcieLink.argv(self, setting)[-1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover(PcieLink):
    """Removes the NVMe in the middle of its run, as who looks at /sys may do."""

    name: ClassVar[str] = "remover"

    def argv(self, setting: Setting) -> tuple[str, ...]:
        return (
            "sh",
            "-c",
            f"sleep 1; echo 1 >/sys/bus/pci/devices/{NVME}/remove; sleep 1; {PcieLink.argv(self, setting)[-1]}",
        )

    def expected(self, setting: Setting) -> Expected:
        return Expected(threads=(), duration_s=2, seen=ThreadScope.SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled(PcieLink):
    """Switches the slot's power off in the middle of its run: QEMU takes a device that it was asked for at once.

    6.12 PREEMPT_RT does not come to do that by itself: after `Button press: will power off in 5 sec` nothing follows.
    """

    name: ClassVar[str] = "pulled"

    def argv(self, setting: Setting) -> tuple[str, ...]:
        # Slot Control (0x6c): Power Controller Control and the power indicator off.
        off = f"printf '\\361\\007' | dd of=/sys/bus/pci/devices/{PORT}/config bs=2 seek=54 conv=notrunc 2>/dev/null"
        return ("sh", "-c", f"(sleep 8; {off}) & {PcieLink.argv(self, setting)[-1]}")


@pytest.mark.long("five measurements on host time; a link and a device that are not as they should be are in make test")
def test_what_happens_to_devices_during_a_test_fails_it_and_the_board_goes_on(live: LiveBoard) -> None:
    quick = PcieLink(seconds=1)
    before = live.measure(quick)
    assert (before.state, before.message, failures(before)) == ("measured", "", [])

    def inject(monitor: Monitor) -> None:
        line = "pcie_aer_inject_error rp1 COMP_TIME"  # QEMU 7.2 reports no correctable one
        print(monitor.ask("human-monitor-command", **{"command-line": line}))

    injected = live.measure(Reporting(seconds=8), inject)
    assert (injected.state, injected.message) == ("measured", "")
    faults = injected.faults
    assert [fault.kind for fault in faults] == ["aer"]
    assert "1 new nonfatal AER errors of the port of nvme (0000:00:08.0) (CmpltTO 1)" in faults[0].line
    # What happened in an earlier test is not this one's.
    later = live.measure(quick)
    assert (later.state, failures(later)) == ("measured", [])

    began = time.monotonic()
    unplugged = live.measure(Pulled(seconds=12), lambda monitor: monitor.ask("device_del", id="nvme1"))
    assert time.monotonic() - began < 60
    assert unplugged.state == "measured"
    assert any("function.present was 0 on function nvme seen gone 12 s later" in one for one in failures(unplugged))

    after = live.measure(quick)
    assert after.state == "measured"
    assert any("function.present was 0 on function nvme seen it does not answer" in one for one in failures(after))


@pytest.mark.long("five measurements on host time; a link and a device that are not as they should be are in make test")
def test_a_device_that_the_target_removes_fails_the_test(live: LiveBoard) -> None:
    found = live.measure(Remover())
    assert found.state == "measured"
    assert "nvme (0000:01:00.0) was there before the test and gone after it" in [one.line for one in found.faults]
    assert live.measure(PcieLink(seconds=1)).state == "measured"
