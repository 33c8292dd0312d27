# SPDX-License-Identifier: MIT
"""An Allure results directory from records and verdicts: one test for each case on each arm that was judged."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Attachment as AllureAttachment
from allure_commons.model2 import ExecutableItem, Label, Parameter, StatusDetails, TestResult, TestStepResult
from allure_commons.model2 import Status as AllureStatus

from rtgate import __version__
from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Status, Verdict, exit_code, is_open
from rtgate.records.record import Record
from rtgate.report import page
from rtgate.report.cases import CaseReport, cases, figures
from rtgate.report.categories import CATEGORIES, message
from rtgate.report.latency import HISTOGRAM, HISTOGRAM_PNG
from rtgate.report.log_excerpt import log_excerpt
from rtgate.report.plots import Picture
from rtgate.report.steps import Attachment, Step, steps, times
from rtgate.report.surroundings import properties, surroundings, title
from rtgate.report.text import plain_text
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
_TYPES = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "txt": "text/plain",
    "json": "application/json",
    "gz": "application/gzip",
}
_MOST_DETAILED = 40  # cases with plots, boots and files: more take minutes to draw, and no browser opens them
_WORST_DETAILED = 12  # of a report with more cases
FIRST_SCREEN = "rtgate-first-screen.html"
"""The file of the results that `html.generate` puts above Allure's page."""
FIGURES = "rtgate-perf.json"
"""The file of the results that names the figures of this run, for trends."""
MEASURED = "rtgate"
"""The label by which rtgate's pytest plugin marks what allure-pytest writes of a test that measures."""
_OURS = (
    "*-result.json",
    "*-attachment.*",
    "*-perf.json",
    "categories.json",
    "environment.properties",
    "executor.json",
    FIRST_SCREEN,
)
_SPACE = uuid.UUID("6f0a3c52-6d0c-5b3e-9f57-0c2f4b1d7a10")  # of rtgate's own name-based identifiers


def write(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    directory: Path,
    *,
    code: int | None = None,
    fresh: bool = True,
) -> Mapping[page.Place, Picture]:
    """Write the results; return the histograms, by the place of their case.

    Args:
        records: all records of the run, of every arm.
        verdicts: what they were judged to be.
        directory: the results directory, made when missing.
        code: the run's exit code; that of the verdicts when None.
        fresh: whether older results in the directory are removed; otherwise only what allure-pytest wrote of the tests
            that are written here (`MEASURED`), because other tests and other boards have theirs there.

    Raises:
        InfrastructureError: the directory cannot be written.
    """
    reports = cases(records, verdicts)
    not_applicable = {case.board: registry.not_applicable_on(case.board) for case in reports}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in _older(directory) if fresh else _stale_files(directory, {_uuid(case) for case in reports}):
            path.unlink(missing_ok=True)
        writer = _Writer(directory)
        plots: dict[page.Place, Picture] = {}
        detailed_places = _detailed_cases(reports)
        for case in reports:
            content = steps(case, not_applicable[case.board], detailed=case.place in detailed_places)
            plot = _histogram(content)
            plots |= {case.place: plot} if plot else {}
            writer.case(case, content, plot)
        _write_run(records, reports, directory)
        screen = page.first_screen(reports, exit_code(verdicts) if code is None else code, plots, _link)
        (directory / FIRST_SCREEN).write_text(screen, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"the report could not be written to {directory}: {error}") from error
    return plots


def _detailed_cases(reports: Sequence[CaseReport]) -> Collection[page.Place]:
    """Return the cases with plots, boots and files: all of a usual report, of a large one the worst."""
    cases = page.worst_first(reports)
    worst = [case.place for case in cases if case.status is not Status.SKIP or is_open(case.headline)]
    few = len(worst) <= _MOST_DETAILED
    return {case.place for case in reports} if few else set(worst[:_WORST_DETAILED])


def _older(directory: Path) -> list[Path]:
    return [path for pattern in _OURS for path in directory.glob(pattern)]


def _stale_files(directory: Path, uuids: Collection[str]) -> list[Path]:
    """Return the files of measured tests that allure-pytest wrote before everything was judged, or an earlier run."""
    paths: list[Path] = []
    stale_uuids = set()
    for path in directory.glob("*-result.json"):
        result = _read_json(path)
        if result.get("uuid") in uuids or any(label["name"] == MEASURED for label in result.get("labels", ())):
            stale_uuids.add(result["uuid"])
            paths += [path, *(directory / attachment["source"] for attachment in result.get("attachments", ()))]
    for path in directory.glob("*-container.json"):  # what fixtures did around them
        children = set(_read_json(path).get("children", ()))
        paths += [path] if children <= stale_uuids else []
    return paths


