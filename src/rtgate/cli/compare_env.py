# SPDX-License-Identifier: MIT
"""`rtgate compare-env`: how the environments of two records differ."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtgate import record as records_file
from rtgate.environment import COMPARED
from rtgate.errors import ConfigError
from rtgate.record import Record
from rtgate.report.text import plain

_DESCRIPTION = """\
Show how the environments of two measurements differ: kernel, command line, tuning, tools, emulator. A and B are
directories with a record.json, or with records somewhere below, of which the first that measured is taken.
A difference marked "forbids" keeps the two from being compared; the others are what a comparison compares.

examples:
  rtgate compare-env report/records ../yesterday/report/records
  rtgate compare-env records/virt-arm64/candidate/latency.cyclictest:idle/00{1,2} --json
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compare-env",
        help="show how the environments of two records differ",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    mine, theirs = _first(arguments.a), _first(arguments.b)
    before, after = _fields(mine), _fields(theirs)
    different = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    if arguments.json:
        print(
            json.dumps({name: {"a": a, "b": b, "forbids": name not in _COMPARED} for name, (a, b) in different.items()})
        )
        return 0
    if not different:
        print(f"the environments are equal in all {len(before)} fields")
        return 0
    table = Table("field", f"A: {mine.case} {mine.boot}", f"B: {theirs.case} {theirs.boot}", "comparison")
    for name, (a, b) in different.items():
        table.add_row(
            name,
            Text(plain(a) or "unknown"),
            Text(plain(b) or "unknown"),
            "compared" if name in _COMPARED else "forbids",
        )
    Console().print(table)
    return 0


_KERNEL = ("image_sha256", "source")
_COMPARED = COMPARED | {f"kernel_{name}" for name in _KERNEL}


def _fields(record: Record) -> dict[str, str]:
    """Return the environment, and which kernel it was."""
    kernel = {f"kernel_{name}": str(getattr(record.kernel, name)) for name in _KERNEL}
    return {**record.environment.as_mapping(), **kernel}


def _first(path: Path) -> Record:
    if (path / "record.json").is_file():
        return records_file.read(path)
    found = (records_file.read(record.parent) for record in sorted(path.rglob("record.json")))
    for record in found:
        if record.state == "measured":
            return record
    raise ConfigError(f"{path} holds no record of a boot that measured")
