# SPDX-License-Identifier: MIT
"""The kernel's own accesses to a BAR, for real: what the driver measures and refuses, and a device that is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from selftests.integration.conftest import boot_plan
from selftests.integration.test_pcie import measured

from rtgate.console import faults
from rtgate.records.record import read
from rtgate.tools.pcie_bar import KERNEL_OPERATIONS

pytestmark = pytest.mark.long("two kernels of their own, minutes without a cache")

TAKEN = {"address", "ids", "bind", "forced", "kept"}
REFUSED = {
    *("too early", "words", "nothing", "days", "overflow", "nowhere", "text", "long", "slot", "behind", "strange"),
    *("vendor", "driver", "removed", "nothing left", "gone"),
}
ENDPOINT, BAR_BYTES = "0000:00:0a.0", 16 << 20
PLAN = """
file=/dev/rtgate_pcie_bar
endpoint=/sys/bus/pci/devices/0000:00:0a.0
# try NAME TEXT: write a line, and say whether it was taken.
try() { echo "$2" >$file; echo "$1: $?"; }
cat $file; echo "too early: $?"
try words 0000:00:0a.0
try nothing "0000:00:0a.0 0"
try days "0000:00:0a.0 60000001"
try nowhere "0000:00:1e.0 1000"
try text "endpoint 1000"
try long "0000:00:0a.0 1000 $(seq -s ' ' 100)"
try slot "0000:00:2a.0 1000"
try behind "0000:00:0a.0y 1000"
try strange "0000:00:0a.0 1000 forced"
try vendor "1af4:ffffffff 1000"
try overflow "0000:00:0a.0 18446744073709552616"
echo "before: $(cat $endpoint/enable)"
try address "0000:00:0a.0 1000"
cat $file
try ids "1af4:1110 1000"
echo "after: $(cat $endpoint/enable)"
echo vfio-pci >$endpoint/driver_override
echo 0000:00:0a.0 >/sys/bus/pci/drivers/vfio-pci/bind; echo "bind: $?"
before=$(cat $endpoint/enable)
try driver "0000:00:0a.0 1000"
try forced "0000:00:0a.0 1000 force"
cat $file
[ $before = $(cat $endpoint/enable) ]; echo "kept: $?"
echo 0000:00:0a.0 >/sys/bus/pci/drivers/vfio-pci/unbind
(sleep 1; echo 1 >$endpoint/remove) &
try removed "0000:00:0a.0 2000000"
wait
cat $file; echo "nothing left: $?"
try gone "1af4:1110 1000"
"""


def _results(log: str) -> list[dict[str, Any]]:
    """Return each JSON that was printed."""
    return [json.loads(text) for text in re.findall(r'^\{"program".*?^\}\n\}$', log, re.MULTILINE | re.DOTALL)]


def test_the_driver_measures_refuses_and_outlives_the_device(bar_kernel: Path, tmp_path: Path) -> None:
    log = boot_plan(bar_kernel, tmp_path, PLAN, "endpoint")
    said = dict(re.findall(r"^([a-z ]+): ([0-9]+)$", log, re.MULTILINE))
    # It is disabled again, as it was found.
    assert (said.pop("before"), said.pop("after")) == ("0", "0")
    assert {name for name, code in said.items() if code == "0"} == TAKEN
    assert {name for name, code in said.items() if code == "1"} == REFUSED
    assert "rtgate_pcie_bar: stores would disturb the driver vfio-pci: unbind it, or say force" in log
    # The second beside a driver that nobody uses: it puts its function to sleep, which would answer with ones.
    results = _results(log)
    assert len(results) == 2
    for result in results:
        place = result["device"], result["bar"], result["bar_bytes"], result["length"]
        assert place == (ENDPOINT, 2, BAR_BYTES, 1 << 20)
        assert tuple(run["operation"] for run in result["run"].values()) == KERNEL_OPERATIONS
        for run in result["run"].values():
            assert run["wrong"] == 0
            assert run["ns"] >= 1_000_000
            assert run["bytes"] % (1 << 20) == 0 < run["bytes"]
    assert not faults.scan(log)


@pytest.mark.parametrize(("board", "kernel_of"), [("virt-arm64", "bar_kernel"), ("virt-x86_64", "x86_64_bar_kernel")])
def test_a_case_on_virtual_time(board: str, kernel_of: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kernel = request.getfixturevalue(kernel_of)
    code, verdicts = measured(board, kernel, tmp_path / "records", "tests/pcie/test_bar.py", "-k", "kernel")
    assert code == 0
    assert {verdict["status"] for verdict in verdicts} == {"PASS"}
    (record,) = [read(path.parent) for path in (tmp_path / "records").rglob("record.json")]
    rates = {one.name: one.quantity.value for one in record.measurements if one.quantity}
    # A copy of 64 bits takes fewer instructions for a byte than single words.
    assert rates["memcpy_fromio.rate"] > rates["load32.rate"] > 0
