# SPDX-License-Identifier: MIT
"""QEMU's command line, its process, and its monitor."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate.arches import ARCHES
from rtgate.board.boards import Board
from rtgate.errors import InfrastructureError
from rtgate.process import die_with_parent
from rtgate.target.library_cache import compile_library

_DEATH_S = 10.0  # after SIGKILL
_DISKS = {"-drive", "-blockdev", "-hda", "-cdrom", "-sd", "-mtdblock"}
_OF_THE_HOST = {*_DISKS, "-netdev", "-nic", "-net", "-virtfs", "-fsdev", "-chardev", "-object", "-pflash"}

_PACKAGES = {arch.qemu_program: arch.qemu_package for arch in ARCHES.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One start of a virtual board.

    Attributes:
        serial: QEMU's -serial argument.
        seed: QEMU's -seed, which feeds the guest's random numbers; None on host time.
        command_line: kernel arguments beside the board's.
        virtual_time: count instructions, so that a run repeats bit by bit.
        devices: by the names of the board's file; without any the machine is the board's alone.
        plugin: QEMU's -plugin argument, empty for none.
    """

    board: Board
    image: Path
    initrd: Path
    serial: str
    seed: int | None = None
    command_line: str = ""
    virtual_time: bool = False
    monitor: Path | None = None
    devices: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def disk(self) -> bool:
        """Whether it has a disk, whose answers come from this machine and not from the guest's clock."""
        return bool(_DISKS & self._words())

    @property
    def is_isolated(self) -> bool:
        """Whether nothing of this machine reaches the guest beside the files that its command line names."""
        return not _OF_THE_HOST & self._words()

    def _words(self) -> set[str]:
        assert self.board.qemu is not None
        return {*self.board.qemu.arguments, *self.board.qemu.with_devices(self.devices)}

    def argv(self) -> list[str]:
        """Return QEMU's command line."""
        qemu = self.board.qemu
        assert qemu is not None
        clock = ("-icount", self._counting(), "-rtc", "base=2024-01-01,clock=vm")
        return [
            *(self._in_turns() if self.virtual_time and self.board.cpus > 1 else ()),
            qemu.binary,
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-accel", "tcg"),
            *("-machine", qemu.machine_with(self.devices), "-cpu", qemu.cpu),
            *("-smp", str(self.board.cpus), "-m", f"{self.board.memory_mib}M"),
            *(clock if self.virtual_time else ()),
            *(("-name", "debug-threads=on") if self.board.cpus > 1 else ()),
            *(("-seed", str(self.seed)) if self.seed is not None else ()),
            *qemu.arguments,
            *qemu.with_devices(self.devices),
            *(("-plugin", self.plugin) if self.plugin else ()),
            *("-serial", self.serial),
            *(("-qmp", f"unix:{self.monitor},server=on,wait=off") if self.monitor else ()),
            *("-kernel", str(self.image), "-initrd", str(self.initrd)),
            *("-append", self._append()),
        ]

    def _append(self) -> str:
        console = f"console={self.board.console.device},{self.board.console.baud}"
        return " ".join(filter(None, (console, self.board.command_line, self.command_line)))

    def _in_turns(self) -> tuple[str, ...]:
        """Return what starts QEMU with its threads in step; see icount_lockstep.c for why."""
        return ("env", f"LD_PRELOAD={lockstep_library()}")

    def _counting(self) -> str:
        """Return QEMU's -icount argument.

        Recording is on for what it does to QEMU's own threads, not for the log, which goes nowhere: only while it
        records does QEMU 7.2 keep its main loop out while the CPU runs (`replay_mutex_lock` in
        accel/tcg/tcg-accel-ops-icount.c). Without it the main loop may see the CPU halted before its last instructions
        are counted (softmmu/icount.c, `icount_start_warp_timer`) and move the clock too far: on a busy host one boot in
        ten or twenty differed. QEMU refuses to record with more than one CPU: there `icount_lockstep.c` does it. With a
        disk it cannot be on: reads then never end (seen with QEMU 7.2). Such a boot does not repeat bit by bit, as a
        disk's answers come from this machine.
        """
        qemu = self.board.qemu
        assert qemu is not None
        record = ",rr=record,rrfile=/dev/null" if self.board.cpus == 1 and not self.disk else ""
        return f"shift={qemu.shift},sleep=off{record}"


def lockstep_library() -> Path:
    """Return the library made of icount_lockstep.c. Raises InfrastructureError: it cannot be compiled here."""
    source = Path(__file__).with_name("icount_lockstep.c")
    return compile_library(source, ["-ldl", "-lpthread"], "a virtual board with several CPUs")


@functools.cache
def version(binary: str) -> str:
    """Return QEMU's version line.

    Raises:
        InfrastructureError: it is not installed or does not start.
    """
    if shutil.which(binary) is None:
        package = _PACKAGES.get(binary, "qemu-system")
        raise InfrastructureError(f"{binary} is not installed: on Debian, apt install {package}")
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{binary} does not start: {error}") from error
    return answer.stdout.split("\n", 1)[0].strip()


@contextlib.contextmanager
def process(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run QEMU in a process group of its own, and end it however the block is left.

    The kernel ends it too if this process is killed, so nothing is ever left behind.
    """
    with log.open("wb") as errors:
        child = subprocess.Popen(
            die_with_parent(argv), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
        )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        try:
            child.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            # What a control group (v1) has frozen dies when it is thawed, which may be never.
            threading.Thread(target=child.wait, daemon=True).start()


class Monitor:
    """QEMU's monitor (QMP), opened when it is first needed.

    Attributes:
        silent: the last question had no answer in time, though QEMU is there: it is stopped, or hangs itself.
    """

    silent = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._lines: Any = None

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        for stream in (self._lines, self._socket):
            if stream is not None:
                stream.close()
        self._lines = self._socket = None

    def ask(self, command: str, **arguments: str) -> Any:
        """Return the answer to a command, or None when QEMU does not answer within 15 s or is gone."""
        try:
            if self._socket is None:
                self._connect()
            assert self._socket is not None
            request = {"execute": command, "arguments": arguments}
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answer()
        except TimeoutError:
            self.silent = True
            self.close()
            return None
        except (OSError, ValueError):
            self.close()
            return None
        else:
            self.silent = False
            return answer

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(15.0)
        self._socket.connect(str(self._path))
        self._lines = self._socket.makefile("r")
        self._lines.readline()  # the greeting
        self._socket.sendall(b'{"execute": "qmp_capabilities"}\n')
        self._answer()

    def _answer(self) -> Any:
        while line := self._lines.readline():
            message = json.loads(line)
            if "return" in message or "error" in message:
                return message.get("return")
        return None
