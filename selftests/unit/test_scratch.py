# SPDX-License-Identifier: MIT
from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rtgate.files import scratch


def test_what_nobody_holds_is_removed_and_what_somebody_holds_stays(tmp_path: Path) -> None:
    for name in ("run-killed", "other"):
        (tmp_path / name).mkdir()
    with scratch(tmp_path, "run-") as first, scratch(tmp_path, "run-") as second:
        assert set(tmp_path.iterdir()) == {first, second, tmp_path / "other"}
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def _interrupted_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that Ctrl-C interrupts the first time."""
    left = [KeyboardInterrupt()]

    def called(*words: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return function(*words, **more)

    return called


@pytest.mark.parametrize(("module", "name"), [(shutil, "rmtree"), (fcntl, "flock")])
def test_an_interrupt_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(module, name, _interrupted_once(getattr(module, name)))
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path, ".new-") as place:
        (place / "file").touch()
    assert list(tmp_path.iterdir()) == []
