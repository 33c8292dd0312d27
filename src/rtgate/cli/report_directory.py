# SPDX-License-Identifier: MIT
"""The directory that gets a report: nobody else's, and held by one rtgate at a time."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel.lock import exclusive_lock

_OURS = frozenset(
    {
        *("records", "allure-results", "index.html", "verdict.json", "junit.xml", "history.jsonl", "measure.log"),
        *("measure-more.log", "judge.log", "lava"),
    }
)


def check_ours(output: Path) -> None:
    """Refuse a report directory that is somebody else's."""
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output} is no directory: name another one with -o")
    if output.is_dir():
        others = sorted(
            path.name for path in output.iterdir() if path.name not in _OURS and not path.name.startswith(".")
        )
        if others:
            raise ConfigError(
                f"{output} holds something else ({', '.join(others[:3])}): name another directory with -o"
            )


@contextlib.contextmanager
def ours_alone(output: Path) -> Iterator[None]:
    """Hold the report directory: two gates in one would take each other's records away."""
    with contextlib.ExitStack() as stack:
        try:
            output.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive_lock(output / ".lock", str(output)))
        except OSError as error:
            raise InfrastructureError(f"{output} cannot be written: {error.strerror}") from error
        yield


def empty(output: Path) -> None:
    """Make a report directory, or empty the parts of it that are ours; what trends are made from stays."""
    for name in _OURS - {"history.jsonl"}:
        path = output / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)
