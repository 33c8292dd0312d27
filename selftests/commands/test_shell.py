# SPDX-License-Identifier: MIT
"""One shell over many transports: a good line, one byte at a time, a noisy one, a lossy one, a port."""

from __future__ import annotations

import os
import pty
import random
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.commands.conftest import DATA, ECHOING, NONCE, QUICK, opened, soon
from selftests.faults import lines
from selftests.faults.lines import Line, OneByte

from rtgate.board import boards
from rtgate.console import collect
from rtgate.console.shell import UNKNOWN, Shell
from rtgate.console.transport import ProgramTransport, SerialTransport, Transport
from rtgate.durations import Deadline
from rtgate.errors import (
    DeadlineError,
    HangError,
    InfrastructureError,
    Interrupted,
    KernelFaultError,
    TransportError,
)
from rtgate.target.live import LiveTarget
from rtgate.target.outcome import State
from rtgate.target.plan import Plan
from rtgate.tools.loads import Load

CONSOLES = Path(__file__).resolve().parents[1] / "data" / "console"
_LONG = pytest.mark.long("other words to the same shell; some are in make test")


def test_a_shell_is_found_on_any_line(any_shell: Shell) -> None:
    any_shell.find(soon())
    any_shell.start_plain_shell(soon())
    # Kernel messages may stand in the output too; nothing of ours may.
    code, output = any_shell.run("echo one; echo two >&2; (exit 42)", soon())
    assert code == 42
    assert b"one" in output
    assert b"two" in output
    assert b"MRK" not in output


def test_no_name_of_an_exit_code_comes_again() -> None:
    """A shell that outlives a case would answer with an earlier command's where a damaged line was not carried out."""
    with opened(ProgramTransport(["sh"])) as shell:
        first = Shell(shell.transport, threading.Event(), waits=QUICK).next()
        second = Shell(shell.transport, threading.Event(), waits=QUICK).next()
        assert first.variable != second.variable


def test_a_board_that_was_up_all_the_time_is_found_after_a_death(tmp_path: Path) -> None:
    """It survived, and is silent: nothing is to be seen of a boot."""
    live = LiveTarget(
        board=boards.board("rk3568-evb1"),
        open=lambda _stack, _plan: ProgramTransport(["sh"]),
        stop=threading.Event(),
        boots=True,
        machine={},
        waits=replace(QUICK, boot=1.0, attach=20.0),
    )
    with opened(ProgramTransport(["sh"])) as shell:
        live.ready(shell)
        assert shell.run("echo alive", soon())[0] == 0


@pytest.mark.parametrize(("qemu", "state"), [(False, State.LAB), (True, State.NO_BOOT)])
def test_the_end_of_a_console_s_program_is_the_board_s_only_if_it_runs_the_board(*, qemu: bool, state: State) -> None:
    """After a death a boot is waited for on any console: socat ends with 0, too, when the other side closes."""
    live = LiveTarget(
        board=boards.board("rk3568-evb1"),
        open=lambda _stack, _plan: ProgramTransport(["true"]),
        stop=threading.Event(),
        boots=True,
        machine={},
        waits=QUICK,
        qemu=qemu,
    )
    plan = Plan(case="latency/stub:idle", argv=("true",), load=Load(name="idle"), seed=1, duration_s=1)
    assert live.run(plan).state is state


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
    any_shell.start_plain_shell(soon())
    any_shell.upload(SCRIPTS[name], f"{tmp_path}/script", soon())
    assert (tmp_path / "script").read_text() == SCRIPTS[name]


def test_a_script_replaces_the_one_before_it(plain_shell: Shell, tmp_path: Path) -> None:
    for text in ("a longer script than the next\n" * 50, "short\n"):
        plain_shell.upload(text, f"{tmp_path}/script", soon())
        assert (tmp_path / "script").read_text() == text


