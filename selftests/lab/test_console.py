# SPDX-License-Identifier: MIT
"""A console with much output while LAVA and a program in its container are both attached to it.

An emulated serial port takes three minutes for 50 MB, so ordinary runs have less: ser2net stalls after 2.3 MB.
RTGATE_LAB_FLOOD_MIB=50 has all of it; selftests/integration/test_hub.py has 50 MB without a board.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.lab.jobs import boot, deploy, in_container, job
from selftests.lab.lab import PORT, ROOT, STATE, Lab

pytestmark = pytest.mark.long("megabytes over a serial line")

BOARD = "lab-virt-arm64"
MIB = int(os.environ.get("RTGATE_LAB_FLOOD_MIB", "4"))
# LAVA keeps its own connection and reads 2000 bytes of it every 10 s meanwhile.
FLOOD = """
import os, pexpect, time

console = pexpect.spawn("/bin/sh", ["-c", os.environ["LAVA_CONNECTION_COMMAND"]], timeout=30, maxread=1 << 20)
console.delaybeforesend = None
console.sendline("")
console.expect_exact("target# ")
lines = {mib} * (1 << 20) // 64
program = "BEGIN{{for(i=0;i<%d;i++)printf \\"%%062d\\\\n\\",i; print \\"THE\\" \\"END\\"}}" % lines
console.sendline("stty -echo; awk '%s'" % program)
console.expect_exact("\\n")
began, longest, last = time.monotonic(), 0.0, time.monotonic()
data = bytearray(console.buffer)  # what came with the echo
while b"THEEND" not in data[-200:]:
    data += console.read_nonblocking(1 << 20, timeout=30)
    longest, last = max(longest, time.monotonic() - last), time.monotonic()
seconds = time.monotonic() - began
found = [line.strip() for line in bytes(data).replace(b"\\r", b"").split(b"\\n")]
numbers = [int(line) for line in found if len(line) == 62 and line.isdigit()]
whole = numbers == list(range(lines))
console.sendline("stty echo")
for name, value, unit in (("bytes", len(data), "bytes"), ("seconds", seconds, "s"), ("longest_pause", longest, "s")):
    print("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=%s RESULT=pass UNITS=%s MEASUREMENT=%.3f>" % (name, unit, value))
print("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=whole RESULT=%s>" % ("pass" if whole else "fail"))
"""


def flooded(lab: Lab, files: dict[str, Path]) -> None:
    """Have the board print much, and check that a reader beside LAVA gets all of it in time."""
    flood = in_container(FLOOD.format(mib=MIB), seconds=400)
    number = lab.submit(job(BOARD, deploy(files, BOARD), boot(BOARD), flood))
    done = lab.wait(number, 600)
    assert done["health"] == "Complete", lab.log(number)[-20:]
    results = lab.results(number)
    measured = {name.partition("/")[2]: float(one["measurement"] or 0) for name, one in results.items()}
    print(measured)
    assert results["0_p/whole"]["result"] == "pass"
    assert measured["bytes"] >= MIB << 20
    assert measured["longest_pause"] < 5


def test_much_output_does_not_stall_although_lava_reads_little(lab: Lab, files: dict[str, Path]) -> None:
    flooded(lab, files)
    # LAVA's own client is the one that lost something, and the hub says so.
    log = (STATE / "log" / "lab-virt-arm64-01.console").read_text(errors="replace")
    assert "does not read; what is older than" in log


@pytest.fixture
def serial_line(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """Put a serial port, ser2net and a hub behind it in the place of the board's own hub; yield the hub's log."""
    if shutil.which("ser2net") is None or shutil.which("socat") is None:
        pytest.skip("Debian's packages ser2net and socat are not installed")
    device, log, board = tmp_path / "ttyS7", tmp_path / "hub.log", f"{BOARD}-01"
    port, raw, telnet = (int(PORT) + offset for offset in (90, 12, 11))
    (tmp_path / "ser2net.yaml").write_text(SER2NET.format(port=port, device=device))
    hub = ["--telnet", str(telnet), "--raw", str(raw), "--log", str(log)]
    programs = (
        ["socat", f"PTY,link={device},rawer", f"UNIX-CONNECT:{STATE}/run/{board}.console"],
        ["ser2net", "-n", "-u", "-c", str(tmp_path / "ser2net.yaml")],
        [sys.executable, "-m", "rtgate.cli.hub", f"tcp:127.0.0.1:{port}", *hub],
    )
    lab.service("stop", f"hub-{board}")
    children = []
    try:
        for argv in programs:
            children.append(subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}))
            time.sleep(1)
            assert children[-1].poll() is None, argv
        yield log
        assert [child.poll() for child in children] == [None] * 3
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait(timeout=20)
        lab.service("start", f"hub-{board}")


# As docs/how-to/share-a-console.md has it.
SER2NET = """\
connection: &board1
  accepter: tcp,127.0.0.1,{port}
  connector: serialdev,{device},1500000n81,local
"""


def test_a_serial_port_behind_ser2net_and_a_hub(lab: Lab, files: dict[str, Path], serial_line: Path) -> None:
    """The port is a pseudo-terminal: it has no baud rate to get wrong, and loses nothing."""
    flooded(lab, files)
    assert "target# " in serial_line.read_text(errors="replace")
