# SPDX-License-Identifier: MIT
"""The boot of a case that shows most of it, and the case as this rtgate would measure it again."""

from __future__ import annotations

from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.explain.finders import finder
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.tools.registry import TOOLS


def slowest(directory: Path) -> Record:
    """Return the record in a directory, or the slowest measured one of the case below it. Raises as `measured`."""
    return max(measured(directory), key=maximum)


def middle(directory: Path) -> Record:
    """Return the record whose mean is the median of a case's boots (the upper one of two). Raises as `measured`.

    The slowest boot has the mean of a chance phase: two of them may say the contrary of what all boots say.
    """
    ranked = sorted(measured(directory), key=_mean)
    return ranked[len(ranked) // 2]


def measured(directory: Path) -> list[Record]:
    """Return the record in a directory, or the measured ones of the case below it, at least one.

    Raises:
        ConfigError: there is none, they are of several cases or not of virtual time, or their tool cannot be explained.
    """
    if (directory / "record.json").is_file():
        found = [records_file.read(directory)]
    else:
        paths = [path for path in sorted(directory.rglob("record.json")) if not path.parent.name.startswith(".")]
        found = [record for path in paths if (record := records_file.read(path.parent)).measured]
    if not found:
        raise ConfigError(f"{directory}: no record that was measured")
    several = sorted({(record.board, record.arm, record.case) for record in found})
    if len(several) > 1:
        names = ", ".join("/".join(each) for each in several[:4])
        raise ConfigError(f"{directory}: records of {len(several)} cases or arms, choose one: {names}")
    if not found[0].virtual_time or found[0].seed is None:
        raise ConfigError(f"{directory}: not measured on virtual time, so it cannot be repeated")
    finder(found[0].case)
    return found


def maximum(record: Record) -> float:
    """Return the largest figure of what a record's tool measures. Raises ConfigError: it cannot be explained."""
    name = finder(record.case).maximum
    return max((one.quantity.value for one in record.measurements if one.name == name and one.quantity), default=0.0)


def _mean(record: Record) -> float:
    name = finder(record.case).mean
    values = [one.quantity.value for one in record.measurements if one.name == name and one.quantity]
    return sum(values) / len(values) if values else 0.0


def case_of(record: Record) -> Case:
    """Return the case that a record is of. Raises ConfigError: this rtgate has no such tool."""
    suite, _, rest = record.case.partition("/")
    name, _, tuned = rest.partition("+")
    tool, _, load = name.partition(":")
    if tool not in TOOLS:
        raise ConfigError(f"{record.case}: unknown tool {tool!r}")
    fitted = profile(record.profile, TOOLS).fitted(TOOLS[tool](), suite)
    return Case(suite=suite, tool=fitted, load=load, **({"tuning": tuned} if tuned else {}))
