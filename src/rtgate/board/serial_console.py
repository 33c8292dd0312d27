# SPDX-License-Identifier: MIT
"""A board's console, as its file describes it: the kernel's device, the shell's prompt, and who logs in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from rtgate import durations
from rtgate.strict_yaml import Mapping as Keys
from rtgate.strict_yaml import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who logs in on a console.

    Attributes:
        user: who gets a shell of root.
        password: empty where none is asked. It is no secret: it stands in the board's file and in job definitions.
    """

    user: str
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The serial console as the kernel names it.

    Attributes:
        login: who logs in, where it asks for that; None where it shows a shell of root.
        silence_s: seconds without an answer after which the target hangs; None for what is usual.
    """

    device: str
    baud: int
    prompt: str
    login: Login | None = None
    silence_s: float | None = None


def read(value: Value) -> Console:
    """Read `console` of a board's file. Raises ConfigError."""
    data = value.mapping(required=("device", "baud"), optional=("prompt", "login", "password", "silence"))
    return Console(
        device=read_device(data["device"]),
        baud=data["baud"].integer(minimum=1200),
        prompt=data.text("prompt", "# "),
        login=read_login(data),
        silence_s=data["silence"].parse(partial(durations.parse, least_s=5, most_s=600)) if "silence" in data else None,
    )


def read_device(value: Value) -> str:
    """Read what a kernel calls the console's device, which becomes one of its arguments. Raises ConfigError."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,40}", value.text()):
        value.fail(f"{value.text()!r} is not a console's device (allowed: as the kernel names it, for example ttyS2)")
    return value.text()


def read_login(data: Keys) -> Login | None:
    """Read `login` and `password`; None without a login. Raises ConfigError."""
    if "login" not in data:
        if "password" in data:
            data["password"].fail("a password without `login`: whose is it?")
        return None
    for name in ("login", "password"):
        if name in data and not re.fullmatch(r"[\x21-\x7e]{1,100}", data[name].text()):
            data[name].fail("nobody can type this on a console (allowed: ASCII without spaces)")
    return Login(user=data["login"].text(), password=data.text("password", ""))
