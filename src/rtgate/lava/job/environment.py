# SPDX-License-Identifier: MIT
"""What a job tells those who run inside it: variables of LAVA's docker test action, and those of rtgate's own job.

LAVA 2023.01 exports `LAVA_CONNECTION_COMMAND` for the connection that is tagged `primary`; servers from 2025.02 also
`LAVA_CONNECT_COMMAND`, from a device's single `connection_command`. Power commands are for `sh -c`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields

from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.results.plain_text import plain_line
from rtgate.records.record import KernelIdentity
from rtgate.target.power import PowerCycle

ARM, BOOT, KERNEL, POWER_CYCLE = "RTGATE_ARM", "RTGATE_BOOT", "RTGATE_KERNEL", "RTGATE_POWER_CYCLE"
_MOST_BOOTS = 10_000


class NoConsoleError(ConfigError):
    """LAVA gives a test no console: whoever keeps the lab must name one in the device's dictionary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InJob:
    """One boot of a job, as seen from inside.

    Attributes:
        console: how to reach the board's console, as the option `--console` has it.
        hard_reset: the command that turns the board off and on, empty where the lab has none.
        job: LAVA's number of the job, empty outside of a server.
        arm: whose kernel was booted.
        boot: which boot of the job this is, from 1.
        kernel: which kernel was booted; None when nobody said.
        power_cycle: whether a board that died may be turned off and on, because it boots the kernel by itself.
    """

    console: str
    hard_reset: str
    job: str
    arm: ArmName
    boot: int
    kernel: KernelIdentity | None
    power_cycle: bool

    @property
    def machine(self) -> dict[str, str]:
        """What the record says about who ran the board."""
        return {"console": "lava", "boot": str(self.boot), **({"job": self.job} if self.job else {})}

    def reset(self) -> None:
        """Turn the board off and on. Raises InfrastructureError: the lab cannot."""
        if not self.hard_reset:
            raise InfrastructureError("LAVA gives no command to reset this board (LAVA_HARD_RESET_COMMAND)")
        PowerCycle(self.hard_reset)()


def read(environ: Mapping[str, str] = os.environ) -> InJob:
    """Return what the job tells.

    Raises:
        NoConsoleError: this is not a job, or its device has no console for a test.
        ConfigError: its variables are wrong.
    """
    command = environ.get("LAVA_CONNECTION_COMMAND") or environ.get("LAVA_CONNECT_COMMAND")
    if not command:
        raise NoConsoleError(
            "--console lava needs LAVA_CONNECTION_COMMAND: it works in a docker test action of LAVA, on a device whose "
            "dictionary has connection_list, connection_commands and connection_tags (one tagged `primary`)"
        )
    arm = environ.get(ARM, ArmName.CANDIDATE)
    if arm not in list(ArmName):
        raise ConfigError(f"{ARM}={plain_line(arm)}: expected baseline or candidate")
    return InJob(
        console=console(command),
        hard_reset=environ.get("LAVA_HARD_RESET_COMMAND", ""),
        job=_number(environ, "LAVA_JOB_ID"),
        arm=ArmName(arm),
        boot=boot(environ.get(BOOT, "1")),
        kernel=kernel(environ.get(KERNEL, "")),
        power_cycle=environ.get(POWER_CYCLE) == "1",
    )


def _number(environ: Mapping[str, str], name: str) -> str:
    text = environ.get(name, "")
    return text if text.replace(".", "", 1).isdecimal() else ""  # jobs of several devices have numbers like 12.1


def boot(text: str) -> int:
    """Return the number of a boot. Raises ConfigError."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _MOST_BOOTS:
        raise ConfigError(f"{plain_line(text)[:40]!r} is not a boot of a job (allowed: 1 to {_MOST_BOOTS})")
    return int(text)


def console(command: str) -> str:
    """Return a connection command of LAVA as a console.

    A telnet client would stand between us and the line: it echoes and edits lines itself until the other side has
    talked it out of that, and takes Ctrl-C for itself. What it connects to is as well reached without it.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(
            f"LAVA's connection command {plain_line(command)!r} is not a command line: {error}"
        ) from error
    if words and words[0].rpartition("/")[2] == "telnet":
        words = [word for word in words[1:] if word not in {"-8", "-E", "-L", "-K"}]
        if len(words) == 2 and not words[0].startswith("-") and words[1].isdecimal():
            return f"tcp:{words[0]}:{words[1]}"
    return f"command:{command}"


def kernel(text: str) -> KernelIdentity | None:
    """Return the kernel that a job's definition names in JSON, None for nothing. Raises ConfigError."""
    if not text:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{KERNEL} is not JSON: {error}") from error
    return identity(data, KERNEL, "make the lab's image again")


def identity(data: object, what: str, remedy: str) -> KernelIdentity:
    """Return the kernel that a stranger's data names, as text that may be printed.

    Args:
        data: of JSON.
        what: says where it comes from, in an error.
        remedy: what to do if another version of rtgate wrote it.

    Raises:
        ConfigError: it names none, or is of another version.
    """
    names = [field.name for field in fields(KernelIdentity)]
    required_names = {field.name for field in fields(KernelIdentity) if field.default is MISSING}
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise ConfigError(f"{what} names no kernel: expected an object with the texts {', '.join(names)}")
    if not required_names <= set(data) <= set(names):
        raise ConfigError(f"{what} is not by this version of rtgate, which knows {', '.join(names)}: {remedy}")
    return KernelIdentity(**{name: plain_line(text) for name, text in data.items()})
