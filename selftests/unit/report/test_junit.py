# SPDX-License-Identifier: MIT
from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.report import junit


def verdict(
    status: Status, kind: Kind = Kind.LIMIT, sentence: str = "so it is", case: str = "latency/a:idle"
) -> Verdict:
    return Verdict(
        status=status, kind=kind, sentence=sentence, board="b", arm="candidate", flavour="generic", case=case
    )


def read(*verdicts: Verdict) -> ET.Element:
    found = ET.fromstring(junit.document([], verdicts)).find("testsuite")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("status", "element"),
    [
        (Status.FAIL, "failure"),
        (Status.ERROR, "error"),
        (Status.MISS, "error"),
        (Status.DONE, "skipped"),
        (Status.SKIP, "skipped"),
        (Status.PASS, ""),
    ],
)
def test_only_a_pass_is_green(status: Status, element: str) -> None:
    suite = read(verdict(status))
    (test,) = suite.findall("testcase")
    assert (test.get("classname"), test.get("name")) == ("b.candidate", "latency/a:idle")
    assert [one.tag for one in test if one.tag not in {"system-out", "properties"}] == ([element] if element else [])
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    assert {key: suite.get(key) for key in counted} == {key: str(int(one == element)) for key, one in counted.items()}


def test_the_worst_of_a_case_is_its_message_and_all_are_told() -> None:
    suite = read(verdict(Status.PASS, sentence="fine"), verdict(Status.FAIL, sentence="max 83 us > limit 60 us"))
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("FAIL: max 83 us > limit 60 us", "limit")
    assert "PASS limit: fine" in (suite.findtext("testcase/system-out") or "")


def test_a_comparison_that_is_open_is_no_pass() -> None:
    suite = read(verdict(Status.PASS), verdict(Status.DONE, Kind.INCONCLUSIVE, "more boots are needed"))
    assert suite.find("testcase/skipped") is not None


def test_a_verdict_about_the_whole_job_is_a_test_too() -> None:
    assert [one.get("name") for one in read(verdict(Status.MISS, case="")).findall("testcase")] == ["job"]


@given(st.text())
def test_no_text_breaks_the_document(text: str) -> None:
    failure = read(verdict(Status.FAIL, sentence=text)).find("testcase/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("FAIL:")


def test_a_directory_that_is_away_is_the_labs(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be written"):
        junit.write([], [], tmp_path / "away" / "junit.xml")
