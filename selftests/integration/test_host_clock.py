# SPDX-License-Identifier: MIT
"""The host's wall clock is set while a gate runs: the measurements are the same, and so is the verdict.

A preloaded library answers every program of the gate, QEMU too.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selftests.integration.conftest import rtgate

_HOUR = 3600
_STEPS = (_HOUR, -30 * 24 * _HOUR, 600, -2 * _HOUR, 400 * 24 * _HOUR, 0)


@contextmanager
def stepping_clock(directory: Path) -> Iterator[dict[str, str]]:
    """Set the wall clock of programs with this environment twice a second, forwards and back."""
    library, offset, ended = directory / "stepping_clock.so", directory / "offset", threading.Event()
    source = Path(__file__).with_name("stepping_clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", source, "-o", library], check=True)

    def step() -> None:
        for seconds in itertools.cycle(_STEPS):
            offset.write_text(str(seconds))
            if ended.wait(0.5):
                return

    thread = threading.Thread(target=step)
    thread.start()
    try:
        yield {"LD_PRELOAD": str(library), "STEPPING_CLOCK": str(offset)}
    finally:
        ended.set()
        thread.join()


@pytest.mark.long("a gate made twice; deadlines by the monotonic clock have unit tests")
def test_a_wall_clock_that_is_set_changes_nothing(kernel: Path, tmp_path: Path) -> None:
    words = ("gate", "--board", "virt-arm64", "--kernel", kernel, "-k", "idle", "--seeds", "1-4")
    assert rtgate(*words, "-o", tmp_path / "still").returncode == 0
    with stepping_clock(tmp_path) as environment:
        seen = {_year(environment) for _ in range(12)}
        assert len(seen) > 1  # or the clock was not set at all
        # Boots that are not the same to the bit end with another exit code.
        done = rtgate(*words, "--no-boot-cache", "-o", tmp_path / "stepped", timeout=600, **environment)
    assert done.returncode == 0
    assert "PASS" in done.stdout


def _year(environment: dict[str, str]) -> str:
    time.sleep(0.3)
    return subprocess.check_output(["date", "+%Y"], env={**os.environ, **environment}, text=True)
