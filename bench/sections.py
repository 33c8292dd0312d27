# SPDX-License-Identifier: MIT
"""Does the judging of critical sections find what it must, and nothing else? Kernels for the answer.

`bench/sections.py` builds every change of selftests/data/sections/changes.yaml and gates it with `--sections` against
the kernel without it. It keeps both answers, that of the samples and that of the sections, and goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rtgate import strict_yaml
from rtgate.files import write_text

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "selftests" / "data" / "sections"
BUILD, BOARD = "virt-arm64-preempt_rt", "virt-arm64"
_KEPT = 10  # sites that grew most


def changes() -> dict[str, tuple[Path, str]]:
    """Return each change's directory and load, by group and name: `planted/fork`."""
    groups = strict_yaml.load(DATA / "changes.yaml").entries()
    return {
        f"{group}/{name}": (DATA / group / name, load.value.text(("idle", "hackbench", "stress-ng")))
        for group, entry in groups.items()
        for name, load in entry.value.entries().items()
    }


def rtgate(*words: object) -> int:
    """Run a command of rtgate; return its exit code."""
    return subprocess.run([sys.executable, "-m", "rtgate", *map(str, words)], cwd=ROOT, check=False).returncode


def build(work: Path, name: str, patches: Path | None) -> Path:
    """Return the kernel with a change, built if it is not there; all patches pass through one copy of the source."""
    kernel = work / "kernels" / name.replace("/", "-")
    if not (kernel / "build.json").is_file():
        series = work / "series"
        shutil.rmtree(series, ignore_errors=True)
        if patches:
            shutil.copytree(patches, series)
        words = ("--patches", series) if patches else ()
        if rtgate("build", BUILD, *words, "-o", kernel) != 0:
            sys.exit(f"{name} cannot be built")
    return kernel


def measure(work: Path, name: str, load: str, seeds: str) -> dict[str, Any]:
    """Gate a change, and return what samples and sections say."""
    report = work / "reports" / name.replace("/", "-")
    baseline = build(work, "unpatched", None)
    kernels = ("--kernel", work / "kernels" / name.replace("/", "-"), "--baseline", baseline)
    how = ("--seeds", seeds, "--sections", "--no-explain", "--no-extend", "-k", f"cyclictest and {load}")
    rtgate("gate", "--board", BOARD, *kernels, *how, "-o", report)
    verdicts = json.loads((report / "verdict.json").read_text())["verdicts"]
    (found,) = (report / "records").glob("*/candidate/*/sections.json")
    sections = json.loads(found.read_text())
    said = [one for one in verdicts if one["measurement"] != "critical section"]
    return {
        "case": found.parent.name,
        "samples": {"status": min(said, key=_rank)["status"], "sentences": [one["sentence"] for one in said]},
        "sections": {**sections, "longer": sections["longer"][:_KEPT]},
    }


def _rank(verdict: dict[str, Any]) -> int:
    return ("FAIL", "ERROR", "MISS", "DONE", "SKIP", "PASS").index(verdict["status"])


def main() -> None:
    """Build and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="planted/fork (default: all)")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "sections", help="default: %(default)s")
    parser.add_argument("--seeds", default="1-12", metavar="A-B", help="boots of each kernel (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=DATA / "measured.json", help="default: %(default)s")
    arguments = parser.parse_args()
    known = changes()
    results = json.loads(arguments.results.read_text()) if arguments.results.is_file() else {}
    for name in arguments.names or known:
        patches, load = known[name]
        if name in results:
            continue
        build(arguments.work, name, patches)
        results[name] = measure(arguments.work, name, load, arguments.seeds)
        write_text(arguments.results, json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
