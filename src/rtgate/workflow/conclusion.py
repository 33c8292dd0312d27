# SPDX-License-Identifier: MIT
"""The end of a measurement that was made elsewhere: judge its records, write verdicts and report, return the code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console

from rtgate.errors import InfrastructureError
from rtgate.judge.judging import judge
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.measure.run import stored
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.report import allure, html, junit, terminal
from rtgate.report.cases import cases
from rtgate.report.notices import say
from rtgate.workflow.archive import keep
from rtgate.workflow.verdicts import compared, ended, limits, planned_in, subjects, write_verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
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


def conclude(output: Path, asked: JudgeRequest, others: Sequence[Verdict] = ()) -> int:
    """Judge what `output`/records holds, write what came of it (see `finish`), and return the exit code.

    `others` are verdicts that are not about a case that was asked for.

    Raises:
        ConfigError: limits or records cannot be read.
        InfrastructureError: the directory cannot be written.
    """
    records, found = output / "records", limits(asked.thresholds)
    by_case = stored(records, None)
    judged = [
        subject
        for case in sorted({*by_case, *asked.cases})
        for subject in subjects(
            case, by_case.get(case, []), asked.arms, planned_in(records, case), chain(*by_case.values())
        )
    ]
    verdicts = [verdict for subject in judged for verdict in judge(subject, found)]
    verdicts += compared(judged, asked.history)
    verdicts += others
    write_verdicts(verdicts, output / "verdict.json", judged, records=records, thresholds=asked.thresholds)
    whole = not any((*subject.missing, *subject.unpaired) for subject in judged)
    return finish(output, verdicts, Ending(whole=whole, allow_unjudged=asked.allow_unjudged, history=asked.history))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a measurement ended, beside its verdicts.

    Attributes:
        whole: whether every boot of every case was carried out.
        allow_unjudged: exit code 0 although nothing was judged.
        history: URL of the history that gets the records; None for none.
        records: where the records are; None for `records` in the directory that gets everything.
        page: whether the report page is made.
    """

    whole: bool
    allow_unjudged: bool = False
    history: str | None = None
    records: Path | None = None
    page: bool = True


def finish(output: Path, judged: Sequence[Verdict], ending: Ending) -> int:
    """Write Allure's results and page, `junit.xml`, `verdict.json` and the summary from one list; return the exit code.

    What went wrong beside the kernel (the history, the page, boots that are missing) is a MISS of that list, so that
    none of them is green where another is not. `verdict.json` must be there already. Where Allure is not installed, a
    notice says how to make the page; no verdict depends on it.

    Raises:
        ConfigError: records cannot be read.
        InfrastructureError: the directory cannot be written.
    """
    directory = ending.records or output / "records"
    records = list(records_file.read_all(directory))
    verdicts = [*judged, *unjudged(records, judged)]
    if not ending.whole and not any(verdict.status in _NOT_GREEN for verdict in verdicts):
        verdicts.append(_lab(f"not everything was measured: see {output / 'measure.log'}"))
    unstored = keep(ending.history, directory)
    verdicts += [_lab(unstored)] if unstored else []
    allure.write(records, verdicts, output / "allure-results")
    page, failure = _page(output) if ending.page else (None, "")
    verdicts += [_lab(failure)] if failure else []
    code = exit_code(verdicts, allow_unjudged=ending.allow_unjudged)
    junit.write(records, verdicts, output / "junit.xml")
    ended(output / "verdict.json", verdicts, code=code, whole=ending.whole)
    terminal.show(records, verdicts, code, Console(), page)
    return code


_NOT_GREEN = frozenset({Status.FAIL, Status.ERROR, Status.MISS})


def unjudged(records: Sequence[Record], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return a MISS for each case that has records and no verdict."""
    return [one.headline for one in cases(records, verdicts) if not one.verdicts]


def _page(output: Path) -> tuple[Path | None, str]:
    """Return the report page, or what failed: a verdict must not get lost because its page could not be made."""
    try:
        return html.generate(output / "allure-results", output), ""
    except html.NoAllureError as error:
        say(f"no report page: {error}. Then: rtgate report {output / 'records'} -o {output}")
        return None, ""
    except InfrastructureError as error:
        return None, f"no report page: {error}"


def _lab(sentence: str) -> Verdict:
    say(sentence)
    return Verdict(status=Status.MISS, kind=Kind.LAB, sentence=sentence, board="", arm="", flavour="", case="")