def test_a_script_arrives_over_a_lossy_line(tmp_path: Path) -> None:
    text = "".join(random.Random(6).choices("abcdefgh\n", k=2000))
    source = random.Random(5)
    with opened(
        Line(ProgramTransport(["sh"]), lines.combine(lines.drops(source, 500), lines.flips(source, 500)))
    ) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        shell.upload(text, f"{tmp_path}/script", soon(60))
    assert (tmp_path / "script").read_text() == text


def test_a_script_that_never_arrives_is_the_labs_fault(plain_shell: Shell, tmp_path: Path) -> None:
    plain_shell.run("cksum() { echo 1 1; }", soon())
    with pytest.raises(TransportError, match="arrived damaged"):
        plain_shell.upload("echo hello\n", f"{tmp_path}/script", soon(0.5))


OOPS = "Internal error: Oops: 0000000096000046 [#1] PREEMPT_RT SMP"


@pytest.mark.parametrize("wrap", [lambda inner: inner, OneByte], ids=["whole", "one byte at a time"])
def test_a_kernel_that_dies_ends_every_wait(
    wrap: Callable[[Transport], Transport],
) -> None:
    trace = f"[    6.626902] {OOPS}\n[    6.626933] pc : broken+0xc/0x14\n"
    with opened(wrap(ProgramTransport(["sh"]))) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        began = time.monotonic()
        with pytest.raises(KernelFaultError, match=r"^Internal error: Oops: 0000000096000046"):
            shell.run(f"printf %s {shlex.quote(trace)}; sleep 60", soon())
    assert time.monotonic() - began < 15
    assert b"broken" in shell.log


@pytest.mark.parametrize(("name", "dies"), [("oops", True), ("panic", True), ("hang", False), ("measured-idle", False)])
def test_captured_consoles(name: str, dies: bool) -> None:
    with opened(ProgramTransport(["cat", str(CONSOLES / f"{name}.log")])) as shell:
        with pytest.raises(KernelFaultError if dies else TransportError):
            shell.until(b"never printed", soon())
        assert b"Booting Linux" in shell.log or b"Linux version" in shell.log


def test_silence_ends_with_the_deadline(plain_shell: Shell) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlineError, match=r"the console did not say .* within 0.3 s"):
        plain_shell.run("sleep 60", Deadline.after(0.3))
    assert 0.3 <= time.monotonic() - began < 5


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 60",
        pytest.param("stty echo; exec sleep 60", marks=_LONG),
        pytest.param("exec cat", marks=_LONG),
        "stty echo; exec cat",
    ],
)
def test_what_does_not_answer_is_no_shell(script: str) -> None:
    began = time.monotonic()
    hang = pytest.raises(HangError, match=r"no shell answered on the console within 0\.5 s")
    with opened(ProgramTransport(["sh", "-c", script])) as shell, hang:
        shell.find(Deadline.after(0.5))
    assert time.monotonic() - began < 10


EAGER = replace(QUICK, answer=0.1)


def _prompting(script: str) -> str:
    return f'while read -r line; do {script}; printf "target# "; done; exec sleep 60'


def test_a_prompt_without_an_answer_is_no_hang() -> None:
    """A hung kernel shows no prompt: then the line has lost what was typed."""
    began = time.monotonic()
    lossy = pytest.raises(TransportError, match="shows its prompt and never answers")
    with opened(ProgramTransport(["sh", "-c", f"trap '' INT; {_prompting(':')}"]), EAGER) as shell, lossy:
        shell.prompt = b"target# "
        shell.find(Deadline.after(0.5))
    assert 1.5 <= time.monotonic() - began < 10


def test_a_shell_that_shows_its_prompt_is_asked_longer() -> None:
    answering = 'n=$((n + 1)); [ $n -lt 12 ] || eval "$line"'
    with opened(ProgramTransport(["sh", "-c", f"trap '' INT; n=0; {_prompting(answering)}"]), EAGER) as shell:
        shell.prompt = b"target# "
        shell.find(Deadline.after(0.8))
        assert shell.again >= 4


