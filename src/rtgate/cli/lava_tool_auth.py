# SPDX-License-Identifier: MIT
"""`lava-tool auth-add`: store a token for a server, where lavacli and rtgate find it."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from pathlib import Path
from typing import Any

from rtgate.errors import ConfigError
from rtgate.http.secret import Token, read_token
from rtgate.lava.client.access import Access, base, identities_file
from rtgate.lava.client.identities import store
from rtgate.lava.client.server import Lava
from rtgate.workflow.job_watch import JobWatch


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "auth-add",
        help="store a token for a server",
        description="Store a token where lavacli keeps its identities, after the server has taken it. It is asked for, "
        "or read from standard input or a file: on a command line `ps` would show it.",
    )
    parser.add_argument("server", metavar="SERVER", help="for example https://user@lava.example.org/RPC2")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="read the token from this file, of mode 600")
    parser.set_defaults(run=_add)


def address(server: str) -> tuple[str, str]:
    """Return URL and user's name of `http://user@host/RPC2`, as lava-tool has it; the name is empty without one."""
    match = re.match(r"(https?://)(?:([A-Za-z0-9_.+-]+)@)?(.*)", server, re.DOTALL)
    return (f"{match[1]}{match[3]}", match[2] or "") if match else (server, "")


def _add(arguments: argparse.Namespace) -> int:
    url, user = address(arguments.server)
    url = base(url)
    token = read_token(arguments.token_file, "--token-file") if arguments.token_file else _ask_for_token(url)
    access = Access(url, token)
    owner = Lava(access, notify=JobWatch().say).whoami()
    if not owner:
        raise ConfigError(f"{url} does not say whose token this is: nothing is stored")
    if user not in {"", owner}:
        raise ConfigError(f"{url} says that this token is {owner}'s, not {user}'s: nothing is stored")
    file = identities_file()
    print(f"{store(file, access, owner)}: the token of {owner} for {url} is in {file}")
    return 0


def _ask_for_token(url: str) -> Token:
    """Return the token that somebody types or pastes, or that comes on standard input. Raises ConfigError."""
    if sys.stdin.isatty():
        return Token(getpass.getpass(f"token for {url}: ").strip(), "the keyboard")
    return Token(sys.stdin.readline().strip(), "standard input")
