# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import site
from rtgate.board import boards, pcie
from rtgate.board.pcie import Function
from rtgate.errors import ConfigError
from rtgate.strict_yaml import parse

GOOD = """\
nvme: {address: 0000:01:00.0, id: 144d:a808, port: 0000:00:00.0, generation: 3, width: 4,
  mps: 256, mrrs: 512, aspm: off, aer: both}
edu: {id: 1234:11e8}
"""


def read(text: str) -> dict[str, Function]:
    return pcie.read(parse(text, Path("b.yaml")))


def test_functions_are_read() -> None:
    nvme, edu = read(GOOD).values()
    assert nvme == Function(
        name="nvme",
        address="0000:01:00.0",
        id="144d:a808",
        port="0000:00:00.0",
        generation=3,
        width=4,
        mps=256,
        mrrs=512,
        aspm="off",
        aer="both",
    )
    assert edu == Function(name="edu", id="1234:11e8")
    assert (nvme.locator, edu.locator) == ("0000:01:00.0", "1234:11e8")


# To YAML the first is a number of base 60, the second false, the third a whole number of base 60.
@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("f: {address: 0001:10:05.7}", "address", "0001:10:05.7"),
        ("f: {id: 10ec:8125, aspm: off}", "aspm", "off"),
        ("f: {id: 1987:5013}", "id", "1987:5013"),
    ],
)
def test_what_yaml_takes_for_something_else_is_text(text: str, name: str, value: str) -> None:
    assert getattr(read(text)["f"], name) == value


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        (
            "address: 0000:01:00.0",
            "address: 01:00.0",
            "1:17",
            "'01:00.0' is not an address of a function (allowed: as 0000",
        ),
        ("address: 0000:01:00.0", "address: 0000:01:00.8", "1:17", "'0000:01:00.8' is not an address"),
        ("address: 0000:01:00.0", "address: 0000:01:20.0", "1:17", "'0000:01:20.0' is not an address"),
        ("address: 0000:01:00.0", "address: [1]", "1:17", "expected text, found a list"),
        (
            "id: 144d:a808",
            "id: 144D:A808",
            "1:35",
            "'144D:A808' is not a vendor:device (allowed: for example 144d:a808)",
        ),
        ("port: 0000:00:00.0", "port: rc", "1:52", "'rc' is not an address of a port"),
        ("generation: 3", "generation: 0", "1:78", "0 is out of range (allowed: 1, 2, 3, 4, 5, 6)"),
        ("width: 4", "width: 3", "1:88", "3 is out of range (allowed: 1, 2, 4, 8, 12, 16, 32)"),
        ("mps: 256", "mps: 200", "2:8", "200 is out of range (allowed: 128, 256, 512, 1024, 2048, 4096)"),
        ("mrrs: 512", "mrrs: many", "2:19", "expected a whole number, found text"),
        ("aspm: off", "aspm: l2", "2:30", "unknown value 'l2' (allowed: off, l0s, l1, l0s l1)"),
        ("aer: both", "aer: yes", "2:40", "unknown value 'yes' (allowed: port, function, both)"),
        ("edu: {id: 1234:11e8}", "edu: {width: 4}", "3:6", "edu needs an address (0000:01:00.0), or an id"),
        ("edu: {id: 1234:11e8}", "edu: {id: }", "3:11", "expected text, found nothing"),
        ("edu: {id", "edu: {speed: 3, id", "3:7", "unknown key 'speed' (allowed: address, aer, "),
        ("edu:", "all:", "3:1", "'all' is not a name of a device (allowed: small letters"),
        ("edu:", "E du:", "3:1", "'E du' is not a name of a device"),
        ("edu:", "nvme:", "3:1", "duplicate key 'nvme' (first at line 1)"),
    ],
)
def test_mistakes_are_told_with_their_place(before: str, after: str, place: str, message: str) -> None:
    assert before in GOOD
    with pytest.raises(ConfigError) as caught:
        read(GOOD.replace(before, after, 1))
    assert str(caught.value).startswith(f"b.yaml:{place}: {message}")


def test_functions_are_chosen_by_name_or_all() -> None:
    found = read(GOOD)
    assert set(pcie.select_functions(found, ("edu", "other"))) == {"edu"}
    assert set(pcie.select_functions(found, (pcie.ALL,))) == {"nvme", "edu"}
    assert pcie.select_functions(found, ()) == {}


@pytest.mark.parametrize("name", [name for name in site.names("boards") if boards.board(name).virtual])
def test_a_virtual_board_expects_what_its_machine_may_have(name: str) -> None:
    board = boards.board(name)
    assert board.qemu is not None
    # A timer for suite irq, not a function that pcie-link expects in every boot with devices.
    assert set(board.pcie) == set(board.qemu.devices) - {"rtl8139"}
