# SPDX-License-Identifier: MIT
"""The console of a soak, which is opened as often as it has to be; what it says is kept until a record takes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from rtgate.console.shell import Shell
from rtgate.deadline import Deadline
from rtgate.errors import TransportError
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.target.session import Session


@dataclass(slots=True)
class Connection:
    """The way to a target, whether its console is open or not."""

    target: LiveTarget
    plan: Plan
    _said: bytearray = field(default_factory=bytearray)
    _log: bytearray = field(default_factory=bytearray)
    _from: int = 0

    @contextmanager
    def session(self, *, again: bool) -> Iterator[Session]:
        """Open the console and find a shell on it.

        Args:
            again: an earlier worker, which may have been killed, has left its plain shell there.

        Raises:
            HangError, KernelFaultError, InfrastructureError: as `LiveTarget.ready`.
        """
        self._log, self._from = bytearray(), 0
        with ExitStack() as stack:
            shell = self.target.opened(stack, self.plan, self._log)
            try:
                yield self._found(shell, again=again)
            finally:
                with suppress(TransportError):
                    shell.leave()
                self._keep()

    def _found(self, shell: Shell, *, again: bool) -> Session:
        if again:
            shell.find(Deadline.after(self.target.waits.attach))
            shell.leave()
        self.target.ready(shell)
        return Session(shell, self.target.waits)

    def _keep(self) -> None:
        self._said += self._log[self._from :]
        self._from = len(self._log)

    @property
    def said(self) -> bytes:
        """What the console said since it was last taken."""
        self._keep()
        return bytes(self._said)

    def taken(self) -> bytes:
        """Return what the console said since the last time."""
        said = self.said
        self._said.clear()
        return said
