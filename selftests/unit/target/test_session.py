# SPDX-License-Identifier: MIT
"""A target that fell silent: whether it lives, in the same boot, and what its kernel says then."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtgate.board import boards
from rtgate.console.faults import FaultKind, scan
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport
from rtgate.durations import Deadline
from rtgate.errors import HangError, KernelFaultError
from rtgate.target.live import AFTER, _PlanRun
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.session import BOOT_ID, Session
from rtgate.tools.loads import load

WAITS = Waits(attach=3, answer=0.5, hang=2, spare=5, dying=0.2)
OTHER = "01234567-89ab-cdef-0123-456789abcdef"
BOOT = "[    0.000000] Booting Linux on physical CPU 0x0\n"
LOG = f"{BOOT}[    9.000000] rcu: INFO: rcu_preempt self-detected stall on CPU\n"


@pytest.fixture
def kernel_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what sets the command that prints the kernel's log."""
    program = tmp_path / "bin" / "dmesg"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    def write(command: str) -> None:
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o755)

    (tmp_path / "log").write_text(LOG)
    write(f"cat {tmp_path}/log")
    return write


@pytest.fixture
def session(kernel_log: Callable[[str], None]) -> Iterator[Session]:
    """Return a target on which something runs that does not end."""
    transport = ProgramTransport(["sh", "-i"])
    try:
        shell = Shell(transport, threading.Event(), waits=WAITS)
        shell.find(Deadline.after(20))
        shell.settled = True
        transport.write(b"sleep 1000; cat >/dev/null\n")
        yield Session(shell)
    finally:
        transport.close()


def _runs(session: Session, path: Path, script: str) -> None:
    """Have a script run on the target, and return once it has printed READY."""
    path.write_text(script)
    session.shell.find(Deadline.after(20))
    session.shell.transport.write(f"sh {path}\n".encode())
    session.shell.until(rb"READY", Deadline.after(20))


def _boot_id() -> str:
    return Path(BOOT_ID).read_text().strip()


def test_what_does_not_end_is_ended_and_the_kernel_may_speak(session: Session) -> None:
    assert session.revive(_boot_id())
    assert {fault.kind for fault in scan(session.shell.log.decode())} == {FaultKind.RCU_STALL}


def _hung(session: Session) -> Outcome:
    plan = Plan(case="c", argv=("true",), load=load("idle", boards.board("virt-arm64")), seed=1, duration_s=1)
    return _PlanRun(session, plan, _boot_id()).hung(HangError("silence"))


def test_what_the_kernel_says_then_is_a_file_of_its_own_and_no_fault(session: Session) -> None:
    before = bytes(session.shell.log)
    found = _hung(session)
    assert found.state is State.HANG
    assert found.message.startswith("the target hung during the measurement: silence; after Ctrl-C it answers; last")
    assert b"detected stall" in found.files[AFTER]
    assert session.shell.log == before


@pytest.mark.long("waits for seconds; other silence is in make test")
def test_what_a_target_prints_that_does_not_answer_stays_on_its_console(session: Session, tmp_path: Path) -> None:
    _runs(session, tmp_path / "script", "trap 'echo late words' INT; echo READY; while :; do sleep 1000; done")
    found = _hung(session)
    assert (found.state, dict(found.files)) == (State.HANG, {})
    assert b"late words" in session.shell.log


def test_another_boot_is_not_the_same_target(session: Session) -> None:
    with pytest.raises(KernelFaultError, match="another boot_id"):
        session.revive(OTHER)
    assert "stall" not in session.shell.log.decode()


def test_a_boot_that_nobody_knows_may_be_another(session: Session) -> None:
    assert not session.revive("")
    assert not scan(session.shell.log.decode())  # what the kernel said earlier is none of this measurement


@pytest.mark.long("waits for seconds; other silence is in make test")
def test_a_log_that_cannot_be_read_is_no_death(session: Session, kernel_log: Callable[[str], None]) -> None:
    kernel_log("sleep 1000")
    assert session.revive(_boot_id())


def test_a_kernel_that_dies_of_it_is_dead(session: Session, tmp_path: Path) -> None:
    panic = "trap 'echo Kernel panic - not syncing: VFS; sleep 1000' INT"
    _runs(session, tmp_path / "script", f"{panic}; echo READY; sleep 1000")
    with pytest.raises(KernelFaultError, match="Kernel panic"):
        session.revive(_boot_id())


def test_silence_is_silence(session: Session, tmp_path: Path) -> None:
    _runs(session, tmp_path / "script", "trap '' INT; echo READY; sleep 1000")
    assert not session.revive(_boot_id())
