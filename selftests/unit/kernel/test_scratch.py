# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

from rtgate.kernel.scratch import scratch


def test_what_nobody_holds_is_removed_and_what_somebody_holds_stays(tmp_path: Path) -> None:
    for name in ("run-killed", "other"):
        (tmp_path / name).mkdir()
    with scratch(tmp_path, "run-") as first, scratch(tmp_path, "run-") as second:
        assert set(tmp_path.iterdir()) == {first, second, tmp_path / "other"}
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]
