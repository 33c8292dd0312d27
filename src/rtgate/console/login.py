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
_NEW_PASSWORD = re.compile(rb"(?i)(?:new|current|create|retype)\b[^\r\n]*password: *\Z")
# Also with what was typed behind it, or a message of the kernel.
_ASKED = re.compile(rb"(?im)(?<!last )(?:login|user ?name|password)(?: for \S+)?: *\r?$|login incorrect")
_TAIL = 400  # bytes that a question, and what was typed behind it, are never longer than
_ATTEMPTS = 3  # a character may get lost
_SETTLED_S = 0.5  # of silence after what looks like a question: it may be the beginning of a line
_AGAIN_S = 2.0  # of silence, after which the end of a line may have been lost, or a message stands behind the question
_LIMIT_S = 60.0  # after which `login` itself gives up


def is_asked(shell: Shell) -> bool:
    """Return whether the console has just asked for a login, or refused one."""
    return bool(_ASKED.search(shell.log[-_TAIL:]))


def log_in(shell: Shell, user: str, password: str) -> None:
    """Log in where the console asks for it. Where it does not, nothing is sent but ends of lines.

    Raises:
        InfrastructureError: the console refuses this user or the password, wants a new one, or closed.
        KernelFaultError, Interrupted: as `Shell.read`.
    """
    deadline = Deadline.after(_LIMIT_S)
    names = 0
    # What somebody else was asked for is refused by it.
    shell.transport.write(b"\n")
    while question := _question(shell, deadline):
        if question is _NEW_PASSWORD:
            raise InfrastructureError("the console wants a new password for its user: log in once, and give it one")
        if question is _NAME and names == _ATTEMPTS:
            raise InfrastructureError(
                f"the console does not log in {user!r}: `login` and `password` of `console` in the board's file must "
                "be those of the system that the board runs"
            )
        names += question is _NAME
        answer = user if question is _NAME else password if names else ""
        shell.transport.write(f"{answer}\n".encode())
    if names:
        # By the end of the name agetty took it that the return key sends a line feed, which is not so for people.
        shell.transport.write(b" stty icrnl onlcr 2>/dev/null\n")


def _question(shell: Shell, deadline: Deadline) -> re.Pattern[bytes] | None:
    """Return what the console asks for, once it is silent; None for a shell's prompt, or for a longer silence."""
    size, last_change, answered = len(shell.log), time.monotonic(), False
    returns = 0
    while not deadline.expired:
        shell.read()
        if len(shell.log) != size:
            size, last_change, answered = len(shell.log), time.monotonic(), True
        if answered and shell.has_prompt:
            return None
        silent_s = time.monotonic() - last_change
        if answered and silent_s > _SETTLED_S and (question := _last_question(shell)):
            return question
        if silent_s > _AGAIN_S:
            if returns == _ATTEMPTS:
                return None
            returns += 1
            last_change = time.monotonic()
            shell.transport.write(b"\n")
    return None


def _last_question(shell: Shell) -> re.Pattern[bytes] | None:
    tail = shell.log[-_TAIL:]
    return next((pattern for pattern in (_NEW_PASSWORD, _NAME, _PASSWORD) if pattern.search(tail)), None)
