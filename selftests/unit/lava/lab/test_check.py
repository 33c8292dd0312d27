# SPDX-License-Identifier: MIT
from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from rtgate.board import boards
from rtgate.lava.job import template
from rtgate.lava.job.definition import Transport
from rtgate.lava.lab import check
from rtgate.lava.lab.check import Finding, missing

OLD, SINGLE, NEW = (2023, 1), (2025, 2), (2026, 1)
# What a device of the type rk3568-evb1 looks like when LAVA has rendered it, as far as it matters here.
DICTIONARY: dict[str, Any] = {
    "commands": {
        "connections": {"uart0": {"connect": "telnet 127.0.0.1 7001", "tags": ["primary", "telnet"]}},
        "hard_reset": "board-power reset",
        "power_on": "board-power on",
        "power_off": ["board-power off", "sleep 1"],
    },
    "actions": {
        "deploy": {"methods": {"tftp": None}},
        "boot": {
            "methods": {
                "u-boot": {
                    "parameters": {"bootloader_prompt": "=>"},
                    "ramdisk": {"commands": ["setenv bootargs 'console=ttyS2,1500000n8 root=/dev/ram0'", "booti"]},
                },
                "minimal": None,
            }
        },
        "test": {"methods": {"docker": {"options": ["--network=host"]}}},
    },
}


def found(version: tuple[int, int] = OLD, board: str = "rk3568-evb1", **changes: Any) -> tuple[Finding, ...]:
    one = boards.board(board)
    assert one.lava is not None
    dictionary = deepcopy(DICTIONARY)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = dictionary
        for key in parents:
            place = place[key.replace("_dash_", "-")]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return check.device(one, template.find(one.lava.boot), version, dictionary)


def test_a_good_device_lacks_nothing() -> None:
    assert found() == ()


@pytest.mark.parametrize(
    ("changes", "ways", "text"),
    [
        ({"commands__connections": None}, {"docker"}, "a test gets no console"),
        ({"commands__connections": {"uart0": {"connect": "x", "tags": ["telnet"]}}}, {"docker"}, "tagged 'primary'"),
        ({"commands__connections": {"uart0": {"connect": "x"}}}, {"docker"}, "tagged 'primary'"),
        ({"actions__test": None}, {"docker"}, "telnet connects to the worker itself"),
        ({"commands__power_on": True}, {"docker"}, "power_on is True and no text"),
        ({"commands__power_off": ["x", False]}, {"docker"}, "power_off is False and no text"),
        (
            {"actions__boot__methods": {"minimal": None}},
            {"docker", "board"},
            "cannot boot by u-boot (its device type has: ",
        ),
        (
            {"actions__boot__methods": {"u-boot": {"nfs": {}}}},
            {"docker", "board"},
            "no u-boot commands named 'ramdisk'",
        ),
        ({"actions__deploy__methods": {"ssh": None}}, {"docker", "board"}, "cannot deploy to tftp"),
        ({"actions": None}, {"docker", "board"}, "(its device type has: none)"),
    ],
)
def test_what_is_missing_is_told_for_the_ways_that_need_it(changes: dict[str, Any], ways: set[str], text: str) -> None:
    findings = found(**changes)
    assert any(text in finding.text and set(finding.ways) == ways for finding in findings), findings
    for way in ways:
        assert any(text in one for one in missing(findings, Transport(way)))
    if ways == {"docker"}:
        assert missing(findings, Transport.BOARD) == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"commands__hard_reset": None}, "a kernel that hangs needs a person"),
        (
            {"actions__boot__methods": {"u-boot": {"ramdisk": {"commands": ["console=ttyS9,115200n8"]}}}},
            "its console is ttyS9, the board's is ttyFIQ0 or ttyS2",
        ),
        (
            {"actions__boot__methods": {"u-boot": {"ramdisk": {"commands": ["console=ttyS2,115200n8"]}}}},
            "its console runs at 115200 baud, the board's at 1500000",
        ),
    ],
)
def test_what_an_administrator_should_know_stops_nothing(changes: dict[str, Any], text: str) -> None:
    findings = found(**changes)
    assert [finding.text for finding in findings if not finding.ways and text in finding.text]
    assert not missing(findings, Transport.DOCKER)
    assert not missing(findings, Transport.BOARD)


def test_a_single_connection_command_does_for_newer_servers_only() -> None:
    changes: dict[str, Any] = {"commands__connections": None, "commands__connect": "telnet lab 2001"}
    assert missing(found(OLD, **changes), Transport.DOCKER)
    assert not missing(found(SINGLE, **changes), Transport.DOCKER)


@pytest.mark.parametrize(
    ("tags", "version", "works"),
    [
        (["primary"], OLD, True),
        (["primary"], NEW, False),
        (["primary", "shell"], NEW, True),
        (["primary", "ssh"], NEW, True),
    ],
)
def test_newer_servers_must_know_how_to_let_go_of_a_console(
    tags: list[str], version: tuple[int, int], works: bool
) -> None:
    """`DisconnectDevice` refuses the job else, before anything boots."""
    connection = {"uart0": {"connect": "telnet 127.0.0.1 7001", "tags": tags}}
    findings = found(version, commands__connections=connection)
    assert ("LAVA cannot let go of its console, uart0" in "".join(missing(findings, Transport.DOCKER))) is not works
    assert not missing(findings, Transport.BOARD)


def test_newer_servers_want_tags_of_each_connection() -> None:
    connections = {
        "uart0": {"connect": "telnet 127.0.0.1 7001", "tags": ["primary", "shell"]},
        "uart1": {"connect": "telnet 127.0.0.1 7002"},
    }
    (text,) = missing(found(NEW, commands__connections=connections), Transport.DOCKER)
    assert text.startswith("LAVA's worker fails at its connection uart1, which has no connection_tags")


def test_a_console_on_another_machine_needs_no_network_of_the_worker() -> None:
    connection = {"uart0": {"connect": "telnet lab-serial 2001", "tags": ["primary"]}}
    assert not missing(found(commands__connections=connection, actions__test=None), Transport.DOCKER)


def test_android_s_root_filesystem_takes_no_test_shell_of_lava() -> None:
    methods = {"fastboot": ["boot"]}
    findings = found(
        board="rk3568-evb1-android",
        actions__boot__methods=methods,
        actions__deploy__methods={"fastboot": None},
    )
    assert missing(findings, Transport.BOARD) == (
        "LAVA cannot add its test shell to this root filesystem: measure by docker",
    )
    assert not missing(findings, Transport.DOCKER)


@pytest.mark.parametrize("dictionary", [{}, {"commands": None}, {"actions": []}, {"actions": {"boot": "x"}}])
def test_a_dictionary_of_another_shape_lacks_everything(dictionary: dict[str, Any]) -> None:
    one = boards.board("rk3568-evb1")
    findings = check.device(one, template.find("uboot-ramdisk"), OLD, dictionary)
    assert missing(findings, Transport.DOCKER)
    assert missing(findings, Transport.BOARD)


@pytest.mark.parametrize(
    ("version", "text"),
    [((2022, 12), "older than any"), (OLD, "put `rtgate hub` in front"), (NEW, "no hub is needed")],
)
def test_a_server_s_release_says_what_a_console_needs(version: tuple[int, int], text: str) -> None:
    assert [finding for finding in check.server(version) if text in finding.text]
