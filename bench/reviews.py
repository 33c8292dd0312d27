# SPDX-License-Identifier: MIT
"""How long a review takes until its note stands: one changed C file, the default policy, compiler caches warm.

`python bench/reviews.py` makes a repository of the pinned kernel source in a temporary directory, and reviews a change
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

from rtgate.kernel.source import default_tree

ROOT = Path(__file__).resolve().parents[1]
WHO = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "-c", "commit.gpgsign=false")
GOALS_S = {"nothing was booted before": 360, "the baseline was": 240}


def main() -> None:
    """Measure, and print a line for each review."""
    with tempfile.TemporaryDirectory(prefix="rtgate-bench-") as name:
        work = Path(name)
        tree = _repository(work / "linux")
        _change(tree, "warm", 0)
        _review(tree, "warm", work)  # compiles what no cache has yet
        for number, (what, goal) in enumerate(GOALS_S.items(), 1):
            _change(tree, f"change-{number}", number)
            environment = {"RTGATE_KEEP_BOOTS": "no"} if number == 1 else {}
            began = time.monotonic()
            code = _review(tree, f"change-{number}", work, environment)
            seconds = time.monotonic() - began
            print(
                f"review of one changed C file, {what}: {seconds:.0f} s (goal {goal} s; exit code {code})", flush=True
            )


def _repository(tree: Path) -> Path:
    # Other builds of the tree may have left a log there.
    shutil.copytree(default_tree().path, tree, symlinks=True, ignore=shutil.ignore_patterns("rtgate-build*"))
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", tree], check=True)
    _git(tree, "add", "--all", "--force")
    _git(tree, "commit", "--quiet", "--message", "base")
    return tree


def _change(tree: Path, branch: str, number: int) -> None:
    _git(tree, "checkout", "--quiet", "-b", branch, "main")
    with (tree / "kernel" / "time" / "hrtimer.c").open("a", encoding="utf-8") as source:
        source.write(f"\nint rtgate_bench_{number};\n")
    _git(tree, "commit", "--quiet", "--all", "--message", branch)
    _git(tree, "checkout", "--quiet", "main")


def _review(tree: Path, branch: str, work: Path, environment: dict[str, str] | None = None) -> int:
    program = shutil.which("rtgate") or str(ROOT / ".venv/bin/rtgate")
    argv = [program, "review", "--tree", str(tree), "--base", "main", "--head", branch, "-o", str(work / branch)]
    return subprocess.run(argv, cwd=work, env={**os.environ, **(environment or {})}, check=False).returncode


def _git(tree: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, "-C", str(tree), *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
