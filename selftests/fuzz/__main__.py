# SPDX-License-Identifier: MIT
"""Fuzz targets one after another: `python -m selftests.fuzz SECONDS [TARGET...]`.

What is found goes to `crashes/TARGET/`, and is tried first the next time; what was learnt goes to `corpus/TARGET/`.
Exit codes: 0 nothing was found, 1 something was, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from selftests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
LONGEST_S = 10  # one input may take no longer
MEMORY_MIB = 1024


def fuzz(name: str, seconds: int) -> str:
    """Fuzz a target for some seconds; return what was found, empty for nothing."""
    crashes, corpus = HERE / "crashes" / name, HERE / "corpus" / name
    with tempfile.TemporaryDirectory() as scratch:
        seeds = Path(scratch, "seeds")
        for directory in (crashes, corpus, seeds):
            directory.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(TARGETS[name].seeds):
            (seeds / str(number)).write_bytes(seed)
        options = (f"-max_total_time={seconds}", f"-timeout={LONGEST_S}", f"-rss_limit_mb={MEMORY_MIB}")
        done = subprocess.run(
            [sys.executable, "-m", "selftests.fuzz.one", name, f"-artifact_prefix={crashes}/", *options]
            + [str(directory) for directory in (corpus, seeds, crashes)],
            cwd=HERE.parents[1],
            env={**os.environ, "TMPDIR": scratch},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    runs = re.findall(r"^(?:#|Done )([0-9]+)\b.*?", done.stdout, re.MULTILINE)
    rates = re.findall(r"exec/s: ([0-9]+)", done.stdout)
    print(f"{name:20} {runs[-1] if runs else 0:>9} runs {rates[-1] if rates else 0:>7}/s", end="  ", flush=True)
    if done.returncode == 0:
        return ""
    reason = re.search(r"=== Uncaught Python exception: ===\n(.*)|ERROR: libFuzzer: (.*)", done.stdout)
    kept = re.search(r"Test unit written to (.*)", done.stdout)
    said = (reason[1] or reason[2]) if reason else f"exit code {done.returncode}\n{done.stdout[-2000:]}"
    return f"{said}\n    {kept[1] if kept else 'no input was kept'}"


def main(seconds: str = "", *names: str) -> int:
    """Fuzz the targets of these names, or all; return the exit code."""
    unknown = sorted(set(names) - set(TARGETS))
    if unknown or not seconds.isdecimal():
        print(f'usage: make fuzz [SECONDS=N] [TARGET="NAME..."]; targets: {", ".join(TARGETS)}', file=sys.stderr)
        return 2
    found = 0
    for name in names or TARGETS:
        finding = fuzz(name, int(seconds))
        print(f"FOUND {finding}" if finding else "nothing found", flush=True)
        found += bool(finding)
    print(f"fuzz: {len(names or TARGETS)} targets, {found} with a finding")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
