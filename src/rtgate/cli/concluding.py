# SPDX-License-Identifier: MIT
"""The end of a measurement that was made elsewhere: judge its records, write verdicts and report, return the code."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console

from rtgate import record as records_file
from rtgate.cli.history import keep
from rtgate.cli.verdicts import compared, ended, limits, planned_in, subjects, write_verdicts
from rtgate.errors import InfrastructureError
from rtgate.judge.judging import judge
from rtgate.judge.verdict import Verdict, exit_code
from rtgate.report import allure, html, junit, terminal
from rtgate.run import stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was to be measured.

    Attributes:
        cases: their names.
        arms: by board.
        thresholds: limits, instead of those of the site and of rtgate.
        allow_unjudged: exit code 0 although nothing was judged.
        history: URL of earlier boots; None for none.
    """

    cases: Collection[str]
    arms: Mapping[str, Collection[str]]
    thresholds: Path | None = None
    allow_unjudged: bool = False
    history: str | None = None


def conclude(output: Path, asked: Asked, others: Sequence[Verdict] = ()) -> int:
    """Judge what `output`/records holds; write `verdict.json`, `junit.xml` and the report there; return the exit code.

    `others` are verdicts that are not about a case that was asked for.

    Raises:
        ConfigError: limits or records cannot be read.
        InfrastructureError: the directory cannot be written.
    """
    records, found = output / "records", limits(asked.thresholds)
    cases = stored(records, None)
    judged = [
        subject
        for case in sorted({*cases, *asked.cases})
        for subject in subjects(
            case, cases.get(case, []), asked.arms, planned_in(records, case), chain(*cases.values())
        )
    ]
    verdicts = [verdict for subject in judged for verdict in judge(subject, found)]
    verdicts += compared(judged, asked.history)
    verdicts += others
    write_verdicts(verdicts, output / "verdict.json", judged, records=records, thresholds=asked.thresholds)
    code = _report(output, verdicts, allow_unjudged=asked.allow_unjudged)
    code = code or keep(asked.history, records)
    lost = any((*subject.missing, *subject.unpaired) for subject in judged)
    ended(output / "verdict.json", code=code, whole=not lost)
    return code


def _report(output: Path, verdicts: Sequence[Verdict], *, allow_unjudged: bool) -> int:
    read = list(records_file.read_all(output / "records"))
    code, made = exit_code(verdicts, allow_unjudged=allow_unjudged), None
    allure.write(read, verdicts, output / "allure-results")
    junit.write(read, verdicts, output / "junit.xml")
    try:
        made = html.generate(output / "allure-results", output)
    except InfrastructureError as error:
        # A verdict must not get lost because its page could not be made.
        print(f"rtgate: no report page: {error}", file=sys.stderr)
        code = code or InfrastructureError.exit_code
    terminal.show(read, verdicts, code, Console(), made)
    return code
