# SPDX-License-Identifier: MIT
"""A console that asks for a login: log in as whom the board's file says."""

from __future__ import annotations

import re
import time

from rtgate.console.shell import Shell
from rtgate.durations import Deadline
from rtgate.errors import InfrastructureError

# What getty and login of util-linux, busybox and toybox ask; `Last login: Sat Nov 28` is no question.
_NAME = re.compile(rb"(?i)(?<!last )(?:login|user ?name): *\Z")
_PASSWORD = re.compile(rb"(?i)password(?: for \S+)?: *\Z")
_REFUSED = re.compile(rb"(?i)login incorrect\s*\Z")
_TAIL = 200  # bytes that a question is never longer than
_ATTEMPTS = 3  # a character may get lost
_SETTLED_S = 0.5  # of silence after what looks like a question: it may be the beginning of a line
_LIMIT_S = 60.0  # after which `login` itself gives up


def is_asked(shell: Shell) -> bool:
    """Return whether the last thing that the console printed asks for a login, or refuses one."""
    tail = bytes(shell.log[-_TAIL:])
    return any(pattern.search(tail) for pattern in (_NAME, _PASSWORD, _REFUSED))


def log_in(shell: Shell, user: str, password: str) -> None:
    """Log in where the console asks for it. Where it does not, nothing is sent but an end of a line.

    Raises:
        InfrastructureError: the console refuses this user or the password, or it closed.
        KernelFaultError, Interrupted: as `Shell.read`.
    """
    deadline = Deadline.after(_LIMIT_S)
    names = 0
    # A password that somebody else was asked for is refused by it.
    shell.transport.write(b"\n")
    while question := _question(shell, deadline):
        if question is _NAME and names == _ATTEMPTS:
            raise InfrastructureError(
                f"the console does not log in {user!r}: `login` and `password` of `console` in the board's file "
                "must be those of the system that the board runs"
            )
        names += question is _NAME
        answer = user if question is _NAME else password if names else ""
        shell.transport.write(f"{answer}\n".encode())


def _question(shell: Shell, deadline: Deadline) -> re.Pattern[bytes] | None:
    """Return what the console asks for, once it is silent; None for a shell's prompt, or for a longer silence."""
    size, last_change = len(shell.log), time.monotonic()
    answered = False
    while not deadline.expired:
        shell.read()
        if len(shell.log) != size:
            size, last_change, answered = len(shell.log), time.monotonic(), True
        silent_s = time.monotonic() - last_change
        if silent_s > shell.waits.quiet or (answered and shell.has_prompt):
            return None
        if answered and silent_s > _SETTLED_S:
            tail = bytes(shell.log[-_TAIL:])
            for pattern in (_NAME, _PASSWORD):
                if pattern.search(tail):
                    return pattern
    return None
