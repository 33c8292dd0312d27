# SPDX-License-Identifier: MIT
"""An Allure results directory from records and verdicts: one test for each case on each arm that was judged."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import uuid
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Attachment as AllureAttachment
from allure_commons.model2 import ExecutableItem, Label, Parameter, StatusDetails, TestResult, TestStepResult
from allure_commons.model2 import Status as AllureStatus

from rtgate import __version__, files, site
from rtgate.board import boards
from rtgate.board.boot import State
from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, cases, cpus, figures
from rtgate.report.categories import CATEGORIES, message
from rtgate.report.steps import Attachment, Step, steps, times
from rtgate.report.surroundings import properties, surroundings, title
from rtgate.report.text import last_lines, plain
from rtgate.validity import registry

# A case that was measured and not judged was not skipped: nobody knows whether it is good.
_STATUSES = {
    Status.FAIL: AllureStatus.FAILED,
    Status.ERROR: AllureStatus.BROKEN,
    Status.MISS: AllureStatus.BROKEN,
    Status.PASS: AllureStatus.PASSED,
    Status.DONE: AllureStatus.UNKNOWN,
    Status.SKIP: AllureStatus.SKIPPED,
}
_SEVERITIES = {"latency": "critical", "scheduling": "critical", "irq": "critical"}
_TYPES = {"svg": "image/svg+xml", "txt": "text/plain", "json": "application/json", "gz": "application/gzip"}
_OURS = ("*-result.json", "*-attachment.*", "*-perf.json", "categories.json", "environment.properties", "executor.json")
_SPACE = uuid.UUID("6f0a3c52-6d0c-5b3e-9f57-0c2f4b1d7a10")  # of rtgate's own name-based identifiers


def write(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    directory: Path,
    not_applicable: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write the results; older results in the directory are removed.

    Args:
        records: all records of the run, of every arm.
        verdicts: what they were judged to be.
        directory: the results directory, made when missing.
        not_applicable: by board: reasons, by validity check, why it does not apply; read from the boards when None.

    Raises:
        InfrastructureError: the directory cannot be written.
    """
    found = cases(records, verdicts)
    if not_applicable is None:
        not_applicable = {case.board: _declared(case.board) for case in found}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in (path for pattern in _OURS for path in directory.glob(pattern)):
            path.unlink()
        writer = _Writer(directory)
        for case in found:
            writer.case(case, steps(case, not_applicable.get(case.board, {})))
        _write_run(records, found, directory)
    except OSError as error:
        raise InfrastructureError(f"the report could not be written to {directory}: {error}") from error


def _declared(board: str) -> Mapping[str, str]:
    return registry.not_applicable(boards.board(board)) if board in site.names("boards") else {}


class _Writer:
    """Writes tests and their files in the library's own format."""

    def __init__(self, directory: Path) -> None:
        self._logger = AllureFileLogger(str(directory))  # type: ignore[no-untyped-call]
        self._attached = 0

    def case(self, case: CaseReport, content: Sequence[Step]) -> None:
        result = TestResult(
            uuid=str(uuid.uuid5(_SPACE, _identity(case))),
            name=case.case,
            fullName=f"{case.board}/{case.case}",
            testCaseId=_digest(case.board, case.flavour, case.case),
            historyId=_digest(case.board, case.flavour, case.case, case.arm, _profile(case)),
            titlePath=[case.board, case.suite],
            status=_STATUSES[case.status],
            statusDetails=StatusDetails(message=message(case.headline), trace=_trace(case)),
            stage="finished",
            descriptionHtml=_description(case, content),
            labels=_labels(case),
            parameters=_parameters(case),
        )
        seen = [span for span in map(times, case.records) if span]
        if seen:
            result.start = _milliseconds(min(start for start, _ in seen))
            result.stop = _milliseconds(max(stop for _, stop in seen))
        result.steps = [self._step(step) for step in content]
        self._logger.report_result(result)  # type: ignore[no-untyped-call]

    def _step(self, step: Step) -> TestStepResult:
        made = TestStepResult(
            name=step.name,
            status=_STATUSES[step.status],
            stage="finished",
            parameters=[Parameter(name=name, value=value) for name, value in step.parameters.items() if value],
        )
        if step.message:
            made.statusDetails = StatusDetails(message=step.message)
        if step.start is not None and step.stop is not None:
            made.start, made.stop = _milliseconds(step.start), _milliseconds(step.stop)
        made.steps = [self._step(inner) for inner in step.steps]
        self._attach(made, step.attachments)
        return made

    def _attach(self, item: ExecutableItem, attachments: Sequence[Attachment]) -> None:
        for attachment in attachments:
            # Allure 3 shows a file that two attachments share in one of them only, so every one has its own.
            self._attached += 1
            name = f"{uuid.uuid5(_SPACE, str(self._attached))}-attachment.{attachment.suffix}"
            self._logger.report_attached_data(attachment.data, name)  # type: ignore[no-untyped-call]
            kind = _TYPES[attachment.suffix]
            item.attachments.append(AllureAttachment(name=plain(attachment.name), source=name, type=kind))


def _identity(case: CaseReport) -> str:
    return "\0".join((case.board, case.flavour, case.arm, case.case, _profile(case)))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _profile(case: CaseReport) -> str:
    return case.records[0].profile if case.records else ""


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _labels(case: CaseReport) -> list[Label]:
    tags = (case.board, case.flavour, f"load {case.load}" if case.load else "", case.tool, case.arm, case.status.value)
    pairs = [
        ("parentSuite", case.board),
        ("suite", case.suite),
        ("epic", case.flavour),
        ("feature", case.suite),
        ("story", case.tool),
        ("framework", "rtgate"),
        ("host", case.board),
        ("severity", _SEVERITIES.get(case.suite, "normal")),
        *(("tag", tag) for tag in tags),
    ]
    return [Label(name=name, value=plain(value)) for name, value in pairs if value]


