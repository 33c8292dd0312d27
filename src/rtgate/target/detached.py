# SPDX-License-Identifier: MIT
"""A soak as the host sees it: started, asked how far it is, its chunks fetched, confirmed, and removed in the end."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace

from rtgate.console.collect import frames
from rtgate.console.shell import UNKNOWN
from rtgate.deadline import Deadline
from rtgate.errors import InfrastructureError, KernelFaultError, TransportError
from rtgate.target.outcome import Outcome, State, collected
from rtgate.target.session import Session, check_boot
from rtgate.target.soak import Phase, Soak, Status, status

_READS = 8  # of a status, which may arrive damaged
_SECOND_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Detached:
    """A soak on the target behind a shell.

    Every method may raise HangError, KernelFaultError, InfrastructureError and Interrupted as `Shell.sure`.

    Attributes:
        boot_id: of the boot in which the soak was started; empty where the target has none.
    """

    session: Session
    soak: Soak
    boot_id: str

    def start(self) -> None:
        """Upload the soak and start it; one that was started already goes on.

        Raises:
            InfrastructureError: the target cannot carry it out, or carries out another one.
        """
        self.session.check_same(self.boot_id)
        self.session.upload(self.soak.plan_script, self.soak.plan_path)
        self.session.upload(self.soak.script, self.soak.path)
        code, said = self.session.said(f"sh {self.soak.path} start")
        if code == UNKNOWN:
            raise TransportError("nobody knows whether the soak started: the console loses bytes")
        if code != 0:
            told = re.findall(rb"rtgate: [^\r\n]*", said)
            text = told[-1].decode(errors="replace") if told else f"exit code {code}"
            raise InfrastructureError(f"the target cannot start a soak: {text}")

    def status(self) -> Status | None:
        """Ask the target how far it is; None when it knows nothing of the soak.

        Raises:
            KernelFaultError: the target has started again.
            TransportError: every answer arrived damaged.
        """
        found = self._status()
        if found is not None and found.phase is Phase.LOST:
            # Not yet believed: the script may have been between two of its lines.
            self.listen(_SECOND_LOOK_S)
            found = self._status()
        return found

    def _status(self) -> Status | None:
        for _ in range(_READS):
            code, said = self.session.said(f"sh {self.soak.path} status")
            found = status(self.soak.nonce, said)
            if found is not None:
                if self.boot_id and found.boot_id and found.boot_id != self.boot_id:
                    raise KernelFaultError("the target started again by itself: it has another boot_id")
                return found
            if code > 0:
                self.session.check_same(self.boot_id)
                return None
        raise TransportError("the state of the soak arrived damaged every time: the console loses bytes")

    def fetch(self, number: int) -> Outcome:
        """Fetch a chunk that waits. UNREADABLE when its frames do not arrive whole. Raises KernelFaultError."""
        began = time.monotonic()
        shell, waits = self.session.shell, self.session.waits
        start, again = len(shell.log), shell.again
        command = f"sh {self.soak.path} fetch {number}"
        reader = frames(shell, command, self.soak.chunk_nonce(number), waits.spare, over=lambda _: True)
        outcome = collected(reader, {"fetch": round(time.monotonic() - began, 3)})
        if outcome.state is State.MEASURED:
            check_boot(outcome.files, self.boot_id)
        repeated = outcome.line.repeated + shell.again - again
        return replace(outcome, line=replace(outcome.line, received=len(shell.log) - start, repeated=repeated))

    def confirm(self, number: int) -> None:
        """Tell the target that a chunk's record is written, so that it may forget it. Raises TransportError."""
        if self.session.sure(f"sh {self.soak.path} confirm {number}") != 0:
            raise TransportError(f"chunk {number} could not be confirmed")

    def stop(self) -> None:
        """Have the chunk under way end now, without results. Raises TransportError."""
        if self.session.sure(f"sh {self.soak.path} stop") != 0:
            raise TransportError("the target was not told to stop")

    def clean(self) -> bool:
        """Remove everything of a soak that has ended, with settings put back; return whether that is certain."""
        return self.session.sure(f"[ ! -e {self.soak.path} ] || sh {self.soak.path} clean") == 0

    def listen(self, seconds: float) -> None:
        """Send nothing; only take what the console says. Raises KernelFaultError when the kernel dies."""
        deadline = Deadline.after(seconds)
        while not deadline.expired:
            self.session.shell.read()
