# SPDX-License-Identifier: MIT
"""From records to verdicts: the limits that apply, what is judged together, and `verdict.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rtgate import files, site
from rtgate.board import boards
from rtgate.board.boot import ArmName
from rtgate.errors import InfrastructureError, Interrupted
from rtgate.judge.compare.comparing import compare
from rtgate.judge.compare.inputs import ComparisonInputs
from rtgate.judge.compare.placebos import Placebos, load_placebos
from rtgate.judge.judging import Subject
from rtgate.judge.thresholds import Thresholds, load_thresholds
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code, worst
from rtgate.records import explained, longer_sections, planned
from rtgate.records.explained import CaseExplanation
from rtgate.records.longer_sections import SectionComparison
from rtgate.records.record import Place, Record
from rtgate.records.schedule import Schedule
from rtgate.records.seal import seal, write_sealed
from rtgate.report.notices import say
from rtgate.validity import registry
from rtgate.workflow.limit_profiles import LimitProfiles
from rtgate.workflow.verdict_file import FORMAT

Missing = Callable[[str, str, Sequence[Record]], tuple[str, ...]]
_Value = TypeVar("_Value")


def limits(path: Path | None) -> Thresholds:
    """Return the limits of a file, or those of the site and of rtgate. Raises ConfigError."""
    is_virtual = {name: boards.board(name).virtual for name in site.names("boards")}
    return load_thresholds(limits_files(path), is_virtual, LimitProfiles().case)


def limits_files(path: Path | None) -> tuple[Path, ...]:
    """Return the file of limits that is named, or those of the site and of rtgate, the winner first."""
    return (path,) if path else site.files("thresholds.yaml")


def harmless() -> Placebos:
    """Return what is known of harmless kernels, by the site and by rtgate. Raises ConfigError."""
    return load_placebos(site.files("placebos.yaml"), site.names("boards"))


def compare_kernels(subjects: Sequence[Subject], history: str | None) -> tuple[Verdict, ...]:
    """Return what the comparison of both arms says; a history that does not answer is a MISS and takes nothing else.

    Raises:
        ConfigError: placebos.yaml is wrong, or the URL names no history.
    """
    try:
        with grounds(history) as inputs:
            verdicts = compare(subjects, inputs)
            for sentence in inputs.history.left_out:
                say(f"history: {sentence}")
            return verdicts
    except InfrastructureError as error:
        return (lab_verdict(f"nothing was compared: {error}"),)


def lab_verdict(sentence: str, board: str = "") -> Verdict:
    """Return what is said where the lab, or this machine, could not do something that is about no single case."""
    return Verdict(status=Status.MISS, kind=Kind.LAB, sentence=sentence, board=board, arm="", flavour="", case="")


@contextmanager
def grounds(history: str | None) -> Iterator[ComparisonInputs]:
    """Yield what comparisons rest on: placebos, and the history of this URL while it is open; None for none.

    Raises:
        ConfigError: placebos.yaml is wrong, or the URL names no history.
        InfrastructureError: the database cannot be reached.
    """
    placebos = harmless()
    if history is None:
        yield ComparisonInputs(placebos=placebos)
        return
    # SQLAlchemy takes a third of a second to load, and most runs have no history.
    from rtgate.history.database import History  # noqa: PLC0415
    from rtgate.history.prior import HistoryPrior  # noqa: PLC0415

    with History.open(history, create=True) as database:
        yield ComparisonInputs(placebos=placebos, history=HistoryPrior(database))


def subjects(
    case: str,
    records: Sequence[Record],
    arms: Mapping[str, Collection[str]],
    missing: Missing,
    beside: Iterable[Record] = (),
) -> Iterator[Subject]:
    """Yield each board's candidate, or its only arm; a baseline is what a candidate is compared with.

    A board or an arm that has records of other cases only was to be measured here too, and is a MISS.

    Args:
        case: the case.
        records: its records.
        arms: of all boards that are judged.
        missing: names the boots of a board and an arm that were planned and left no record.
        beside: the records of every case that is judged, or of those that were measured so far.
    """
    fault_records = [record for record in beside if record.case != case and record.boot_id and record.faults]
    for board, names in sorted(arms.items()):
        here = [record for record in records if record.board == board]
        arm = "candidate" if "candidate" in names else min(names)
        mine = [record for record in here if record.arm == arm]
        paired = arm != "baseline" and "baseline" in names
        base = [record for record in here if record.arm == ArmName.BASELINE and arm != "baseline"]
        boots = {record.boot_id for record in mine}
        yield Subject(
            case=case,
            board=board,
            arm=arm,
            flavour=mine[0].kernel.flavour if mine else "",
            records=mine,
            baseline=base,
            beside=[record for record in fault_records if record.boot_id in boots],
            not_applicable=registry.not_applicable_on(board),
            missing=missing(board, arm, mine),
            paired=paired,
            unpaired=missing(board, "baseline", base) if paired else (),
            explained=_explained(mine, here),
            sections=_sections(mine, here),
            schedule=_schedule(mine),
        )


def _schedule(mine: Sequence[Record]) -> Schedule:
    """Return when somebody was going to look at a case's boots. Raises ConfigError: planned.json is damaged."""
    case_plan = _beside(planned.read_in, mine)
    return case_plan.schedule if case_plan else Schedule()