def _parameters(case: CaseReport) -> list[Parameter]:
    """Return what tells this test apart; what changes from run to run is excluded, so that history goes on."""
    told = {"board": case.board, "flavour": case.flavour, "arm": case.arm, "load": case.load, "profile": _profile(case)}
    around = surroundings(case.records) if case.records else {}
    changing = {
        "boots": around.get("boots", "none"),
        "kernel release": around.get("kernel release", ""),
        "kernel image": around.get("kernel image", ""),
    }
    return [
        *(Parameter(name=name, value=plain(value)) for name, value in told.items() if value),
        *(Parameter(name=name, value=value, excluded=True) for name, value in changing.items() if value),
    ]


def _trace(case: CaseReport) -> str:
    """Return all verdicts, then the kernel's faults, then the last words of boots that did not end well."""
    ordered = sorted(case.verdicts, key=lambda verdict: verdict.status.rank)
    parts = ["\n".join(message(verdict) for verdict in ordered)]
    for record in case.records:
        parts += [f"{record.boot}: {fault.kind}\n{plain(fault.text)}" for fault in record.faults]
        console = record.directory / "console.log" if record.directory else None
        if record.state not in {State.MEASURED, State.LAB} and console is not None and console.is_file():
            end = last_lines(files.read_bytes(console, files.RAW_LIMIT))
            parts.append(f"{record.boot}: last lines of the console\n{end}")
    return "\n\n".join(part for part in parts if part)


def _description(case: CaseReport, content: Sequence[Step]) -> str:
    """Return the headline, the figures as a table, and the histogram, as HTML; everything from a board is escaped.

    The headline stands here too because Allure 3 shows a message only for tests that failed or are broken.
    """
    head = f"<p><b>{html.escape(message(case.headline))}</b></p>"
    plot = next((one for step in content for one in step.attachments if one.name == "latency histogram"), None)
    if plot is None:
        return head
    rows = [_row(case.arm, case.records, None)]
    several = cpus(case.records)
    rows += [_row(f"{case.arm}, CPU {cpu}", case.records, cpu) for cpu in several if len(several) > 1]
    if case.baseline:
        rows.append(_row(case.other_arm, case.baseline, None))
    image = f'<p><img alt="latency histogram" src="data:image/svg+xml;base64,{b64encode(plot.data).decode()}"></p>'
    unit = "virtual us" if any(record.virtual_time for record in (*case.records, *case.baseline)) else "us"
    columns = "".join(f"<th>{name}</th>" for name in ("", "boots", "min", "avg", "max", "in", "lost wake-ups"))
    limit = case.limit("latency.max")
    note = f"; limit of the maximum: {limit}" if limit else ""
    return f"{head}<p>Latency in {unit}{note}</p><table><tr>{columns}</tr>{''.join(rows)}</table>{image}"


def _row(label: str, records: Sequence[Record], cpu: str | None) -> str:
    found = figures(records, cpu)
    numbers = [f"{value.value:.1f}" if value else "-" for value in (found.low, found.mean, found.high)]
    worst = found.worst.boot if found.worst else "-"
    lost = "-" if found.lost is None else str(found.lost)
    cells = (label, str(len(records)), *numbers, worst, lost)
    return "<tr>" + "".join(f"<td>{html.escape(plain(cell))}</td>" for cell in cells) + "</tr>"


def _write_run(records: Sequence[Record], found: Sequence[CaseReport], directory: Path) -> None:
    """Write what belongs to the whole run."""
    categories = [{"name": category.name, "messageRegex": category.message} for category in CATEGORIES]
    _write_json(directory / "categories.json", categories)
    pairs = surroundings(records)
    (directory / "environment.properties").write_text(properties(pairs), encoding="ascii")
    job = os.environ.get("CI_JOB_URL", "")
    executor = {
        "name": f"rtgate {__version__}",
        "type": "gitlab" if job else "rtgate",
        "buildName": os.environ.get("CI_JOB_NAME", "") or pairs.get("profile", ""),
        "buildUrl": job,
        "reportName": title(records),
    }
    _write_json(directory / "executor.json", {name: plain(value) for name, value in executor.items() if value})
    _write_json(directory / "rtgate-perf.json", [entry for case in found for entry in _trends(case)])


def _trends(case: CaseReport) -> list[dict[str, object]]:
    """Return the figures whose course over many runs Allure 3 draws."""
    found = figures(case.records)
    spans = [span for span in map(times, case.records) if span]
    start, stop = (min(spans)[0], max(spans)[1]) if spans else (0.0, 0.0)
    group = re.sub(r"[^a-z0-9]+", "-", f"{case.board} {case.flavour} {case.arm} {_profile(case)}".lower())
    return [
        {
            "id": _digest(_identity(case), name),
            "key": f"{group}/{case.case}/{name}",
            "title": f"{case.case}: {name}",
            "value": round(value.value, 1),
            "unit": str(value.unit),
            "better": "lower",
            "group": group,
            "groupTitle": f"{case.board}, {case.flavour}, {case.arm}, {_profile(case)}",
            "start": _milliseconds(start),
            "stop": _milliseconds(stop),
        }
        for name, value in (("maximum latency", found.high), ("average latency", found.mean))
        if value is not None
    ]


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
