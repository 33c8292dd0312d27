# SPDX-License-Identifier: MIT
"""The host's own account of who waited for a processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rtgate.console.faults import Fault, FaultKind
from rtgate.target import host
from rtgate.target.host import waited_s
from rtgate.target.outcome import Outcome, State

BUSY = "while True: pass"


@pytest.fixture
def two_on_one_processor() -> Iterator[int]:
    """Two that never sleep, on one processor: each waits about half of the time."""
    processor = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        for _ in range(2):
            child = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(child.kill)
            os.sched_setaffinity(child.pid, {processor})
        yield child.pid


def test_a_process_that_waits_for_a_processor_is_known(two_on_one_processor: int) -> None:
    end = time.monotonic() + 20
    while (waited_s(two_on_one_processor) or 0.0) < 0.3:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_one_that_sleeps_waits_for_none() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        time.sleep(0.5)
        waited = waited_s(child.pid)
        assert waited is not None
        assert waited < 0.3
        child.kill()


def test_nothing_is_known_of_a_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert waited_s(child.pid) is None


def test_a_process_that_is_stopped_is_told_from_one_that_waits() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert host.why_stopped(child.pid) == ""
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
            assert host.why_stopped(child.pid) == "state T"
        finally:
            child.kill()  # or its end would be waited for
    assert host.why_stopped(child.pid) == ""


@pytest.mark.parametrize(
    ("state", "stopped", "waited", "blamed"),
    [
        (State.NO_BOOT, "this host was suspended for 60 s", 0.0, True),
        (State.HANG, "this host was suspended for 60 s", 0.0, True),
        (State.MEASURED, "this host was suspended for 60 s", 0.0, True),  # its clock went on: it measured the stop
        (State.HANG, "", 0.0, False),
        (State.MEASURED, "", 0.0, False),
        (State.FAULT, "this host was suspended for 60 s", 0.0, False),
        (State.HANG, "this host was suspended for 60 s", None, True),  # a board of a lab: we waited for it, late
        (State.MEASURED, "this host was suspended for 60 s", None, False),  # it measured by itself
    ],
)
def test_what_this_host_stopped_is_its_own_fault(
    state: State, stopped: str, waited: float | None, *, blamed: bool
) -> None:
    outcome = Outcome(state=state, host_wait=waited, host_stopped=stopped)
    expected = "this host was suspended for 60 s, which is not the kernel's fault; measure again"
    assert host.excuse(state, outcome) == (expected if blamed else "")


def test_a_kernel_that_died_is_not_excused_by_a_pause() -> None:
    died = Fault(kind=FaultKind.PANIC, line="Kernel panic - not syncing: test", text="Kernel panic")
    outcome = Outcome(
        state=State.NO_BOOT, host_wait=0.0, host_stopped="this host was suspended for 60 s", faults=(died,)
    )
    assert host.excuse(State.NO_BOOT, outcome) == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_frozen_process_is_known(freezer: Callable[[int, int], None], version: int) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        freezer(version, child.pid)
        assert host.why_stopped(child.pid) == "frozen by a control group"
    finally:
        freezer(version, 0)
        child.kill()
        child.wait(20)
