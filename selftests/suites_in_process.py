# SPDX-License-Identifier: MIT
"""The suites of a gate in the process of the test.

Most of the time of a gate with a fake QEMU is Python's start with its imports. `cli/test_gate.py` has gates whose
suites are a process of their own, as users' are.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from rtgate.lava.job import cases as cases_file
from rtgate.measure.case import Case
from rtgate.workflow import suite_process, suites

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # the plugin ignores SIGTERM when its session ends


def use_this_process(patch: pytest.MonkeyPatch) -> None:
    """Let gates run their suites in this process."""
    patch.setattr(suite_process, "_run", _run)


def _run(argv: Sequence[str], log: Path) -> int:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    words = list(argv[argv.index("pytest") + 1 :])
    try:
        with pytest.MonkeyPatch.context() as patch, log.open("a", encoding="utf-8") as stream, redirect_stdout(stream):
            for name, value in suites.environment().items():
                patch.setenv(name, value)
            return int(pytest.main([*words, "--capture=no"]))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listed_cases(profile: str, directory: Path) -> dict[str, Case]:
    """Return the cases of all suites that a profile selects, by name, on a board that it does not name."""
    path = directory / f"{profile}.json"
    words = ["--collect-only", "--cases", str(path), "--profile", profile, "--tuning", "default"]
    assert _run(suites.command((), words), directory / "log") == 0
    return {case.name: case for case in cases_file.read(path)}
