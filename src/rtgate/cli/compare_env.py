# SPDX-License-Identifier: MIT
"""`rtgate compare-env`: how the environments of two records differ."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtgate.board.firmware import SEPARATOR
from rtgate.errors import ConfigError
from rtgate.judge.compare.comparable import differences
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.report.text import plain_text

DESCRIPTION = """\
Show how the environments of two measurements differ: kernel, command line, tuning, tools, emulator. A and B are
directories with a record.json, or with records somewhere below: then the boots of the first case that both have.
Of lists (command line, interrupts, tools) only the parts that differ are shown, after "...". "is refused" marks what
keeps the two from being compared; the others are what a comparison compares. The last line says whether a comparison is
possible: beside the environments that takes equal tools, loads, profiles, plans, and seeds.

examples:
  rtgate compare-env report/records ../yesterday/report/records
  rtgate compare-env records/virt-arm64/candidate/latency.cyclictest:idle/00{1,2} --json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    a_boots, b_boots = _same_case(arguments.a, arguments.b)
    mine, theirs = a_boots[0], b_boots[0]
    before, after = _fields(mine), _fields(theirs)
    different = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    compared_fields = mine.environment.comparable_fields(theirs.environment) | {f"kernel_{name}" for name in _KERNEL}
    if arguments.json:
        print(
            json.dumps(
                {name: {"a": a, "b": b, "forbids": name not in compared_fields} for name, (a, b) in different.items()}
            )
        )
        return 0
    console = Console()
    for name, record in (("A", mine), ("B", theirs)):
        console.print(Text(f"{name}: {plain_text(_record_title(record))}"), soft_wrap=True)
    if different:
        table = Table("field", "A", "B", "a comparison")
        for name, values in different.items():
            a, b = (Text(plain_text(text) or "nothing") for text in _without_common_parts(name, values))
            table.add_row(name, a, b, "compares it" if name in compared_fields else "is refused")
        console.print(table)
    else:
        console.print(f"the environments are equal in all {len(before)} fields")
    refused = [name for name in different if name not in compared_fields]
    console.print(Text(plain_text(_conclusion(refused, a_boots, b_boots))), soft_wrap=True)
    return 0


def _record_title(record: Record) -> str:
    return f"{record.case} on {record.board}, {record.boot}, {record.directory}"


def _conclusion(fields: list[str], mine: list[Record], theirs: list[Record]) -> str:
    obstacles = [f"{', '.join(fields)} must be equal"] if fields else []
    obstacles += [f"{record.boot} did not measure" for record in (*mine, *theirs) if not record.has_results]
    obstacles += [text for text in differences(mine, theirs) if text.partition(": ")[0] not in fields]
    if not obstacles:
        return "Measurements of the two may be compared: they differ in what a comparison compares, or in nothing."
    return f"Measurements of the two may not be compared: {'; '.join(obstacles)}."


# Fields that are lists, by what stands between their parts.
_LISTS = {"command_line": " ", "irq_affinity": ", ", "mitigations": ", ", "tools": ", ", "firmware": SEPARATOR}


def _without_common_parts(name: str, values: tuple[str, str]) -> tuple[str, str]:
    """Return two values without the parts that both have, where the field is a list."""
    if name not in _LISTS:
        return values
    between = _LISTS[name]
    a, b = (value.split(between) if value else [] for value in values)
    rests = [part for part in a if part not in b], [part for part in b if part not in a]
    if not any(rests):
        return values  # the same parts in another order, or another number of times
    first, second = (_rest(own, rest, between) for own, rest in zip((a, b), rests, strict=True))
    return first, second


def _rest(own: list[str], rest: list[str], between: str) -> str:
    """Return the parts that the other has not, behind three dots for those that it has."""
    if not rest:
        return "... and nothing else" if own else ""
    return between.join(rest) if len(rest) == len(own) else f"... {between.join(rest)}"


_KERNEL = ("image_sha256", "source")


def _fields(record: Record) -> dict[str, str]:
    """Return the environment, and which kernel it was."""
    kernel = {f"kernel_{name}": str(getattr(record.kernel, name)) for name in _KERNEL}
    return {**record.environment.as_mapping(), **kernel}


def _same_case(a: Path, b: Path) -> tuple[list[Record], list[Record]]:
    """Return the boots of the first case that both have, on the first board and arm of each. Raises ConfigError."""
    mine, theirs = _measured_records(a), _measured_records(b)
    both = {record.case for record in mine} & {record.case for record in theirs}
    if not both:
        raise ConfigError(f"{a} and {b} have no case in common, and boots of different cases are not compared")
    case = next(record.case for record in mine if record.case in both)
    return _boots(mine, case), _boots(theirs, case)


def _boots(records: list[Record], case: str) -> list[Record]:
    of_case = [record for record in records if record.case == case]
    return [record for record in of_case if (record.board, record.arm) == (of_case[0].board, of_case[0].arm)]


def _measured_records(path: Path) -> list[Record]:
    """Return the records of a directory that measured. Raises ConfigError: there is none."""
    if (path / "record.json").is_file():
        return [records_file.read(path)]
    every = (records_file.read(record.parent) for record in records_file.paths(path))
    records = [record for record in every if record.has_results]
    if not records:
        raise ConfigError(f"{path} holds no record of a boot that measured")
    return records
