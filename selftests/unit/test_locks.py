# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtgate.errors import DeadlineError, InfrastructureError
from rtgate.files import exclusive_lock, waiting_lock


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "x"
    with (
        exclusive_lock(lock, "out"),
        pytest.raises(InfrastructureError, match=rf"^out is in use by another rtgate \(process {os.getpid()}\)"),
        exclusive_lock(lock, "out"),
    ):
        pass
    with exclusive_lock(lock, "out"):
        pass


def test_locks_are_released_after_errors(tmp_path: Path) -> None:
    for lock in (exclusive_lock(tmp_path / "x", "out"), waiting_lock(tmp_path / "x", "builds")):
        with pytest.raises(KeyboardInterrupt), lock:
            raise KeyboardInterrupt


HOLD = """
import sys, time
from pathlib import Path
from rtgate.files import waiting_lock
with waiting_lock(Path(sys.argv[1]), "builds"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_is_waited_for_until_its_deadline_and_goes_with_a_killed_holder(tmp_path: Path) -> None:
    lock, said = tmp_path / "x", list[str]()
    with subprocess.Popen([sys.executable, "-c", HOLD, lock], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        who = f"another rtgate (process {holder.pid}) that builds"
        with (
            pytest.raises(DeadlineError, match=rf"^{re.escape(who)} has held .*/x for 0 s: end that process"),
            waiting_lock(lock, "builds", said.append, patience_s=0.3),
        ):
            pass
        assert said == [f"waiting for {who}"]
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with waiting_lock(lock, "builds", said.append, patience_s=10):
            assert lock.read_text() == str(os.getpid())
