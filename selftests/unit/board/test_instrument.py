# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import site
from rtgate.board import boards
from rtgate.board.instrument import Instrument, read
from rtgate.errors import ConfigError
from rtgate.strict_yaml import parse

GOOD = "port: /dev/ttyS4, pulse: 'gpio3:12', answer: 'gpio3:13'"


def _read(text: str, *, virtual: bool = False) -> Instrument:
    value = parse(f"instrument: {{{text}}}\n", Path("board.yaml")).entries()["instrument"].value
    return read(value, virtual=virtual, consoles={"ttyS2"})


def test_an_instrument_is_a_port_and_two_lines() -> None:
    assert _read(GOOD) == Instrument(port="/dev/ttyS4", pulse="gpio3:12", answer="gpio3:13")
    # What /dev/serial has, and the label of a chip of ACPI's.
    found = _read("port: /dev/serial/by-id/usb-1a86_USB-if00, pulse: 'INT3452:00:12', answer: 'INT3452:01:3'")
    assert (found.pulse, found.answer) == ("INT3452:00:12", "INT3452:01:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port: /dev/ttyS4, pulse: 'gpio3:12'", "board.yaml:1:13: missing key 'answer'"),
        (GOOD + ", baud: 9600", "unknown key 'baud'"),
        (GOOD.replace("/dev/ttyS4", "ttyS4"), "board.yaml:1:20: 'ttyS4' is not a serial port of the board"),
        (GOOD.replace("/dev/ttyS4", "'/dev/tty S4'"), "is not a serial port"),
        (GOOD.replace("/dev/ttyS4", "'/dev/x;reboot'"), "is not a serial port"),
        (GOOD.replace("ttyS4", "ttyS2"), "board.yaml:1:20: /dev/ttyS2 is the board's own console: wire"),
        (GOOD.replace("gpio3:12", "12"), "'12' is not a GPIO line .*as gpio3:12"),
        (GOOD.replace("gpio3:12", "gpio3:"), "is not a GPIO line"),
        (GOOD.replace("gpio3:12", "gpio 3:12"), "is not a GPIO line"),
        (GOOD.replace("gpio3:12", f"{'g' * 41}:12"), "is not a GPIO line"),
        (GOOD.replace("gpio3:13", "gpio3:12"), "gpio3:12 is the pulse's line, too"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _read(text)


def test_a_virtual_machine_has_no_wires() -> None:
    with pytest.raises(ConfigError, match=r"board\.yaml:1:13: a virtual machine has no wires to an instrument"):
        _read(GOOD, virtual=True)


def test_a_board_s_file_may_name_one(tmp_path: Path) -> None:
    shipped = (site.shipped_directory() / "boards" / "rk3568-evb1.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(f"{shipped}instrument: {{{GOOD}}}\n")
    assert boards.read(tmp_path / "mine.yaml").instrument == _read(GOOD)
    assert boards.board("rk3568-evb1").instrument is None


@pytest.mark.parametrize("device", ["ttyS2", "ttyFIQ0"])
def test_an_instrument_is_not_the_board_s_console(device: str, tmp_path: Path) -> None:
    """By either name: the vendor's kernel has another one for the same UART."""
    shipped = (site.shipped_directory() / "boards" / "rk3568-evb1.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(f"{shipped}instrument: {{{GOOD.replace('ttyS4', device)}}}\n")
    with pytest.raises(ConfigError, match=f"/dev/{device} is the board's own console"):
        boards.read(tmp_path / "mine.yaml")
