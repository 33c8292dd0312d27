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
from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Status, Verdict
from rtgate.records.record import Record
from rtgate.report.cases import CaseReport, cases
from rtgate.report.text import plain

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
    reports = cases(records, verdicts)
    suite = ET.Element("testsuite", name="rtgate", tests=str(len(reports)))
    counts = dict.fromkeys(_ATTRIBUTES.values(), 0)
    for one in reports:
        test = ET.SubElement(
            suite, "testcase", classname=_text(f"{one.board}.{one.arm}"), name=_text(one.case or "job")
        )
        test.set("time", f"{sum(record.seconds.get('total', 0.0) for record in one.records):.3f}")
        _properties(test, one)
        name = _element(one)
        if name:
            counts[_ATTRIBUTES[name]] += 1
            head = one.headline
            told = ET.SubElement(
                test, name, message=_text(f"{head.status.value}: {head.full_sentence}").partition("\n")[0]
            )
            if name != "skipped":
                told.set("type", _text(head.kind.value))
                told.text = _told(one)
        ET.SubElement(test, "system-out").text = _told(one)
    for key, count in counts.items():
        suite.set(key, str(count))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(test: ET.Element, one: CaseReport) -> None:
    """Add which kernels were measured on which board, and the figures that were judged."""
    found = [("board", one.board), ("flavour", one.flavour)]
    for arm, records in ((one.arm, one.records), (one.other_arm, one.baseline)):
        if records:
            kernel = records[0].kernel
            release = records[0].environment.kernel_release or kernel.release
            found += [
                (f"{arm}.kernel", f"{release} ({kernel.source})".strip()),
                (f"{arm}.image_sha256", kernel.image_sha256),
                (f"{arm}.boots", ", ".join(record.boot for record in records)),
            ]
    for verdict in one.verdicts:
        if verdict.measurement:
            name = f"{verdict.kind.value}: {verdict.measurement}"
            found += [(name, str(verdict.value or "")), (f"{name}, limit", str(verdict.limit or ""))]
    properties = ET.SubElement(test, "properties")
    for name, value in found:
        if value:
            ET.SubElement(properties, "property", name=_text(name), value=_text(value))


def write(records: Sequence[Record], verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the document, whole or not at all. Raises InfrastructureError."""
    try:
        files.write_text(path, document(records, verdicts))
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}") from error


def _element(one: CaseReport) -> str:
    """Return what says that a case did not pass; empty if it did. What is open is never green."""
    return _ELEMENTS.get(one.status, "")


def _told(one: CaseReport) -> str:
    return "\n".join(
        _text(f"{verdict.status.value} {verdict.kind.value}: {verdict.full_sentence}") for verdict in one.verdicts
    )


def _text(text: str) -> str:
    """Return text that may stand in XML 1.0: of control characters only tab and newline."""
    return plain(text)
