# SPDX-License-Identifier: MIT
"""`rtgate demo`: gate a kernel that is slow on purpose, and see it found out."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate import site
from rtgate.cli import gate
from rtgate.judge.verdict import Kind, Status
from rtgate.workflow.verdict_file import read_verdicts

DESCRIPTION = """\
Build the board's default kernel with a patch that delays one timer wake-up in a thousand by 70 us
(kernel-configs/patches/demo-slow-wakeup), gate it, and write the report in which it fails. Exit code 0 when the slow
kernel was found out by a limit, 1 when it got through, that of the gate when it was not measured.
"""
_GREEN = frozenset({0, 5})  # passed, or nothing was judged


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--board", default="virt-arm64", help="a virtual board (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"), metavar="DIR", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    patches = site.shipped_directory() / "kernel-configs" / "patches" / "demo-slow-wakeup"
    words = ["--board", arguments.board, "--patches", str(patches), "-o", str(arguments.output)]
    parser = argparse.ArgumentParser()
    gate.add_options(parser)
    code = gate.run(parser.parse_args(words))
    verdicts, _ = read_verdicts(arguments.output / "verdict.json", arguments.output / "records")
    failures = [
        verdict for verdict in verdicts if verdict.status is Status.FAIL and verdict.kind in {Kind.LIMIT, Kind.SHARE}
    ]
    if not failures and code not in _GREEN:
        print(f"demo: no limit found the slow kernel out: the gate ended with exit code {code} for another reason")
        return code
    if not failures:
        print("demo: the slow kernel got through: that is a defect of rtgate or of its limits")
        return 1
    page = arguments.output / "index.html"
    report = page if page.exists() else arguments.output / "junit.xml"
    print(f"demo: the slow kernel was found out by {len(failures)} limits; the report: {report}")
    return 0