def _read_json(path: Path) -> Mapping[str, Any]:
    """Return what a file of allure-pytest says; nothing of one that a killed pytest left half written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        data = None
    return data if isinstance(data, dict) else {}


def _histogram(content: Sequence[Step]) -> Picture | None:
    files = {attachment.name: attachment.data for step in content for attachment in step.attachments}
    svg, png = files.get(HISTOGRAM), files.get(HISTOGRAM_PNG)
    return Picture(svg=svg, png=png) if svg and png else None


def _uuid(case: CaseReport) -> str:
    return str(uuid.uuid5(_SPACE, _identity(case)))


def _link(case: CaseReport) -> str:
    """Return a case's address in Allure's page, which names a test by the MD5 of its identifier."""
    return f"#{hashlib.md5(_uuid(case).encode(), usedforsecurity=False).hexdigest()}"


class _Writer:
    """Writes tests and their files in the library's own format."""

    def __init__(self, directory: Path) -> None:
        self._logger = AllureFileLogger(str(directory))  # type: ignore[no-untyped-call]
        self._names: Iterator[uuid.UUID] = iter(())

    def case(self, case: CaseReport, content: Sequence[Step], plot: Picture | None) -> None:
        self._names = (uuid.uuid5(_SPACE, f"{_uuid(case)} {number}") for number in itertools.count())
        result = TestResult(
            uuid=_uuid(case),
            name=case.case or "the run",
            fullName=f"{case.board}/{case.case or 'the run'}",
            testCaseId=_digest(case.board, case.flavour, case.case),
            historyId=_digest(case.board, case.flavour, case.case, case.arm, _profile(case)),
            titlePath=[case.board, case.suite],
            status=_STATUSES[case.status],
            statusDetails=StatusDetails(message=message(case.headline), trace=log_excerpt(case.records)),
            stage="finished",
            descriptionHtml=page.description(case, plot),
            labels=_labels(case),
            parameters=_parameters(case),
        )
        spans = [span for span in map(times, case.records) if span]
        if spans:
            result.start = _milliseconds(min(start for start, _ in spans))
            result.stop = _milliseconds(max(stop for _, stop in spans))
        result.steps = [self._step(step) for step in content]
        self._logger.report_result(result)  # type: ignore[no-untyped-call]

    def _step(self, step: Step) -> TestStepResult:
        step_result = TestStepResult(
            name=step.name,
            status=_STATUSES[step.status],
            stage="finished",
            parameters=[Parameter(name=name, value=value) for name, value in step.parameters.items() if value],
        )
        if step.message:
            step_result.statusDetails = StatusDetails(message=step.message)
        if step.start is not None and step.stop is not None:
            step_result.start, step_result.stop = _milliseconds(step.start), _milliseconds(step.stop)
        step_result.steps = [self._step(inner) for inner in step.steps]
        self._attach(step_result, step.attachments)
        return step_result

    def _attach(self, item: ExecutableItem, attachments: Sequence[Attachment]) -> None:
        for attachment in attachments:
            # Allure 3 shows a file that two attachments share in one of them only, so every one has its own.
            name = f"{next(self._names)}-attachment.{attachment.suffix}"
            self._logger.report_attached_data(attachment.data, name)  # type: ignore[no-untyped-call]
            kind = _TYPES[attachment.suffix]
            item.attachments.append(AllureAttachment(name=plain_text(attachment.name), source=name, type=kind))


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
    return [Label(name=name, value=plain_text(value)) for name, value in pairs if value]


def _parameters(case: CaseReport) -> list[Parameter]:
    """Return what tells this test apart; what changes from run to run is excluded, so that history goes on."""
    identity = {
        "board": case.board,
        "flavour": case.flavour,
        "arm": case.arm,
        "load": case.load,
        "profile": _profile(case),
    }
    around = surroundings(case.records) if case.records else {}
    run_facts = {
        "boots": around.get("boots", "none"),
        "kernel release": around.get("kernel release", ""),
        "kernel image": around.get("kernel image", ""),
    }
    return [
        *(Parameter(name=name, value=plain_text(value)) for name, value in identity.items() if value),
        *(Parameter(name=name, value=value, excluded=True) for name, value in run_facts.items() if value),
    ]


def _write_run(records: Sequence[Record], reports: Sequence[CaseReport], directory: Path) -> None:
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
    _write_json(directory / "executor.json", {name: plain_text(value) for name, value in executor.items() if value})
    _write_json(directory / FIGURES, [entry for case in reports for entry in _trends(case)])


def _trends(case: CaseReport) -> list[dict[str, object]]:
    """Return the figures whose course over many runs Allure 3 draws."""
    latencies = figures(case.records)
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
        for name, value in (("maximum latency", latencies.high), ("average latency", latencies.mean))
        if value is not None
    ]


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
