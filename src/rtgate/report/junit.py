# SPDX-License-Identifier: MIT
"""JUnit's XML from verdicts, for readers such as GitLab's test tab: one test per case, its sentences as text.

The format has no schema that everybody follows; this is the part that readers agree on: `failure` for a kernel that
failed, `error` for a measurement or a lab that did, `skipped` for what was not judged. There is no green by silence.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, cases
from rtgate.report.categories import message
from rtgate.report.text import plain_text

# `plain_text` leaves of control characters only tab and newline, which XML 1.0 takes.
_ELEMENTS = {
    Status.FAIL: "failure",
    Status.ERROR: "error",
    Status.MISS: "error",
    Status.DONE: "skipped",
    Status.SKIP: "skipped",
}
_ATTRIBUTES = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def document(records: Sequence[Record], verdicts: Sequence[Verdict]) -> str:
    """Return the XML document of all cases that were measured or judged."""
    root = ET.Element("testsuites")
    root.append(_suite("rtgate", cases(records, verdicts)))
    return _xml(root)


def add(verdicts: Sequence[Verdict], path: Path) -> None:
    """Add a comparison to the document that pytest wrote before both kernels were compared.

    Raises:
        InfrastructureError: the document is not there, is none, or cannot be written.
    """
    try:
        root = ET.fromstring(files.read_bytes(path, files.JSON_LIMIT))  # noqa: S314 - pytest has just written it
        root.append(_suite("comparison with the baseline", cases((), verdicts)))
        files.write_text(path, _xml(root))
    except (OSError, ConfigError, ET.ParseError) as error:
        raise InfrastructureError(f"{path}: the comparison with the baseline cannot be added: {error}") from error


def _suite(name: str, reports: Sequence[CaseReport]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, tests=str(len(reports)))
    counts = dict.fromkeys(_ATTRIBUTES.values(), 0)
    for case in reports:
        test = ET.SubElement(
            suite, "testcase", classname=plain_text(f"{case.board}.{case.arm}"), name=plain_text(case.case or "job")
        )
        test.set("time", f"{sum(record.seconds.get('total', 0.0) for record in case.records):.3f}")
        _properties(test, case)
        element = _ELEMENTS.get(case.status)  # what says that it did not pass; what is open is never green
        if element:
            counts[_ATTRIBUTES[element]] += 1
            head = case.headline
            problem = ET.SubElement(
                test, element, message=plain_text(f"{head.status.value}: {head.full_sentence}").partition("\n")[0]
            )
            if element != "skipped":
                problem.set("type", plain_text(head.kind.value))
                problem.text = _verdict_text(case)
        ET.SubElement(test, "system-out").text = _verdict_text(case)
    for key, count in counts.items():
        suite.set(key, str(count))
    return suite


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(test: ET.Element, case: CaseReport) -> None:
    """Add which kernels were measured on which board, and the figures that were judged."""
    pairs = [("board", case.board), ("flavour", case.flavour)]
    for arm, records in ((case.arm, case.records), (case.other_arm, case.baseline)):
        if records:
            kernel = records[0].kernel
            pairs += [
                (f"{arm}.kernel", f"{records[0].release} ({kernel.source})".strip()),
                (f"{arm}.image_sha256", kernel.image_sha256),
                (f"{arm}.boots", ", ".join(record.boot for record in records)),
            ]
    for verdict in case.verdicts:
        if verdict.measurement:
            name = f"{verdict.kind.value}: {verdict.measurement}"
            pairs += [(name, str(verdict.value or "")), (f"{name}, limit", str(verdict.limit or ""))]
    properties = ET.SubElement(test, "properties")
    for name, value in pairs:
        if value:
            ET.SubElement(properties, "property", name=plain_text(name), value=plain_text(value))


def write(records: Sequence[Record], verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the document, whole or not at all. Raises InfrastructureError."""
    try:
        files.write_text(path, document(records, verdicts))
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}") from error


def _verdict_text(case: CaseReport) -> str:
    return "\n".join(message(verdict) for verdict in case.verdicts)
