# SPDX-License-Identifier: MIT
"""A file of the documentation that a program makes: written, or with --check compared with what lies there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def write_or_compare(path: Path, made: str, *, what: str, source: str) -> int:
    """Write a file unless it is up to date; with --check write nothing and return exit code 1 if it is not.

    Args:
        path: the file.
        made: what it should hold.
        what: the program's task, for --help.
        source: what it follows, for the message: `the registry says`.
    """
    options = argparse.ArgumentParser(description=what)
    options.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it is not up to date")
    check = options.parse_args().check
    if path.is_file() and path.read_text(encoding="utf-8") == made:
        return 0
    if check:
        print(f"{path.name} is not what {source}: run `make docs` and commit it", file=sys.stderr)
        return 1
    path.write_text(made, encoding="utf-8")
    return 0
