# SPDX-License-Identifier: MIT
"""Targets: a real shell of this machine, in a place of its own, that carries out real plans, and what goes wrong there.

Each target has mounts of its own: a small RAM disk to work on, and files of its own over `/proc/sys/kernel/printk`
and the boot's id. It runs without root's rights, on a root file system that cannot be written: what a damaged line
makes a shell do must not harm this machine.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rtgate.console.transport import EndedError, ProgramTransport, Transport
from rtgate.errors import TransportError

DISK = "/mnt"  # a mount of the target's own hides what is there
WORK = f"{DISK}/rtgate"
LIMIT_US = 150
CONSOLES = Path(__file__).resolve().parents[1] / "data" / "console"

GOOD = 'cat "$result" >cyclictest.json; exec sleep "$lasts"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell of this machine.

    Attributes:
        argv: how it is started.
        programs: `system`, or the only program whose commands it has.
        prompt: its PS1.
    """

    argv: str
    programs: str = "system"
    prompt: str = "target# "


_LOGIN = "while :; do printf 'rk3568 login: '; read n; printf 'Password: '; read p; echo; echo Login incorrect; done"
_LOADER = (
    "trap : INT; printf '=> '; while read c; do echo \"Unknown command '${c%% *}' - try 'help'\"; printf '=> '; done"
)
SHELLS = {
    "dash": Shell(argv="dash -i"),
    "bash": Shell(argv="bash --norc --noprofile -i", prompt=r"\[\e[1;32m\]root@rk3568\[\e[0m\]:\w# "),
    "busybox": Shell(argv="busybox sh -i", programs="busybox", prompt="~ # "),
    "bare busybox": Shell(argv="busybox sh -i", programs="bare busybox", prompt="/ # "),
    "android": Shell(argv="mksh -i", programs="toybox", prompt="console:/ $ "),
    "odd prompt": Shell(argv="dash -i", prompt="MRK00001:0:0. [F0123 end 1 1 1]> "),
    "login": Shell(argv=f"sh -c {shlex.quote(_LOGIN)}"),
    "boot loader": Shell(argv=f"sh -c {shlex.quote(_LOADER)}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is on the other side of the line.

    Attributes:
        shell: one of SHELLS.
        tool: the body of the measuring program, in which `$result` is a file with its JSON, and `$lasts` how long it
            measures, in seconds.
        lasts_s: that. The plan asks for 0.2 s; the tool is one process when its threads are looked at, on a busy
            machine some time later.
        slow: its JSON breaks the limit.
        log: what the kernel's log holds.
        disk_kib: the size of the disk.
        blow: what happens in mid-measurement.
        boots: the target is started for the plan, and says so.
    """

    shell: str = "dash"
    tool: str = GOOD
    lasts_s: float = 0.4
    slow: bool = False
    log: str = "[    0.000000] Booting Linux"
    log_code: int = 0
    disk_kib: int = 4096
    blow: Blow | None = None
    boots: bool = False


@cache
def isolation() -> tuple[str, ...] | None:
    """Return what runs a program in mounts of its own, None where this machine does not allow it."""
    for words in (("unshare", "--mount"), ("unshare", "--mount", "--map-root-user")):
        if os.geteuid() == 0 or len(words) == 3:
            argv = [*words, "mount", "-t", "tmpfs", "tmpfs", DISK]
            with suppress(OSError):
                if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
                    return words
    return None


def lacking() -> str:
    """Return why this machine cannot have such targets, empty if it can."""
    missing = [name for name in ("bash", "busybox", "dash", "mksh", "toybox", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return "" if isolation() else "needs mounts of its own: root, or user namespaces"


@dataclass(frozen=True, slots=True)
class Stage:
    """A directory with the programs of all targets."""

    path: Path

    @classmethod
    @contextmanager
    def make(cls) -> Iterator[Stage]:
        """Make the directory, and remove it in the end."""
        with tempfile.TemporaryDirectory(prefix="rtgate-faults-") as name:
            path = Path(name)
            path.chmod(0o755)
            link(path / "busybox", "busybox", ())
            link(path / "bare busybox", "busybox", ())
            # As in rtgate's own images, and as on Android, whose toybox has gzip, stty and a shell beside it.
            link(path / "busybox", "toybox", ("cksum", "split"))
            link(path / "toybox", "toybox", ())
            for command, program in (("sh", "mksh"), ("gzip", "gzip"), ("stty", "stty")):
                (path / "toybox" / command).symlink_to(str(shutil.which(program)))
            yield cls(path)

    def start(self, target: Target, source: random.Random) -> Transport:
        """Start a target."""
        place = Path(tempfile.mkdtemp(dir=self.path))
        place.chmod(0o755)
        return Machine(self.path, place, target, source)


def link(directory: Path, program: str, names: tuple[str, ...]) -> None:
    """Fill a directory with the commands of a program that has many."""
    listed = [program] if program == "toybox" else [program, "--list"]
    known = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    directory.mkdir(exist_ok=True)
    for name in names or known:
        with suppress(FileExistsError):
            (directory / name).symlink_to(str(shutil.which(program)))


def result(worst_us: int, source: random.Random) -> str:
    """Return cyclictest's JSON of a run with some hundred different latencies."""
    captured = json.loads((CONSOLES.parent / "rt-tests" / "2.10" / "cyclictest-host-idle.json").read_text())
    histogram = {str(value): source.randrange(1, 900) for value in source.sample(range(10, LIMIT_US - 10), 120)}
    histogram[str(worst_us)] = 1
    values = [int(value) for value in histogram]
    thread = {
        **captured["thread"]["0"],
        "histogram": histogram,
        "cycles": sum(histogram.values()),
        "min": min(values),
        "max": max(values),
        "avg": sum(value * histogram[str(value)] for value in values) / sum(histogram.values()),
    }
    return json.dumps({**captured, "num_threads": 1, "thread": {"0": thread}}, indent=1)


_LAUNCH = """
mount -t tmpfs -o size=@DISK_KIB@k,mode=1777 tmpfs @DISK@ || exit 99
mount --bind @PLACE@/printk /proc/sys/kernel/printk || exit 99
mount --bind @PLACE@/boot_id /proc/sys/kernel/random/boot_id || exit 99
mount -o remount,bind,ro / 2>/dev/null
cd @DISK@
cat @PLACE@/boot.txt
export HOME=@DISK@ PATH=@PATH@ PS1=@PS1@ TERM=dumb
exec @DROP@ @SHELL@
"""


class Machine:
    """A target that is on: a shell on a terminal, to which its blow happens after the plan has said that it started."""

    def __init__(self, stage: Path, place: Path, target: Target, source: random.Random) -> None:
        self._stage, self._place, self.target = stage, place, target
        self._write_files(source)
        self._shell: Transport | None = self._start(boot=target.boots)
        self._seen = b""
        self._strikes: float | None = None
        self._ended: TransportError | None = None

    def _write_files(self, source: random.Random) -> None:
        programs = self._place / "bin"
        programs.mkdir()
        worst = LIMIT_US + 100 if self.target.slow else LIMIT_US - 10
        (self._place / "result.json").write_text(result(worst, source))
        given = f"lasts={self.target.lasts_s} result={shlex.quote(str(self._place))}/result.json"
        tool = self.target.tool and f"{given}\n{self.target.tool}"
        log = f"cat {self._place}/log; exit {self.target.log_code}"
        (self._place / "log").write_text(f"{self.target.log}\n")
        (self._place / "printk").write_text("4\t4\t1\t7\n")
        (self._place / "printk").chmod(0o666)
        for name, body in (("cyclictest", tool), ("dmesg", log)):
            if body:
                (programs / name).write_text(f"#!/bin/sh\n{body}\n")
                (programs / name).chmod(0o755)

    def _start(self, *, boot: bool) -> ProgramTransport:
        shell = SHELLS[self.target.shell]
        path = f"{self._place}/bin:" + (
            "/usr/bin:/bin" if shell.programs == "system" else f"{self._stage}/{shell.programs}"
        )
        drop = f"{shutil.which('setpriv')} --reuid=65534 --regid=65534 --clear-groups" if os.geteuid() == 0 else ""
        (self._place / "boot_id").unlink(missing_ok=True)
        (self._place / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self._place / "boot.txt").write_text(boot_text() if boot else "")
        program, *words = shlex.split(shell.argv)
        values = {
            "DISK_KIB": str(self.target.disk_kib),
            "DISK": DISK,
            "PLACE": str(self._place),
            "PATH": shlex.quote(path),
            "PS1": shlex.quote(shell.prompt),
            "DROP": drop,
            "SHELL": shlex.join([str(shutil.which(program)), *words]),
        }
        script = _LAUNCH
        for name, value in values.items():
            script = script.replace(f"@{name}@", value)
        return ProgramTransport([*(isolation() or ()), "sh", "-c", script])

    def read(self) -> bytes:
        """Return what has arrived, at most 50 ms later."""
        if self._ended is not None:
            raise self._ended
        if self._shell is None:
            time.sleep(0.02)
            data = b""
        else:
            data = self._shell.read()
        self._seen = (self._seen + data)[-200:]
        if self._strikes is None and self.target.blow and b"rtgate: plan started" in self._seen:
            self._strikes = time.monotonic() + self.target.blow.after_s
        if self._strikes and time.monotonic() > self._strikes:
            self._strikes = 0.0
            assert self.target.blow is not None
            data += self._strike(self.target.blow)
        return data

    def _strike(self, blow: Blow) -> bytes:
        if blow.then != "goes on":
            self.close()
        if blow.then == "boots":
            self._shell = self._start(boot=blow.loudly)
        elif blow.then == "ends":
            self._ended = EndedError("the program behind the console ended (exit code 0)", 0)
        elif blow.then == "breaks":
            self._ended = TransportError("the console closed")
        return blow.says.replace("\n", "\r\n").encode()

    def write(self, data: bytes) -> None:
        """Send bytes; a target that is off does not notice."""
        if self._shell is not None:
            self._shell.write(data)

    def close(self) -> None:
        """Turn the target off."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """Something that happens in mid-measurement.

    Attributes:
        says: what the console prints of it.
        then: the target `goes on`, `boots` again, is `silent`, its machine `ends`, or its console `breaks`.
        loudly: the boot that follows prints messages.
    """

    says: str = ""
    then: str = "silent"
    loudly: bool = True
    after_s: float = 0.1


@cache
def boot_text() -> str:
    """Return what a boot prints, from a captured one."""
    text = (CONSOLES / "measured-idle.log").read_bytes().decode("latin-1")
    return text[: text.index("rtgate: plan started")].replace("\r", "")


def captured_fault(name: str, first_line: str) -> str:
    """Return the trace of a captured fault."""
    text = (CONSOLES / f"{name}.log").read_bytes().decode("latin-1").replace("\r", "")
    lines = text.split("\n")
    start = next(number for number, line in enumerate(lines) if first_line in line)
    return "\n".join(lines[start : start + 40]) + "\n"
