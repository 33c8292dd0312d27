# SPDX-License-Identifier: MIT
"""A command that takes long to load is not silent."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rtgate.cli import lava_tool, main

_PROGRAM = "import sys; from rtgate import __main__; sys.exit(__main__._run('slow_to_load', 'rtgate'))"
_SLOW = """
import signal, time
end = time.monotonic() + 6
while time.monotonic() < end:
    time.sleep(0.1)

def main():
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(4)
    return 0
"""

_INTERRUPTED = """
import atexit

def main():
    atexit.register(print, "the last words of a library")
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130
"""


@pytest.mark.long("waits 10 s; that a quick command says nothing is in make test")
def test_to_load_for_long_is_said_until_the_command_begins(tmp_path: Path) -> None:
    (tmp_path / "slow_to_load.py").write_text(_SLOW)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "rtgate: loading\nrtgate: loading\n")


def test_an_interruption_in_a_dataclass_that_is_made_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "slow_to_load.py").write_text(_INTERRUPTED)
    (tmp_path / "program.py").write_text(_PROGRAM)
    # As a module: a script's SystemExit ends Python at another place, which does not look.
    done = subprocess.run(
        [sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "the last words of a library\n", "")


def test_a_text_that_ends_the_program_is_printed(tmp_path: Path) -> None:
    (tmp_path / "slow_to_load.py").write_text("def main():\n    raise SystemExit('a package is missing')\n")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "rtgate: a package is missing\n")


@pytest.mark.parametrize(
    ("program", "words"), [(main.main, ["where", "virt-arm64"]), (lava_tool.main, ["job-status", "nowhere", "1"])]
)
def test_a_command_that_python_calls_leaves_the_timer_of_its_caller(
    program: Callable[[Sequence[str]], int], words: list[str]
) -> None:
    """It is the deadline of every test here."""
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    program(words)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0


@pytest.mark.parametrize("command", ["judge", "gate"])
def test_a_command_loads_the_library_of_plots_only_to_draw(command: str) -> None:
    program = f"import sys, rtgate.cli.{command}; print([name for name in sys.modules if name == 'matplotlib'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
