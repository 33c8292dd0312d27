# SPDX-License-Identifier: MIT
"""The answer to a merge request, or a summary of any run, before anybody decides how it looks.

A merge request is not trusted, and neither is what its kernel printed. Titles, branches, file names and sentences of
verdicts are therefore kept apart from what is ours, and each form of the note makes them harmless in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rtgate.judge.verdict import Verdict
from rtgate.records.record import Record
from rtgate.report import answers, table
from rtgate.report.cases import CaseReport, cases
from rtgate.report.outcome import outcome

COLUMNS = ("status", "board", "case", "figure", "baseline", "candidate", "change", "limit")
_MOST_ROWS = 40
_MOST_LINES = 60  # of one section: nobody reads further, and the report has the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What was reviewed, or measured.

    Attributes:
        kernels: arms and their kernels, where there is no merge request whose commits would say it.
        name, title, target: as `forge.merge_request.MergeRequest` has them.
        base, candidate: the commits that were compared, in full; empty for a run that is not a review.
        subject: the first line of the last commit.
        obstacle: why nothing was reviewed, and who must act, in lines that may hold anything.
        edits: files of the policy that the merge request changes, and that did not count.
        first_bad: the first commit that fails, in one line that may hold anything; empty where nobody looked for it.
        remarks: what else is to be said, in sentences that may hold anything.
        reproduce: commands.
        report: URL of the report; empty for none.
    """

    base: str = ""
    candidate: str = ""
    kernels: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    name: str = ""
    title: str = ""
    target: str = ""
    obstacle: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    first_bad: str = ""
    remarks: tuple[str, ...] = ()
    reproduce: tuple[str, ...] = ()
    report: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of ours, and lines that may hold anything."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note, before anybody decides how it looks.

    Attributes:
        headline: the status, and what it means.
        about: what was reviewed.
        rows: of the table of cases, as `COLUMNS` names them; boards and cases are names of trusted files.
        left_out: what is not in the table, in a sentence; empty for nothing.
    """

    headline: str
    about: About
    rows: tuple[tuple[str, ...], ...] = ()
    left_out: str = ""
    sections: tuple[Section, ...] = field(default_factory=tuple)


def note(about: About, records: Sequence[Record], verdicts: Sequence[Verdict], code: int) -> Note:
    """Return the note of a review that ended with an exit code."""
    reports = cases(records, verdicts)
    run_outcome = outcome(reports, code)
    rows = list(_rows([case for case in reports if case.records]))
    more = len(rows) - _MOST_ROWS
    return Note(
        headline=f"{run_outcome.status.value}: {run_outcome.meaning}",
        about=about,
        rows=tuple(rows[:_MOST_ROWS]),
        left_out=f"{more} further rows are in the report." if more > 0 else "",
        sections=tuple(section for section in _all(about, reports) if section.lines),
    )


def summary(records: Sequence[Record], verdicts: Sequence[Verdict], code: int) -> Note:
    """Return the note of a run that is not a review."""
    return note(About(kernels=tuple(table.kernels(records).items())), records, verdicts, code)


def _rows(reports: Sequence[CaseReport]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of boards whose kernels were compared; without any those of what was measured alone."""
    compared_boards = {case.board for case in reports if case.baseline}
    for case in reports:
        if case.board in compared_boards or not compared_boards:
            for row in table.comparison_rows(case):
                name, *figures = row.cells[:5]
                status = row.status.value if row.status else ""
                yield (status, case.board if status else "", case.case if status else "", name, *figures)


def _all(about: About, reports: Sequence[CaseReport]) -> Iterator[Section]:
    yield Section("Why nothing was reviewed", about.obstacle)
    yield Section("The first commit that fails", (about.first_bad,) if about.first_bad else ())
    longer = [(case, verdict) for case in reports for verdict in case.causes if verdict.cause]
    yield Section("What takes longer", tuple(f"{case.board} {case.case}: {verdict.cause}" for case, verdict in longer))
    for section in answers.sections(reports):
        lines = [line for answer in section.answers for line in _lines(answer)]
        more = len(lines) - _MOST_LINES
        rest = [f"({more} further lines are in the report)"] if more > 0 else []
        yield Section(section.heading, (*lines[:_MOST_LINES], *rest))
    yield Section("Remarks", about.remarks)


def _lines(answer: answers.Answer) -> Iterator[str]:
    """Yield an answer with its board and case."""
    case, status = answer.owners[0], answer.verdict.status.value
    where = " ".join(part for part in (case.board, case.case) if part)
    first, *more = answer.sentence.split("\n")
    yield f"{status} {where}: {first}" if where else f"{status}: {first}"
    yield from (f"  {line.strip()}" for line in more)
    if answer.count:
        yield f"  {answer.count}"
