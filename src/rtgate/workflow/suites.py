# SPDX-License-Identifier: MIT
"""The suites: how pytest is started on them, and which cases they have."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rtgate import site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.job import cases as cases_file
from rtgate.measure.case import Case
from rtgate.report.notices import step_printer

_COLLECT_S = 120.0  # a few seconds on a quiet machine


def names() -> tuple[str, ...]:
    """Return the names of all suites, of rtgate's and of the site's."""
    return tuple(sorted({path.name for layer in _layers() for path in layer.glob("*/") if path.name.isidentifier()}))


def _layers() -> list[Path]:
    """Return the directories that have suites, the winner first."""
    return [layer.directory / "tests" for layer in site.layers() if (layer.directory / "tests").is_dir()]


def directories(suites: Sequence[str] = ()) -> list[str]:
    """Return the directories of suites, of all without a name. Raises ConfigError for one that nobody has."""
    layers = _layers()
    paths = []
    for suite in suites:
        places = [layer / suite for layer in layers if suite.isidentifier() and (layer / suite).is_dir()]
        if not places:
            raise ConfigError(f"unknown suite {suite!r} (allowed: {', '.join(names())})")
        paths += places
    return [str(path) for path in paths or layers]


def command(suites: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the command that runs suites with pytest's options. Raises ConfigError."""
    root = str(site.shipped_directory())
    # Their own configuration: a site's suites have none, and that of where rtgate is called is about other tests.
    how = ["-c", f"{root}/tests/pytest.ini", "--rootdir", root, "-q", "-p", "no:cacheprovider"]
    # No conftest.py: pytest runs those of all directories above a suite, and into /tmp anybody may put one.
    how.append("--noconftest")
    # -P: no module of the current directory, which in a pipeline holds the files of a merge request.
    return [sys.executable, "-P", "-m", "pytest", *directories(suites), *how, *options]


def environment() -> dict[str, str]:
    """Return the environment that suites run in.

    pytest loads no plugin there only because a package has it: it could change a gate, and takes its time to load.
    """
    return {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def cases(suites: Sequence[str], profile: str, tuning: str, select: str = "", board: str = "") -> tuple[Case, ...]:
    """Return the cases of suites, as pytest collects them: of a board those that the profile has there.

    Raises:
        ConfigError: a suite, the profile or a test file is wrong, or nothing is left to measure.
        InfrastructureError: this machine is too busy.
    """
    with tempfile.TemporaryDirectory(prefix="rtgate-") as name:
        path = Path(name) / "cases.json"
        options = ["--collect-only", "--cases", str(path), "--profile", profile, "--tuning", tuning]
        options += ["--board", board] if board else []
        argv = command(suites, [*options, *(["-k", select] if select else [])])
        try:
            with step_printer("listing the cases of the suites"):
                process = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_COLLECT_S,
                    check=False,
                    env=environment(),
                )
        except subprocess.TimeoutExpired as error:
            busy = f"pytest did not list the cases of the suites within {_COLLECT_S:.0f} s"
            raise InfrastructureError(f"{busy}: this machine is too busy, try again when it has less to do") from error
        if process.returncode or not path.is_file():
            last = " / ".join((process.stdout + process.stderr).strip().splitlines()[-3:])
            names = f" {', '.join(suites)}" if suites else ""
            raise ConfigError(f"the suites{names} have no cases to measure: {last}")
        return cases_file.read(path)
