# SPDX-License-Identifier: MIT
"""`rtgate check-records`: what of a run's files changed since it was judged."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate.records.seal import check
from rtgate.report.text import plain_text

_CHANGED = 4
DESCRIPTION = """\
Tell which files of a run changed, are missing, or were added since it was judged, verdict.json among them. DIR is the
directory of a report: it holds verdict.json, verdict.sha256, records.sha256 and records/. verdict.sha256 has the digest
of verdict.json, that the digest of records.sha256, and that lists every file below records/ with its SHA-256.
`cd DIR && sha256sum -c verdict.sha256 records.sha256` tells changed and missing files, too.

The seal shows that a file was changed by accident or in passing. It is not a signature: who can write verdict.sha256
can seal anew. Keep a copy of it elsewhere where that matters.

exit codes: 0 nothing changed, 2 DIR is not a sealed run, 4 something changed

examples:
  rtgate check-records report
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("directory", type=Path, metavar="DIR")


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises ConfigError."""
    difference = check(arguments.directory)
    for line in difference.lines:
        print(plain_text(line))
    if not difference.lines:
        print(f"nothing changed since {arguments.directory / 'verdict.json'} was written")
        return 0
    print(f"not as it was judged, {len(difference.lines)} in all: measure again, or fetch the run again")
    return _CHANGED