def _explained(mine: Sequence[Record], here: Sequence[Record]) -> CaseExplanation | None:
    """Return what traced boots showed of these kernels; a file that others left is not about them."""
    explanation = _beside(explained.read, mine)
    return (
        explanation
        if explanation is not None and explanation.images == {record.kernel.image_sha256 for record in here}
        else None
    )


def _sections(mine: Sequence[Record], here: Sequence[Record]) -> SectionComparison | None:
    """Return what following these boots found; likewise."""
    comparison = _beside(longer_sections.read, mine)
    return comparison if comparison is not None and comparison.matches(mine, here) else None


def _beside(read: Callable[[Path], _Value | None], mine: Sequence[Record]) -> _Value | None:
    directory = next((record.directory.parent for record in mine if record.directory), None)
    return read(directory) if directory else None


def planned_in(directory: Path, case: str) -> Missing:
    """Return what names the boots that were planned when a case was measured. It raises ConfigError."""

    def missing(board: str, arm: str, records: Sequence[Record]) -> tuple[str, ...]:
        return planned.missing(Place(records=directory, board=board, arm=arm, case=case), records)

    return missing


def _outcome(verdicts: Sequence[Verdict], *, whole: bool) -> Status:
    """Return the worst status; a run that left something open, or goes on, is not PASS because something else is."""
    status = worst(verdicts)
    return Status.DONE if status is Status.PASS and (exit_code(verdicts) or not whole) else status


def write_verdicts(
    verdicts: list[Verdict], path: Path, cases: Sequence[Subject] = (), *, records: Path | None = None
) -> None:
    """Write verdict.json, whole or not at all, with what traced boots showed of the cases that were judged.

    Until `write_ending` says how the run ended, the file is of one that has not: nobody takes it for good.

    Args:
        verdicts: what was judged.
        path: the file.
        cases: those that were judged.
        records: the run's directory of records: its files are sealed if it is below that of `path`.

    Raises:
        InfrastructureError: it cannot be written.
    """
    explanations = [
        {"board": subject.board, "case": subject.case, **explained.as_json(subject.explained)}
        for subject in cases
        if subject.explained
    ]
    document = {**_document(verdicts, Interrupted.exit_code, whole=False), "explained": explanations}
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if records is not None and records.resolve().is_relative_to(path.parent.resolve()):
            document["seal"] = seal(path.parent.resolve(), records.resolve())
        _write(document, path)


def _document(verdicts: Sequence[Verdict], code: int, *, whole: bool) -> dict[str, object]:
    return {
        "format": FORMAT,
        "outcome": _outcome(verdicts, whole=whole).value,
        "exit_code": code,
        "whole": whole,
        "verdicts": [verdict.as_json() for verdict in verdicts],
    }


def write_ending(path: Path, verdicts: Sequence[Verdict], *, code: int, whole: bool) -> None:
    """Write into verdict.json how a gate ended: judging wrote it before it was known.

    Args:
        path: the file; one that is not there is made.
        verdicts: all of them.
        code: the exit code.
        whole: whether every boot of every case was carried out.

    Raises:
        InfrastructureError: it cannot be written.
    """
    try:
        before = json.loads(files.read_text(path, files.JSON_LIMIT))
    except (OSError, ValueError):
        before = {}
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write({**before, **_document(verdicts, code, whole=whole)}, path)


def _write(document: Mapping[str, object], path: Path) -> None:
    write_sealed(json.dumps(document, indent=1) + "\n", path)