@pytest.mark.parametrize("gently", [True, pytest.param(False, marks=_LONG)])
def test_a_shell_that_answers_slowly_is_no_hang(gently: bool) -> None:
    """Each answer takes three times as long as the first question waits; Ctrl-C loses what was not read yet."""
    slow = "trap '' INT; while sleep 0.3; read -r line; do eval \"$line\"; done; exec sleep 60"
    with opened(ProgramTransport(["sh", "-c", slow]), EAGER) as shell:
        # A busy machine answers more slowly still; always asking too early would not end within any time.
        shell.find(Deadline.after(20), gently=gently)


def test_a_hang_after_some_prompts_is_a_hang() -> None:
    dying = "n=$((n + 1)); [ $n -lt 7 ] || exec sleep 60"
    with opened(ProgramTransport(["sh", "-c", f"trap '' INT; n=0; {_prompting(dying)}"]), EAGER) as shell:
        shell.prompt = b"target# "
        with pytest.raises(HangError):
            shell.find(Deadline.after(0.5))


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
        reader = collect.frames(shell, frames, NONCE, 20)
    assert (reader.payload(), shell.again) == (DATA, 0)
    assert (tmp_path / "script").read_text() == "echo hello\n" * 100


# --- a line that loses and changes what is typed


def changing(*changes: tuple[bytes, bytes]) -> lines.Change:
    """Replace each text once, where it comes first."""
    left = list(changes)

    def change(data: bytes) -> bytes:
        for old, new in list(left):
            if old in data:
                data = data.replace(old, new, 1)
                left.remove((old, new))
        return data

    return change


@contextmanager
def plain_on(line: Line) -> Iterator[Shell]:
    with opened(line) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        yield shell


def test_a_command_that_arrives_damaged_is_not_carried_out(tmp_path: Path) -> None:
    line = Line(ProgramTransport(["sh"]), outward=changing((b"/right", b"/wrong"), (b"eval", b"eral"), (b"cksum", b"")))
    with plain_on(line) as shell:
        assert shell.sure(f": >{tmp_path}/right", soon())[0] == 0
        assert shell.again > 0
    assert [path.name for path in tmp_path.iterdir()] == ["right"]


def test_a_failure_is_believed_when_the_command_arrived_whole(plain_shell: Shell) -> None:
    plain_shell.run(":", soon())
    assert plain_shell.sure("(exit 3)", soon())[0] == 3
    assert plain_shell.again == 0


@pytest.mark.parametrize(
    "change", [(b"MRK", b"M\xd2K"), (b":0:0.", b":0:1."), (b":0:0.", b":127:0."), (b":0:0.", b":0:")]
)
def test_an_exit_code_that_arrives_damaged_is_asked_for_again(change: tuple[bytes, bytes]) -> None:
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        shell.transport = Line(shell.transport, lines.by_line(changing(change)))
        began = time.monotonic()
        assert shell.run("true", soon())[0] == 0
        assert time.monotonic() - began < 10
        assert shell.again == 1


def test_a_command_that_got_lost_has_no_exit_code(plain_shell: Shell) -> None:
    plain_shell.run("(exit 7)", soon())
    plain_shell.transport = Line(plain_shell.transport, outward=changing((b"=$?", b"")))
    assert plain_shell.run("true", soon())[0] == UNKNOWN


@pytest.mark.parametrize(
    "typed",
    [
        "echo 'half a line",
        pytest.param('echo "half a line', marks=_LONG),
        pytest.param("echo `half", marks=_LONG),
        pytest.param("(", marks=_LONG),
        pytest.param("cat <<X", marks=_LONG),
        pytest.param("sleep 60", marks=_LONG),
        "cat",
    ],
)
def test_a_shell_that_waits_for_something_else_is_freed(typed: str) -> None:
    with opened(ProgramTransport(["sh", "-c", ECHOING])) as shell:
        shell.find(soon())
        shell.transport.write(f"{typed}\n".encode())
        shell.find(soon())
        assert shell.run("(exit 5)", soon())[0] == 5


