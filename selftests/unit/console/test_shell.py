# SPDX-License-Identifier: MIT
"""One shell over many transports: a good line, one byte at a time, a noisy one, a lossy one, a port."""

from __future__ import annotations

import os
import pty
import random
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rtgate.console import shell as shells
from rtgate.console.frames import encode
from rtgate.console.shell import Shell
from rtgate.console.transport import ProgramTransport, SerialTransport, Transport
from rtgate.deadline import Deadline
from rtgate.errors import DeadlineError, HangError, Interrupted, KernelFaultError, TransportError

NONCE = "F0123abcde"
DATA = random.Random(3).randbytes(6000)
CONSOLES = Path(__file__).resolve().parents[2] / "data" / "console"


class OneByte:
    """A line that gives one byte at a time."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._rest = b""

    def read(self) -> bytes:
        self._rest = self._rest or self._inner.read()
        first, self._rest = self._rest[:1], self._rest[1:]
        return first

    def write(self, data: bytes) -> None:
        self._inner.write(data)

    def close(self) -> None:
        self._inner.close()


class Changed(OneByte):
    """A line whose bytes something happens to on the way to us."""

    def __init__(self, inner: Transport, change: Callable[[bytes], bytes]) -> None:
        super().__init__(inner)
        self._change = change

    def read(self) -> bytes:
        data = self._inner.read()
        return self._change(data) if data else b""


def printk(inner: Transport) -> Transport:
    """Put a kernel message into what is read, between lines and inside them."""
    source = random.Random(4)

    def change(data: bytes) -> bytes:
        if source.random() < 0.3:
            return data
        place = data.rfind(b"\n") + 1 if source.random() < 0.95 else source.randrange(len(data))
        return data[:place] + b"[   12.345678] usb 1-1: new high-speed USB device\r\n" + data[place:]

    return Changed(inner, change)


def by_line(inner: Transport, damage: Callable[[bytes], bytes]) -> Transport:
    """Damage whole lines, however they arrive."""
    rest = b""

    def change(data: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        return b"".join(damage(line) + b"\n" for line in lines)

    return Changed(inner, change)


def lossy(rate: float) -> Callable[[Transport], Transport]:
    """Lose one byte in `rate`, and flip a bit in another one."""

    def wrap(inner: Transport) -> Transport:
        source = random.Random(5)

        def one(byte: int) -> bytes:
            chance = source.random()
            if chance < 1 / rate:
                return b""
            return bytes([byte ^ (1 << source.randrange(8))]) if chance < 2 / rate else bytes([byte])

        return Changed(inner, lambda data: b"".join(map(one, data)))

    return wrap


def program(*argv: str) -> Callable[[], ProgramTransport]:
    return lambda: ProgramTransport(argv)


BASH = ("bash", "--norc", "--noprofile", "-i")
ECHOING = "stty echo; PS1='target# ' exec sh -i"

LINES: dict[str, Callable[[], Transport]] = {
    "sh": program("sh"),
    "sh with prompt and echo": program("sh", "-c", ECHOING),
    "bash": program(*BASH),
    "one byte at a time": lambda: OneByte(program("sh", "-c", ECHOING)()),
    "kernel messages": lambda: printk(program("sh")()),
}
if shutil.which("busybox"):
    LINES["busybox"] = program("busybox", "sh", "-i")


@contextmanager
def opened(transport: Transport) -> Iterator[Shell]:
    try:
        yield Shell(transport, threading.Event())
    finally:
        with suppress(TransportError):
            transport.close()


def soon(seconds: float = 20) -> Deadline:
    return Deadline.after(seconds)


@pytest.fixture(params=LINES)
def any_shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setattr(shells, "_STEP_S", 1.0)
    with opened(LINES[request.param]()) as shell:
        yield shell


@pytest.fixture
def plain_shell() -> Iterator[Shell]:
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        shell.plain(soon())
        yield shell


@pytest.fixture
def frames(tmp_path: Path) -> str:
    """Return a command that prints frames of DATA as a plan does."""
    (tmp_path / "frames").write_text("".join(f"{line}\n" for line in encode(DATA, NONCE)))
    script = 'case $1 in resend) shift; for n; do sed -n "${n}p" F; done;; closing) tail -n 1 F;; *) cat F;; esac\n'
    (tmp_path / "print").write_text(script.replace("F", shlex.quote(str(tmp_path / "frames"))))
    return f"sh {tmp_path}/print"


def test_a_shell_is_found_on_any_line(any_shell: Shell) -> None:
    any_shell.find(soon())
    any_shell.plain(soon())
    # Kernel messages may stand in the output too; nothing of ours may.
    code, output = any_shell.run("echo one; echo two >&2; (exit 42)", soon())
    assert code == 42
    assert b"one" in output
    assert b"two" in output
    assert b"MRK" not in output


@pytest.mark.parametrize("code", [0, 1, 12, 127, 255])
def test_an_exit_code_is_not_cut_off(code: int) -> None:
    with opened(OneByte(ProgramTransport(["sh"]))) as shell:
        shell.find(soon())
        assert shell.run(f"(exit {code})", soon())[0] == code


def test_a_plain_shell_prints_output_and_nothing_else(plain_shell: Shell) -> None:
    plain_shell.run(":", soon())
    for text in ("hello", "", "a b  c", "100%"):
        _, output = plain_shell.run(f"printf '%s' {shlex.quote(text)}", soon())
        assert output.replace(b"\r\n", b"\n").strip(b"\n").decode() == text


def test_everything_that_was_printed_is_in_the_log(plain_shell: Shell) -> None:
    plain_shell.run("echo first", soon())
    plain_shell.run("echo second", soon())
    assert plain_shell.log.index(b"first") < plain_shell.log.index(b"second")


SCRIPTS = {"empty": "", "plan": "#!/bin/sh\necho 'ab$c' \"x\" \\\n" * 300, "odd": "\u00b5 \t '\"`$(x) # \\ \n\n"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_arrives_as_it_was(any_shell: Shell, tmp_path: Path, name: str) -> None:
    any_shell.find(soon())
    any_shell.plain(soon())
    any_shell.upload(SCRIPTS[name], f"{tmp_path}/script", soon())
    assert (tmp_path / "script").read_text() == SCRIPTS[name]


def test_a_script_replaces_the_one_before_it(plain_shell: Shell, tmp_path: Path) -> None:
    for text in ("a longer script than the next\n" * 50, "short\n"):
        plain_shell.upload(text, f"{tmp_path}/script", soon())
        assert (tmp_path / "script").read_text() == text


def test_a_script_arrives_over_a_lossy_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "_STEP_S", 1.0)
    text = "".join(random.Random(6).choices("abcdefgh\n", k=2000))
    with opened(lossy(500)(ProgramTransport(["sh"]))) as shell:
        shell.find(soon())
        shell.plain(soon())
        shell.upload(text, f"{tmp_path}/script", soon(60))
    assert (tmp_path / "script").read_text() == text


def test_a_script_that_never_arrives_is_the_labs_fault(plain_shell: Shell, tmp_path: Path) -> None:
    plain_shell.run("cksum() { echo 1 1; }", soon())
    with pytest.raises(TransportError, match="arrived damaged"):
        plain_shell.upload("echo hello\n", f"{tmp_path}/script", soon())


def test_frames_arrive_on_any_line(any_shell: Shell, frames: str) -> None:
    any_shell.find(soon())
    any_shell.plain(soon())
    reader, _ = any_shell.frames(frames, NONCE, soon())
    assert reader.payload() == DATA


@pytest.mark.parametrize("fault", ["drop", "flip", "cut"])
def test_frames_that_are_damaged_are_asked_for_again(frames: str, fault: str) -> None:
    """Damage every line with the nonce with a chance of one in three, the closing one among them."""
    source = random.Random(fault)

    def damage(line: bytes) -> bytes:
        if NONCE.encode() not in line or source.random() > 1 / 3:
            return line
        place = source.randrange(len(line) - 2)
        if fault == "cut":
            return line[:place]
        return line[:place] + (bytes([line[place] ^ 4]) if fault == "flip" else b"") + line[place + 1 :]

    with opened(by_line(ProgramTransport(["sh"]), damage)) as shell:
        shell.find(soon())
        shell.plain(soon())
        reader, asked = shell.frames(frames, NONCE, soon())
    assert reader.payload() == DATA
    assert asked > 0


def test_frames_arrive_although_the_end_mark_is_damaged(frames: str) -> None:
    ended = False

    def damage(line: bytes) -> bytes:
        nonlocal ended
        if ended and b"MRK" in line:
            ended = False
            return line.replace(b"MRK", b"MRX")
        ended = ended or f"{NONCE} end".encode() in line
        return line

    with opened(by_line(ProgramTransport(["sh"]), damage)) as shell:
        shell.find(soon())
        shell.plain(soon())
        reader, _ = shell.frames(frames, NONCE, soon(2))
    assert reader.payload() == DATA
    assert b"MRX" in shell.log


def test_frames_of_a_hanging_target_are_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        real = Deadline.after
        monkeypatch.setattr(Deadline, "after", lambda seconds: real(seconds / 20))
        with pytest.raises(HangError, match="no shell answered on the console"):
            shell.frames("exec sleep 60 #", NONCE, Deadline.after(6))


OOPS = "Internal error: Oops: 0000000096000046 [#1] PREEMPT_RT SMP"


@pytest.mark.parametrize("wrap", [lambda inner: inner, OneByte], ids=["whole", "one byte at a time"])
def test_a_kernel_that_dies_ends_every_wait(
    wrap: Callable[[Transport], Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "_GRACE_S", 0.3)
    trace = f"[    6.626902] {OOPS}\n[    6.626933] pc : broken+0xc/0x14\n"
    with opened(wrap(ProgramTransport(["sh"]))) as shell:
        shell.find(soon())
        shell.plain(soon())
        began = time.monotonic()
        with pytest.raises(KernelFaultError, match=r"^Internal error: Oops: 0000000096000046"):
            shell.run(f"printf %s {shlex.quote(trace)}; sleep 60", soon())
    assert time.monotonic() - began < 15
    assert b"broken" in shell.log


@pytest.mark.parametrize(("name", "dies"), [("oops", True), ("panic", True), ("hang", False), ("measured-idle", False)])
def test_captured_consoles(name: str, dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "_GRACE_S", 0.1)
    with opened(ProgramTransport(["cat", str(CONSOLES / f"{name}.log")])) as shell:
        with pytest.raises(KernelFaultError if dies else TransportError):
            shell.until(b"never printed", soon())
        assert b"Booting Linux" in shell.log or b"Linux version" in shell.log


def test_silence_ends_with_the_deadline(plain_shell: Shell) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlineError, match=r"the console did not say .* within 0.3 s"):
        plain_shell.run("sleep 60", Deadline.after(0.3))
    assert 0.3 <= time.monotonic() - began < 5


@pytest.mark.parametrize("script", ["exec sleep 60", "stty echo; exec sleep 60", "exec cat", "stty echo; exec cat"])
def test_what_does_not_answer_is_no_shell(script: str) -> None:
    began = time.monotonic()
    hang = pytest.raises(HangError, match=r"no shell answered on the console within 0\.5 s")
    with opened(ProgramTransport(["sh", "-c", script])) as shell, hang:
        shell.find(Deadline.after(0.5))
    assert time.monotonic() - began < 10


def test_the_user_ends_every_wait(plain_shell: Shell) -> None:
    timer = threading.Timer(0.2, plain_shell.stop.set)
    timer.start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        plain_shell.run("sleep 60", soon())
    assert time.monotonic() - began < 10
    timer.join()


def test_a_console_that_closes_ends_every_wait() -> None:
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        with pytest.raises(TransportError):
            shell.run("exit 3", soon())


def test_until_starts_where_it_is_told_to(plain_shell: Shell) -> None:
    plain_shell.run("echo found", soon())
    assert plain_shell.until(b"found", Deadline.after(0), 0)
    with pytest.raises(DeadlineError):
        plain_shell.until(b"found", Deadline.after(0))


@contextmanager
def shell_on_a_port() -> Iterator[Transport]:
    far, near = pty.openpty()
    transport = SerialTransport(os.ttyname(near), 115200)
    os.close(near)
    # The far end is a terminal to isatty() only: a shell on it would look for job control.
    argv = ["sh", "-c", "cat | sh 2>&1 | cat"]
    child = subprocess.Popen(argv, stdin=far, stdout=far, stderr=far, start_new_session=True)
    os.close(far)
    try:
        yield transport
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        transport.close()


def test_a_shell_behind_a_serial_port(frames: str, tmp_path: Path) -> None:
    with shell_on_a_port() as transport:
        shell = Shell(transport, threading.Event())
        shell.find(soon())
        assert shell.run("(exit 7)", soon())[0] == 7
        shell.upload("echo hello\n" * 100, f"{tmp_path}/script", soon())
        reader, asked = shell.frames(frames, NONCE, soon())
    assert (reader.payload(), asked) == (DATA, 0)
    assert (tmp_path / "script").read_text() == "echo hello\n" * 100
