# SPDX-License-Identifier: MIT
"""The boot of a case that shows most of it, and the case as this rtgate would measure it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from rtgate.errors import ConfigError
from rtgate.explain.finders import finder
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.tools import loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.registry import COMPANIONS, tool
from rtgate.workflow.references import may_measure


def slowest(directory: Path) -> Record:
    """Return the record in a directory, or the slowest measured one of the case below it.

    Raises ConfigError as `records_to_explain` and `slowest_of`.
    """
    return slowest_of(records_to_explain(directory))


def slowest_of(records: Sequence[Record]) -> Record:
    """Return the slowest of a case's boots. Raises ConfigError: none has the figure, or it cannot be explained."""
    return _rank(records, finder(records[0].case).maximum, max)[-1]


def middle(directory: Path) -> Record:
    """Return the record whose mean is the median of a case's boots (the upper one of two). Raises as `slowest`.

    The slowest boot has the mean of a chance phase: two of them may say the contrary of what all boots say.
    """
    records = records_to_explain(directory)
    ranking = _rank(records, finder(records[0].case).mean, fmean)
    return ranking[len(ranking) // 2]


def _rank(records: Sequence[Record], name: str, combine: Callable[[Sequence[float]], float]) -> list[Record]:
    """Return boots by a figure, of several CPUs combined; one without it has no place among them."""
    values = [([quantity.value for quantity, _ in record.numbers(name)], record) for record in records]
    figures = [(combine(own), record) for own, record in values if own]
    if not figures:
        raise ConfigError(f"{records[0].board} {records[0].case}: no boot has the figure {name}: measure again")
    return [record for _, record in sorted(figures, key=itemgetter(0))]


def records_to_explain(directory: Path) -> list[Record]:
    """Return the record in a directory, or the measured ones of the case below it, at least one.

    Raises:
        ConfigError: there is none, they are of several cases or not of virtual time, or their tool cannot be explained.
    """
    if (directory / "record.json").is_file():
        records = [records_file.read(directory)]
    else:
        paths = records_file.paths(directory)
        records = [record for path in paths if (record := records_file.read(path.parent)).has_results]
    if not records:
        raise ConfigError(f"{directory}: no record that was measured")
    several = sorted({(record.board, record.arm, record.case) for record in records})
    if len(several) > 1:
        names = ", ".join("/".join(place) for place in several[:4])
        raise ConfigError(f"{directory}: records of {len(several)} cases or kernels, choose one: {names}")
    if not records[0].virtual_time or records[0].seed is None:
        raise ConfigError(f"{directory}: not measured on virtual time, so it cannot be repeated")
    finder(records[0].case)
    return records


def case_of(record: Record) -> Case:
    """Return the case that a record is of. Raises ConfigError: this rtgate has no such tool, or no such profile."""
    return _case(CaseName.parse(record.case), record.profile)


def find_case(text: str, profile_name: str = "") -> Case:
    """Return the case of a name, measured as a profile says; without one, with the suites' own options.

    Raises ConfigError: there is no such tool, suite, load or profile.
    """
    name = CaseName.parse(text)
    own_suites = tool(name.tool).suites
    if not may_measure(name.suite, name.tool):
        choices = ", ".join(f"{suite}/{name.tool}" for suite in own_suites)
        raise ConfigError(f"no suite measures {name.suite}/{name.tool} (allowed: {choices})")
    if name.load not in loads.names() and name.load not in COMPANIONS:
        raise ConfigError(f"unknown load {name.load!r} (allowed: {', '.join((*loads.names(), *COMPANIONS))})")
    return _case(name, profile_name)


def _case(name: CaseName, profile_name: str) -> Case:
    kind = tool(name.tool)
    fitted = profile(profile_name).fit(kind(), name.suite) if profile_name else kind()
    return Case(suite=name.suite, tool=fitted, load=name.load, tuning=name.tuning)
