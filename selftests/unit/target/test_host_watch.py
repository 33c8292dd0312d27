# SPDX-License-Identifier: MIT
"""What this host did to a boot, from what it looks like to a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from rtgate.target import host_watch
from rtgate.target.host_watch import HostWatch

# Watches a process for six seconds; `pause` is how long a gap between two looks must be.
_WATCHER = """
import subprocess, sys, time
from rtgate.target import host_watch
host_watch.PAUSE_S = 2.5
child = subprocess.Popen(["sleep", "60"])
with host_watch.HostWatch(child.pid) as watch:
    print("watching", flush=True)
    sys.stdin.readline()
    print(watch.stop_reason(), flush=True)
child.kill()
"""


def test_a_stop_of_qemu_alone_is_seen_although_it_goes_on_later() -> None:
    with subprocess.Popen(["sleep", "60"]) as child, HostWatch(child.pid) as watch:
        child.send_signal(signal.SIGSTOP)
        time.sleep(6)
        child.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        assert re.fullmatch(r"this host stopped QEMU \(state T\) for [1-9] s", watch.stop_reason())
        child.kill()


@pytest.mark.long("waits for seconds; a stop of QEMU alone is in make test")
def test_a_stop_of_rtgate_and_qemu_together_is_seen_afterwards() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WATCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as group:
        assert group.stdout is not None
        assert group.stdout.readline() == "watching\n"
        os.killpg(group.pid, signal.SIGSTOP)
        time.sleep(4)
        os.killpg(group.pid, signal.SIGCONT)
        said, _ = group.communicate("\n", timeout=30)
    assert re.match(r"this host stopped rtgate and QEMU for [4-9] s", said)


@pytest.mark.parametrize(
    ("clocks", "pid", "expected"),
    [
        ([(0.0, 0.0), (1.0, 1.0)], None, ""),
        ([(0.0, 0.0), (1.0, 3601.0)], None, "this host was suspended for 3600 s"),
        ([(0.0, 0.0), (60.0, 60.0)], None, "this host stopped rtgate for 60 s"),
        ([(0.0, 0.0), (10.0, 10.0)], None, ""),  # a busy host
        ([(0.0, 0.0), (60.0, 90.0)], None, "this host was suspended for 30 s and this host stopped rtgate for 60 s"),
        ([(0.0, 0.0), (60.0, 60.0)], os.getpid(), "this host stopped rtgate and QEMU for 60 s"),
    ],
    # Processes that collect tests side by side have other numbers, and must collect the same.
    ids=["nothing", "suspended", "stopped", "busy", "suspended and stopped", "stopped with QEMU"],
)
def test_what_the_clocks_tell(
    monkeypatch: pytest.MonkeyPatch, clocks: list[tuple[float, float]], pid: int | None, expected: str
) -> None:
    readings = iter(clocks)
    monkeypatch.setattr(host_watch, "_clocks", lambda: next(readings))
    assert HostWatch(pid).stop_reason() == expected


def test_a_wall_clock_that_steps_is_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(range(0, 10**9, 86400))
    monkeypatch.setattr(time, "time", lambda: float(next(steps)))
    watch = HostWatch(None)
    assert watch.stop_reason() == ""
    assert watch.stop_reason() == ""
