# SPDX-License-Identifier: MIT
"""Processes that write into one history at once, all from the first moment: they make its tables, too."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# They wait for a common moment. Of the 60 records of each, 20 are everybody's.
_WRITER = """\
import sys, time
from dataclasses import replace
sys.path.insert(0, {root!r})
from selftests.unit.history.conftest import origin, record
from rtgate.history.store import store

writer, url, begin = sys.argv[1], sys.argv[2], float(sys.argv[3])
shared = [replace(record(1), boot_id=f"shared-{{number}}") for number in range(20)]
own = [replace(record(1), boot_id=f"{{writer}}-{{number}}") for number in range(40)]
mixed = sorted(shared + own, key=lambda one: hash((one.boot_id, writer)))
time.sleep(max(0.0, begin - time.time()))
new = 0
for start in range(0, 60, 3):
    new += store(url, mixed[start : start + 3], origin(f"run-{{writer}}")).new
print(new)
"""
SHARED, OWN = 20, 40


def write_at_once(url: str, writers: int) -> list[int]:
    """Let so many processes write, and return how many new records each believes to have stored."""
    begin = time.time() + 1.0 + 0.7 * writers  # Python and SQLAlchemy need a while to start
    script = _WRITER.format(root=str(ROOT))
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(number), url, str(begin)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    said = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * writers, said
    return [int(out) for out, _ in said]
