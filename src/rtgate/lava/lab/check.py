# SPDX-License-Identifier: MIT
"""What a lab supports: a device's dictionary, as its LAVA server renders it, against what rtgate's jobs need.

Pure: the facts come in, findings go out. There are two ways to measure (`Transport`): `docker`, pytest in a
container on the worker, and `board`, LAVA's test shell on the board itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rtgate.board.boards import Board
from rtgate.lava.job.definition import DISCONNECT, Transport, console_device
from rtgate.lava.job.template import Template

TESTED = (2023, 1)  # the oldest server that rtgate is tested with
SINGLE = (2025, 2)  # from here a test also gets the console of a dictionary with a single `connection_command`
_LOCAL = re.compile(r"\b(?:localhost|127\.0\.0\.1|::1)\b")
_RELEASABLE = {"telnet", "ssh", "shell"}  # lava_dispatcher/connections/serial.py, DisconnectDevice
_POWER = ("hard_reset", "power_on", "power_off")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a lab lacks, or that its administrator should know.

    Attributes:
        ways: which of them do not work because of it; empty for a remark.
        text: one sentence, with what to do.
    """

    ways: tuple[Transport, ...]
    text: str


def missing(findings: tuple[Finding, ...], way: Transport) -> tuple[str, ...]:
    """Return what a way of measuring lacks; empty if it works."""
    return tuple(finding.text for finding in findings if way in finding.ways)


def server(version: tuple[int, int]) -> tuple[Finding, ...]:
    """Return what a server's release means."""
    release = f"{version[0]}.{version[1]:02}"
    if version < TESTED:
        return (Finding((), f"LAVA {release} is older than any that rtgate is tested with (2023.01)"),)
    if version >= DISCONNECT:
        return (Finding((), f"LAVA {release} can let go of a console during a test: no hub is needed"),)
    return (
        Finding(
            (), f"LAVA {release} holds on to a console that it hardly reads: put `rtgate hub` in front of each line"
        ),
    )


def device(
    board: Board, template: Template, version: tuple[int, int], dictionary: Mapping[str, Any]
) -> tuple[Finding, ...]:
    """Return what one device of a lab lacks for this board's jobs."""
    commands = _mapping(dictionary, "commands")
    return (
        *_boots(template, dictionary),
        *_console(board, dictionary),
        *_connection(version, commands, dictionary),
        *_power(commands),
    )


def _boots(template: Template, dictionary: Mapping[str, Any]) -> Iterator[Finding]:
    """Find what the way of booting lacks."""
    boot, deploy = template.boot(_ANY), template.deploy(_ANY)
    method, target = str(boot["method"]), str(deploy["to"])
    methods = _mapping(dictionary, "actions", "boot", "methods")
    if method not in methods:
        names = ", ".join(sorted(methods)) or "none"
        yield Finding(tuple(Transport), f"it cannot boot by {method} (its device type has: {names})")
    elif isinstance(boot.get("commands"), str) and boot["commands"] not in _mapping(methods, method):
        yield Finding(tuple(Transport), f"its device type has no {method} commands named {boot['commands']!r}")
    if target not in _mapping(dictionary, "actions", "deploy", "methods"):
        yield Finding(tuple(Transport), f"it cannot deploy to {target}")
    if template.why_no_test_shell:
        yield Finding((Transport.BOARD,), template.why_no_test_shell)


def _console(board: Board, dictionary: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the console that the boot loader's commands name with the board's."""
    consoles = sorted(set(re.findall(r"console=(tty\w+),?([0-9]*)", _text(_mapping(dictionary, "actions", "boot")))))
    families = (board.lava.consoles or {"": board.console.device}) if board.lava else {}
    device_names = {console_device(board, family) for family in families}
    for device_name, baud in consoles:
        if device_name not in device_names:
            yield Finding((), f"its console is {device_name}, the board's is {' or '.join(sorted(device_names))}")
        if baud and int(baud) != board.console.baud:
            yield Finding((), f"its console runs at {baud} baud, the board's at {board.console.baud}")


def _connection(
    version: tuple[int, int], commands: Mapping[str, Any], dictionary: Mapping[str, Any]
) -> Iterator[Finding]:
    """Find what a test in a container lacks to reach the console."""
    connections = _mapping(commands, "connections")
    primary = [name for name in connections if "primary" in (_mapping(connections, name).get("tags") or ())]
    connect = str(_mapping(connections, primary[0]).get("connect", "")) if primary else ""
    if not connect and version >= SINGLE:
        connect = str(commands.get("connect") or "")
    if not connect:
        yield Finding(
            (Transport.DOCKER,),
            "a test gets no console: the device's dictionary needs connection_list, connection_commands and "
            "connection_tags, one connection tagged 'primary'",
        )
        return
    yield from _release(version, connections, primary)
    options = _mapping(dictionary, "actions", "test", "methods", "docker").get("options") or []
    if _LOCAL.search(connect) and not any("host" in str(option) for option in options):
        yield Finding(
            (Transport.DOCKER,),
            f"{_program(connect)} connects to the worker itself, which a container does not reach: the device type "
            "needs --network=host (actions, test, methods, docker, options)",
        )


def _release(version: tuple[int, int], connections: Mapping[str, Any], primary: list[str]) -> Iterator[Finding]:
    """Find what keeps LAVA from letting go of the console, which rtgate's jobs ask of servers that can."""
    if version < DISCONNECT or not primary:
        return
    for name in connections:
        if "tags" not in _mapping(connections, name):
            yield Finding(
                (Transport.DOCKER,), f"LAVA's worker fails at its connection {name}, which has no connection_tags"
            )
    tags = _mapping(connections, primary[0]).get("tags") or ()
    if not _RELEASABLE & set(tags):
        yield Finding(
            (Transport.DOCKER,),
            f"LAVA cannot let go of its console, {primary[0]}: beside 'primary' its connection_tags need 'shell' (or "
            "'telnet', 'ssh': what its command is)",
        )


def _power(commands: Mapping[str, Any]) -> Iterator[Finding]:
    for name in _POWER:
        command = commands.get(name)
        if not command:
            continue
        for entry in command if isinstance(command, list) else [command]:
            if not isinstance(entry, str):
                yield Finding(
                    (Transport.DOCKER,),
                    f"{name} is {entry!r} and no text, which breaks LAVA's test action: write /bin/{entry}",
                )
    if not commands.get("hard_reset"):
        yield Finding((), "there is no hard_reset command: a kernel that hangs needs a person")


def _program(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return "its connection command"


class _Any(dict[str, object]):
    """Values for every placeholder of a template: only its fixed parts are looked at."""

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, _: str) -> str:
        return "x"


_ANY = _Any()


def _mapping(data: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path, empty where there is none; LAVA has `method:` with nothing below it."""
    for key in path:
        entry = data.get(key)
        data = entry if isinstance(entry, Mapping) else {}
    return data


def _text(data: Any) -> str:
    """Return all texts within data, one a line."""
    if isinstance(data, Mapping):
        return "\n".join(_text(value) for value in data.values())
    if isinstance(data, list):
        return "\n".join(map(_text, data))
    return str(data)
