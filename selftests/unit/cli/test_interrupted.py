# SPDX-License-Identifier: MIT
"""Ctrl-C at random moments: exit code 130 or the usual one, no traceback, nothing left behind."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# `make test-all` and people set more moments per command; a seed that failed can be given again.
MOMENTS = int(os.environ.get("RTGATE_INTERRUPTIONS", "1"))
SEED = int(os.environ.get("RTGATE_INTERRUPTION_SEED", "0")) or random.randrange(1, 10**9)
RTGATE = (sys.executable, "-m", "rtgate")
LAVA_TOOL = (sys.executable, "-c", "from rtgate.__main__ import lava_tool; raise SystemExit(lava_tool())")
_FRAME = re.compile(r'File "[^"]*/rtgate/([^"]*)", line \d+, in (\S+)')


@pytest.mark.parametrize(
    "argv",
    [
        (*RTGATE, "--help"),
        (*RTGATE, "gate", "--help"),
        (*RTGATE, "check"),
        (*RTGATE, "where", "virt-arm64"),
        (*RTGATE, "build", "virt-arm64-preempt_rt", "--tree", "/nowhere"),
        (*RTGATE, "report", "nothing-here"),
        (*RTGATE, "history", "show"),
        (*RTGATE, "trend", "--board", "virt-arm64"),
        (*RTGATE, "explain", "nothing-here"),
        (*RTGATE, "plan", "--board", "virt-arm64"),
        (*RTGATE, "compare-env", "nothing-here", "nor-here"),
        (*LAVA_TOOL, "--help"),
    ],
    ids=lambda argv: "-".join(word for word in argv[2:4] if " " not in word),
)
def test_control_c_at_any_moment_ends_a_command_in_order(argv: tuple[str, ...], tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {argv}")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "RTGATE_CACHE": str(tmp_path / "cache")}
    (tmp_path / "cache").mkdir()
    began = time.monotonic()
    usual = _run(argv, None, environment)
    length_s = time.monotonic() - began
    for _ in range(MOMENTS):
        moment_s = chance.uniform(0, length_s)
        code, said = _run(argv, moment_s, environment)
        told = f"seed {SEED}, after {moment_s:.3f} s: exit code {code}\n{said}"
        if "Traceback" in said and set(_FRAME.findall(said)) <= {("__main__.py", "<module>")}:
            continue  # Python was starting: not even the first function of rtgate's had begun
        assert "Traceback" not in said, told
        assert "Exception ignored" not in said, told
        assert code in (130, usual[0], -signal.SIGINT), told
    assert [path.name for path in tmp_path.iterdir()] == ["cache"], f"seed {SEED}"


def _run(argv: tuple[str, ...], moment_s: float | None, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command; after `moment_s` send SIGINT to its process group, as a terminal does."""
    child = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True, text=True
    )
    if moment_s is not None:
        time.sleep(moment_s)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)  # nothing of the group is left
    return child.returncode, said
