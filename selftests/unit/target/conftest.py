# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Where control groups of version 1 (its freezer) and of version 2 are, as systemd and others mount them.
_FREEZERS = {1: ("/sys/fs/cgroup/freezer",), 2: ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")}


@pytest.fixture
def freezer() -> Iterator[Callable[[int, int], None]]:
    """Freeze a process in a control group of this version; 0 thaws. Skips where no group can be made."""
    made: dict[int, Path] = {}

    def set_state(version: int, pid: int) -> None:
        name, off, on = ("freezer.state", "THAWED", "FROZEN") if version == 1 else ("cgroup.freeze", "0", "1")
        if version not in made:
            made[version] = _group(version)
        if pid:
            (made[version] / "cgroup.procs").write_text(str(pid))
        (made[version] / name).write_text(on if pid else off)
        shows, expected = ("freezer.state", on) if version == 1 else ("cgroup.events", "frozen 1")
        end = time.monotonic() + 20
        while pid and expected not in (made[version] / shows).read_text() and time.monotonic() < end:
            time.sleep(0.02)

    yield set_state
    for version, directory in made.items():
        set_state(version, 0)
        end = time.monotonic() + 20
        while (directory / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        directory.rmdir()


def _group(version: int) -> Path:
    for place in _FREEZERS[version]:
        directory = Path(place) / f"rtgate-test-{os.getpid()}"
        try:
            directory.mkdir()
        except OSError:
            continue
        if (directory / ("freezer.state" if version == 1 else "cgroup.freeze")).exists():
            return directory
        directory.rmdir()
    pytest.skip(f"no freezer of control groups version {version} can be used here")
