# SPDX-License-Identifier: MIT
"""The instrument's firmware, built for its MCU and booted on an emulated one that is like it.

QEMU's `stm32vldiscovery` has a Cortex-M3 and the UART at the same address, less memory, and neither clocks nor timers.
So the firmware starts and speaks, finds no crystal, and its selftest must fail.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selftests.commands.test_irq_instrument import play_driver

from rtgate.board.instrument import Instrument
from rtgate.errors import ParseError
from rtgate.files import cksum
from rtgate.tools import Output, Setting
from rtgate.tools.irq_instrument import BUCKETS, DRIVER, RAW, IrqInstrumentHard

FIRMWARE = Path(__file__).resolve().parents[2] / "target" / "instrument"
COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
CAPTURED = FIRMWARE.parents[1] / "selftests" / "data" / "irq" / "instrument-1" / "qemu-7.2-stm32vldiscovery.out"
COMMANDS = ("id", "status", "hello", "start 10 1000", "start 0 1000", "start 4294967296 1000", "result", "selftest")

pytestmark = pytest.mark.skipif(
    not shutil.which(COMPILER) or not shutil.which(EMULATOR), reason=f"{COMPILER} or {EMULATOR} is not installed"
)


def _build(output: Path, *variables: str) -> Path:
    command = ["make", "-C", str(FIRMWARE), f"O={output}", *variables]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return output / "instrument.elf"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the firmware for an MCU with 8 kB of RAM, as the emulated one has."""
    return _build(tmp_path_factory.mktemp("firmware"), "BUCKETS=1000", "RAM=8192")


@contextmanager
def _boot(firmware: Path, serial: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [EMULATOR, "-M", "stm32vldiscovery", "-display", "none", "-monitor", "none", "-kernel", firmware]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "-serial", serial], **pipes) as machine:  # type: ignore[call-overload]
        try:
            yield machine
        finally:
            machine.kill()


def _read(machine: subprocess.Popen[bytes]) -> bytes:
    """Return the next line that the machine says."""
    assert machine.stdout is not None
    line, deadline = b"", time.monotonic() + 30
    while not line.endswith(b"\n"):
        assert time.monotonic() < deadline, line
        if select.select([machine.stdout], [], [], 1)[0]:
            line += os.read(machine.stdout.fileno(), 1)
    return line


def test_the_firmware_fits_into_its_mcu(tmp_path: Path) -> None:
    firmware = _build(tmp_path)
    sizes = subprocess.run(["arm-none-eabi-size", firmware], capture_output=True, text=True, check=True).stdout
    text, data, bss, *_ = map(int, sizes.splitlines()[1].split()[:3])
    assert text + data < 64 * 1024
    assert 4 * BUCKETS < data + bss < 20 * 1024 - 1024  # and a stack
    # The vectors: the stack's top, and an address in the flash with the bit of Thumb.
    image = (tmp_path / "instrument.bin").read_bytes()
    assert int.from_bytes(image[:4], "little") == 0x20000000 + 20 * 1024
    assert int.from_bytes(image[4:8], "little") & 0xFF000001 == 0x08000001


def test_it_announces_itself_and_refuses_what_it_cannot_do(small: Path) -> None:
    with _boot(small, "stdio") as machine:
        said = _read(machine)
        assert machine.stdin is not None
        for command in COMMANDS:
            machine.stdin.write(f"{command}\n".encode())
            machine.stdin.flush()
            said += _read(machine)
    lines = said.decode().splitlines()
    assert all(line.rpartition(" ")[2] == str(cksum(f"{line.rpartition(' ')[0]}\n".encode())) for line in lines)
    assert [line.rpartition(" ")[0] for line in lines] == [
        "reset rtgate-instrument 1 clock=internal ticks_per_s=12000000 buckets=1000",
        "id rtgate-instrument 1 clock=internal ticks_per_s=12000000 buckets=1000",
        "status idle pulses=0 of=0",
        "error unknown command (id, status, start, stop, result, selftest)",
        "error the crystal does not run",
        *["error start takes PULSES PERIOD_US, 1 or more and 100 to 5000"] * 2,
        "error there is no result",
        "selftest fail pulses=0 answers=0 min=0 max=0",
    ]
    assert said == CAPTURED.read_bytes()


def test_the_command_meets_the_real_firmware(small: Path, tmp_path: Path) -> None:
    with _boot(small, "pty") as machine, play_driver(0) as (driver, _):
        match = re.search(rb"/dev/pts/[0-9]+", _read(machine))
        assert match is not None
        wires = Instrument(port=match[0].decode(), pulse="gpio3:12", answer="gpio3:13")
        setting = Setting(cpus=4, duration_s=1, virtual_time=False, instrument=wires)
        shell, option, script = IrqInstrumentHard().argv(setting)
        command = [shell, option, script.replace(DRIVER, str(driver))]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    files = {"tool.out": done.stdout, "tool.err": done.stderr, RAW: (tmp_path / RAW).read_bytes()}
    assert b"\nselftest fail pulses=0" in files[RAW]
    with pytest.raises(ParseError, match="sent no line selftest pass: selftest fail pulses=0"):
        IrqInstrumentHard().parse(Output(files=files, exit_code=done.returncode, setting=setting))