def test_a_plain_shell_that_waits_for_something_else_is_freed(plain_shell: Shell) -> None:
    plain_shell.transport.write(b"echo 'half a line\n")
    plain_shell.find(soon())
    assert plain_shell.sure("(exit 5)", soon())[0] == 5


def test_output_that_noise_has_stopped_goes_on() -> None:
    with opened(ProgramTransport(["sh", "-c", ECHOING])) as shell:
        shell.find(soon())
        shell.transport.write(b"\x13")
        shell.find(soon())


def test_noise_does_not_end_what_a_plain_shell_runs(plain_shell: Shell) -> None:
    """Ctrl-S, Ctrl-Z and Ctrl-\\, each one changed bit away from a letter or a backslash."""
    plain_shell.run(":", soon())
    plain_shell.transport.write(b"sleep 0.3; echo survived\n\x13\x1a\x1c\n")
    plain_shell.until(b"survived", soon())


def modes(shell: Shell) -> bytes:
    found = re.search(rb"[0-9a-f]+(?::[0-9a-f]+){9,}", shell.run("stty -g", soon())[1])
    assert found
    return found[0]


def test_a_console_is_left_as_it_was() -> None:
    with opened(ProgramTransport(["sh", "-c", ECHOING])) as shell:
        shell.find(soon())
        before = modes(shell)
        shell.start_plain_shell(soon())
        assert b"echo" not in shell.run("echo hello", soon())[1]
        for _ in range(2):  # a second time must not end the outer shell
            shell.leave()
            shell.find(soon())
        assert modes(shell) == before
        assert b"echo hello" in shell.run("echo hello", soon())[1]


@pytest.mark.parametrize(("program", "there"), [("cksum", True), ("no-such-program", False)])
def test_a_missing_program_is_noticed(plain_shell: Shell, program: str, there: bool) -> None:
    assert plain_shell.has(program, soon()) is there


def test_a_target_that_cannot_write_says_so(plain_shell: Shell, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot write a script: exit code") as caught:
        plain_shell.upload("echo hello\n", f"{tmp_path}/nowhere/script", soon())
    assert not isinstance(caught.value, TransportError)


# --- a target that does not live on

BOOT = "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x411fd070]\n"


def test_a_boot_in_a_settled_session_is_a_death(plain_shell: Shell) -> None:
    plain_shell.settled = True
    with pytest.raises(KernelFaultError, match="started again by itself: Booting Linux on physical CPU"):
        plain_shell.run(f"printf %s {shlex.quote(BOOT)}; sleep 60", soon())


def test_a_boot_before_that_is_none(plain_shell: Shell) -> None:
    assert plain_shell.run(f"printf %s {shlex.quote(BOOT)}", soon())[0] == 0


def test_a_target_that_was_told_to_stop_is_not_dead(plain_shell: Shell) -> None:
    plain_shell.settled = True
    with pytest.raises(InfrastructureError, match=r"a program had the target stopped: .*reboot: Restarting system"):
        plain_shell.run("echo '[    9.0] reboot: Restarting system'; sleep 60", soon())


def test_a_complaint_of_the_kernel_does_not_end_anything(plain_shell: Shell) -> None:
    assert plain_shell.run("echo '[    9.000000] BUG: using smp_processor_id() in preemptible'", soon())[0] == 0


def test_a_death_is_seen_on_a_line_without_line_feeds() -> None:
    with opened(Line(ProgramTransport(["sh"]), lines.ends("\r"))) as shell:
        shell.find(soon())
        with pytest.raises(KernelFaultError, match=r"^Internal error: Oops"):
            shell.run(f"echo '[    6.626902] {OOPS}'; echo; sleep 60", soon())
