# SPDX-License-Identifier: MIT
"""How long a review takes until its note stands: one changed C file, the default policy, compiler caches warm.

`python -m bench.reviews` makes a repository of the pinned kernel source in a temporary directory, and reviews a change
of it twice: with no boot known, then with those of the baseline. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import ROOT
from bench.kernel_repository import KernelRepository

NOT_EXECUTED = 5
GOALS_S = {"nothing was booted before": 360, "the baseline was": 240}


def main() -> None:
    """Measure, and print a line for each review."""
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        work = Path(name)
        repository = KernelRepository.at(work / "linux")
        _change(repository, "warm", 0)
        _review(repository, "warm", work)  # compiles what no cache has yet
        for number, (what, goal) in enumerate(GOALS_S.items(), 1):
            _change(repository, f"change-{number}", number)
            environment = {"RTGATE_KEEP_BOOTS": "no"} if number == 1 else {}
            began = time.monotonic()
            _review(repository, f"change-{number}", work, environment)
            seconds = time.monotonic() - began
            print(f"review of one changed C file, {what}: {seconds:.0f} s (goal {goal} s)", flush=True)


def _change(repository: KernelRepository, branch: str, number: int) -> None:
    edits = {"kernel/time/hrtimer.c": lambda text: f"{text}\nint rtgate_bench_{number};\n"}
    repository.branch(branch, branch, edits)


def _review(repository: KernelRepository, branch: str, work: Path, environment: dict[str, str] | None = None) -> None:
    """Review a branch, whose change no boot executes. Exits when the review does not end with that answer."""
    program = shutil.which("rtgate") or str(ROOT / ".venv/bin/rtgate")
    argv = [program, "review", "--tree", str(repository.path), "--base", "main", "--head", branch]
    argv += ["-o", str(work / branch)]
    code = subprocess.run(argv, cwd=work, env={**os.environ, **(environment or {})}, check=False).returncode
    if code != NOT_EXECUTED:
        sys.exit(f"the review of {branch} ended with exit code {code}, not {NOT_EXECUTED}")


if __name__ == "__main__":
    main()
