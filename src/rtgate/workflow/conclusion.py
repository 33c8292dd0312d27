# SPDX-License-Identifier: MIT
"""The end of a measurement that was made elsewhere: judge its records, write verdicts and report, return the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.verdict import Verdict, exit_code
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.report import allure, html, junit, terminal
from rtgate.report import page as page_of
from rtgate.report.cases import cases
from rtgate.report.notices import say, step
from rtgate.workflow.archive import keep, revocation_notes
from rtgate.workflow.judging import JudgingRequest, boards, judge_run
from rtgate.workflow.report_directory import SUMMARY
from rtgate.workflow.verdict_file import NOT_GREEN
from rtgate.workflow.verdicts import lab_verdict, write_ending
from rtgate.workflow.waivers import Waiver, waiver_notes


def conclude(output: Path, request: JudgingRequest, others: Sequence[Verdict] = (), *, page: bool = True) -> int:
    """Judge what was measured, write what came of it (see `finish`), and return the exit code.

    `others` are verdicts that are not about a case that was asked for.

    Raises:
        ConfigError: limits or records cannot be read.
        InfrastructureError: the directory cannot be written.
    """
    judging, criteria = judge_run(request), request.criteria
    judging.verdicts += others
    judging.write(output / "verdict.json", request.records)
    ending = Ending(
        whole=judging.is_complete,
        allow_unjudged=criteria.allow_unjudged,
        history=criteria.history,
        records=request.records,
        page=page,
        waivers=judging.waivers,
    )
    return finish(output, judging.verdicts, ending)


def judge_stored(request: JudgingRequest, path: Path) -> int:
    """Judge stored records, write verdict.json, print the summary, and return the exit code; no report is made.

    Raises:
        ConfigError: limits or records cannot be read, or there is nothing of a case or the board that is to be judged.
        InfrastructureError: verdict.json cannot be written.
    """
    judging = judge_run(request)
    if request.board and not judging.verdicts:
        there = ", ".join(boards(request.records)) or "none"
        raise ConfigError(
            f"{request.records}: nothing was measured or planned on {request.board} (boards there: {there})"
        )
    try:
        judging.write(path, request.records)
        code = judging.write_ending(path, whole=judging.is_complete)
    except InfrastructureError as error:
        raise InfrastructureError(f"{error}: name a file with --verdict") from error
    records = [record for subject in judging.subjects for record in (*subject.records, *subject.baseline)]
    terminal.show(records, judging.verdicts, code, None)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a measurement ended, beside its verdicts.

    Attributes:
        whole: whether every boot of every case was carried out.
        allow_unjudged: exit code 0 although nothing was judged.
        history: URL of the history that gets the records; None for none.
        records: where the records are; None for `records` in the directory that gets everything.
        page: whether the report page is made.
        over: whether verdict.json stands as it is: the report of a run that ended before.
        waivers: what it was judged with.
    """

    whole: bool
    allow_unjudged: bool = False
    history: str | None = None
    records: Path | None = None
    page: bool = True
    over: bool = False
    waivers: Sequence[Waiver] = ()


def finish(output: Path, run_verdicts: Sequence[Verdict], ending: Ending) -> int:
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
    verdicts = [*run_verdicts, *missing_verdicts(records, run_verdicts)]
    if not ending.whole and not any(verdict.status in NOT_GREEN for verdict in verdicts):
        verdicts.append(_lab(f"not everything was measured: see {output / 'measure.log'}"))
    for sentence in (*waiver_notes(verdicts, ending.waivers, records), *revocation_notes(ending.history, records)):
        say(sentence)
    store_failure = keep(ending.history, directory)
    verdicts += [_lab(store_failure)] if store_failure else []
    generate = partial(html.generate, output / "allure-results", output)
    page: Callable[[], Path | None] = generate if ending.page else lambda: None
    return write_report(output, records, verdicts, page, ending)


def write_report(
    output: Path,
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    page: Callable[[], Path | None],
    ending: Ending,
) -> int:
    """Write Allure's results, `summary.html`, `junit.xml`, and print the summary; return the exit code that all show.

    Args:
        output: the directory.
        records: what was measured.
        verdicts: what was judged.
        page: makes the page of Allure's results; None if there is none.
        ending: of the run. A page that cannot be made is a MISS of it, but of a run that ended before.

    Raises:
        ConfigError, InfrastructureError: the directory cannot be written, or as `page` of a run that ended before.
    """
    code = exit_code(verdicts, allow_unjudged=ending.allow_unjudged)
    with step("writing the report"):
        plots = allure.write(records, verdicts, output / "allure-results", code=code)
        page_path, failures = (page(), []) if ending.over else _page(page, output)
        verdicts = [*verdicts, *failures]
        code = exit_code(verdicts, allow_unjudged=ending.allow_unjudged)
        summary = output / SUMMARY
        with files.writing(summary):
            files.write_text(summary, page_of.summary(cases(records, verdicts), code, plots))
        junit.write(records, verdicts, output / "junit.xml")
        if not ending.over:
            write_ending(output / "verdict.json", verdicts, code=code, whole=ending.whole)
    terminal.show(records, verdicts, code, page_path or summary)
    return code


def missing_verdicts(records: Sequence[Record], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return a MISS for each case that has records and no verdict."""
    return [case.headline for case in cases(records, verdicts) if not case.verdicts]


def _page(page: Callable[[], Path | None], output: Path) -> tuple[Path | None, list[Verdict]]:
    """Return the report page, or what failed: a verdict must not get lost because its page could not be made."""
    try:
        return page(), []
    except html.NoAllureError as error:
        say(f"no report page: {error}. Then: rtgate report {output / 'records'} -o {output}")
        return None, []
    except (ConfigError, InfrastructureError) as error:
        return None, [_lab(f"no report page: {error}")]


def _lab(sentence: str) -> Verdict:
    say(sentence)
    return lab_verdict(sentence)
