# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtgate.errors import InfrastructureError
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
    for lock in (exclusive_lock(tmp_path / "x", "out"), waiting_lock(tmp_path / "x")):
        with pytest.raises(KeyboardInterrupt), lock:
            raise KeyboardInterrupt
