# SPDX-License-Identifier: MIT
from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from rtgate.errors import BuildLimitError
from rtgate.kernel import build_limits
from rtgate.kernel.build_limits import BuildLimits, Watch


def test_time_is_limited_also_where_no_program_can_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where the build itself has started all processes that its user may have."""

    def run(*_: object, **__: object) -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(build_limits, "_POLL_S", 0.01)
    monkeypatch.setattr(build_limits, "is_full", lambda _: False)
    stops: list[str] = []
    watch = Watch(BuildLimits(time_s=0.1), (tmp_path,), lambda: stops.append("stopped"))
    watch.follow()
    assert stops == ["stopped"]
    with pytest.raises(BuildLimitError, match="took longer than"):
        watch.check()
