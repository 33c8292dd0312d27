# SPDX-License-Identifier: MIT
"""preemptirq's script in the shells of targets, with a file in place of the driver's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from selftests.unit.tools.test_preemptirq import SETTING, TOOL

SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"], "mksh": ["mksh"]}
FILE = "/dev/rtgate_sections"
MEASURING = "ls -l /proc/self/fd >open; cat node >written; exit 7"


def run(shell: str, directory: Path, node: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a command in place of cyclictest's."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not installed")
    script = TOOL.argv(SETTING)[2]
    assert FILE in script
    return subprocess.run(
        [*SHELLS[shell], "-c", script.replace(FILE, str(node)), "sh", "sh", "-c", command],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_the_driver_follows_while_the_command_runs_and_gives_its_result_afterwards(shell: str, tmp_path: Path) -> None:
    node = tmp_path / "node"
    done = run(shell, tmp_path, node, MEASURING)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    assert (tmp_path / "written").read_text() == "99\n"
    # Whoever has it open keeps the run going: only the shell does.
    assert str(node) not in (tmp_path / "open").read_text()
    assert (tmp_path / "sections.json").read_text() == "99\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_driver_that_refuses_is_not_measured_with(shell: str, tmp_path: Path) -> None:
    done = run(shell, tmp_path, Path("/dev/full"), "touch started")
    assert done.returncode
    assert not (tmp_path / "started").exists()
    assert done.stderr
