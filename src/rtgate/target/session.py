# SPDX-License-Identifier: MIT
"""What everybody needs of a shell on a live target who has plans carried out there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from rtgate.console.shell import FREE, Shell
from rtgate.durations import Deadline
from rtgate.errors import HangError, InfrastructureError, KernelFaultError

BOOT_ID = "/proc/sys/kernel/random/boot_id"

_READS = 8  # of the boot's id, which may arrive damaged
_LOG_LINES = 200  # of a kernel's log: a stall with the traces of two CPUs, 1.5 s at 115 200 baud
# What a plan and its upload cannot do without.
PROGRAMS = "base64 cat cksum cut dmesg grep gzip mkdir paste rm sed setsid sleep split tail tar"
_OTHER_BOOT = "the target started again by itself: it has another boot_id"


@dataclass(frozen=True, slots=True)
class Session:
    """A shell that was found.

    Every method may raise HangError, KernelFaultError, InfrastructureError and Interrupted as `Shell.sure`.
    """

    shell: Shell

    def sure(self, command: str) -> int:
        """Carry out a command that may be carried out twice; return its exit code, UNKNOWN if it stayed unknown."""
        return self.output_of(command)[0]

    def output_of(self, command: str) -> tuple[int, bytes]:
        """Return the exit code as `sure`, and what the console printed meanwhile."""
        return self.shell.sure(command, Deadline.after(self.shell.waits.upload))

    def prepare(self, directory: str) -> str:
        """Make the directory that plans work in, and return the boot's id.

        Raises:
            InfrastructureError: the target lacks what plans need.
        """
        self._look_for_programs()
        if self.sure("dmesg >/dev/null 2>&1") > 0:
            raise InfrastructureError("the target's kernel log cannot be read (dmesg): a fault would not be seen")
        boot_id = self.boot_id()
        path = shlex.quote(directory)
        if self.sure(f"mkdir -p {path}; [ -d {path} ]") > 0:
            raise InfrastructureError(f"the target cannot make the directory {directory}")
        return boot_id

    def _look_for_programs(self) -> None:
        if not self.shell.has("cksum", Deadline.after(self.shell.waits.upload)):
            raise InfrastructureError("the target lacks cksum, which a plan cannot do without")
        if self.sure(f"(for i in {PROGRAMS}; do command -v $i || exit 1; done) >/dev/null") <= 0:
            return
        programs = [program for program in PROGRAMS.split() if self.sure(f"command -v {program} >/dev/null") > 0]
        raise InfrastructureError(f"the target lacks {', '.join(programs)}, which a plan cannot do without")

    def boot_id(self) -> str:
        """Return the boot's own name, empty where there is none; a damaged one is read again."""
        for _ in range(_READS):
            _, output = self.output_of(f"cat {BOOT_ID}")
            match = re.search(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", output)
            if match and self.sure(_same_boot(match[0].decode())) == 0:
                return match[0].decode()
        return ""

    def check_same_boot(self, boot_id: str) -> None:
        """Check that the target has not started again. Raises KernelFaultError."""
        if boot_id and self.sure(_same_boot(boot_id)) > 0:
            raise KernelFaultError(_OTHER_BOOT)

    def revive(self, boot_id: str) -> bool:
        """End what runs on a target that fell silent; return whether it is known to answer then, in the same boot.

        If it does, the end of the kernel's log is on the console, of which a plan lets it print nothing.

        Raises:
            KernelFaultError: it died, or has started again.
            Interrupted: as `Shell.until`.
        """
        shell = self.shell
        try:
            shell.transport.write(FREE)
            shell.find(Deadline.after(shell.waits.attach))
            code, _ = shell.run(_same_boot(boot_id), Deadline.after(shell.waits.attach), checked=True)
        except (HangError, InfrastructureError):
            return False
        if code > 0 and boot_id:
            raise KernelFaultError(_OTHER_BOOT)
        if code != 0:
            return False
        shell.settled = False  # a boot in the log is no second one
        with suppress(HangError, KernelFaultError, InfrastructureError):
            shell.run(f"dmesg | tail -n {_LOG_LINES}", Deadline.after(shell.waits.attach))
        return True


def _same_boot(boot_id: str) -> str:
    return f'[ "$(cat {BOOT_ID})" = {boot_id} ]'


def check_boot(files: Mapping[str, bytes], boot_id: str) -> None:
    """Check that results are not those of another boot. Raises KernelFaultError."""
    match = re.search(rb"^" + BOOT_ID.encode() + rb":([0-9a-f-]{36})$", files.get("facts", b""), re.MULTILINE)
    if match and boot_id and match[1].decode() != boot_id:
        raise KernelFaultError(_OTHER_BOOT)
