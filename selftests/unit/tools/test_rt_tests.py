# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.registry import TOOLS
from rtgate.tools.rt_tests import Document, check_end, document

DATA = Path(__file__).resolve().parents[2] / "data" / "rt-tests"
SETTING = Setting(cpus=1, duration_s=1, virtual_time=False)
LARGEST = 2**63


def _ended(files: dict[str, bytes], code: int = 0, codes: tuple[int, ...] = (0,)) -> None:
    check_end("stub", Output(files=files, exit_code=code, setting=SETTING), codes)


@pytest.mark.parametrize(
    "capture",
    [
        *("cyclicdeadline", "oslat-sigterm", "pmqtest", "pmqtest-breaktrace", "ptsematest", "ptsematest-one-loop"),
        *("signaltest", "sigwaittest", "svsematest"),
    ],
)
def test_text_without_json_is_refused(capture: str) -> None:
    tool = capture.partition("-")[0]
    text = (DATA / "2.4" / f"{capture}.txt").read_bytes()
    with pytest.raises(ParseError, match=f"^{tool} wrote no JSON$"):
        TOOLS[tool]().parse(Output(files={"tool.out": text}, exit_code=0, setting=SETTING))


# --- how it ended


def test_a_tool_that_ended_by_itself() -> None:
    _ended({})
    _ended({"tool.err": b"WARN: something\n", "tool.out": b"x", "tool.deadline": b" \n"})
    _ended({}, code=1, codes=(0, 1))


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_tool_that_was_stopped_whatever_its_exit_code_says(code: int) -> None:
    with pytest.raises(ParseError, match=r"^stub was stopped after 24 s: it did not end by itself$"):
        _ended({"tool.deadline": b"after 24 s\n"}, code, (0, 1, 143))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"tool.err": b"bad option\n", "tool.out": b"usage"}, "bad option"),
        ({"tool.err": b" \n", "tool.out": b"\nusage: x\n"}, "usage: x"),
        ({}, "no message"),
        ({"tool.err": b"\xff\n"}, r"\\xff"),
        ({"tool.err": b"x" * 1000}, "x{300}"),
    ],
)
@pytest.mark.parametrize(("code", "codes"), [(1, (0,)), (255, (0,)), (0, (1,)), (2, (0, 1))])
def test_a_tool_that_failed_says_why(files: dict[str, bytes], reason: str, code: int, codes: tuple[int, ...]) -> None:
    with pytest.raises(ParseError, match=rf"^stub ended with exit code {code}: {reason}$"):
        _ended(files, code, codes)


# --- the JSON


@pytest.mark.parametrize(
    "path", sorted((DATA / "2.4").glob("*.json")) + sorted((DATA / "2.10").glob("*.json")), ids=lambda path: path.stem
)
def test_every_capture_s_json_is_read_although_it_is_none(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="backslashreplace")
    try:
        found = document("stub", text)
    except ParseError as error:
        # Some captures are of runs that left nothing, or half of it.
        assert "stub wrote no JSON" in str(error) or "stub's JSON is damaged" in str(error)  # noqa: PT017
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)
        return
    assert found.integer("file_version") == 1
    assert found.object("sysinfo").data["sysname"] == "Linux"


def test_a_quote_in_the_command_line_does_no_harm() -> None:
    text = (DATA / "2.4" / "cyclictest-quote-in-cmdline.json").read_text()
    with pytest.raises(ValueError, match=r"."):
        json.loads(text)
    assert document("stub", text).integer("return_code") == 0
    for line in (r'"cmdline": "a \"b\" \\",', '"cmdline:": "a"b",', '"cmdline": "",', '  "cmdline:": "\\",'):
        found = document("stub", f'{{\n{line}\n"x": 1\n}}')
        assert found.integer("x") == 1


@pytest.mark.parametrize("word", ["nan", "-nan"])
def test_an_average_of_no_samples_is_no_number(word: str) -> None:
    found = document("stub", f'{{"avg": {word}, "x": {{"avg":{word}}}}}')
    for part in (found, found.object("x")):
        with pytest.raises(ParseError, match=r"^stub's 'avg' is None, not a number$"):
            part.number("avg")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "stub wrote no JSON"),
        (" \n\t", "stub wrote no JSON"),
        ("{", "stub's JSON is damaged: "),
        ("{} {}", "stub's JSON is damaged: "),
        ('{"min": nan}', "stub's JSON is damaged: "),
        ('{"avg": nanny}', "stub's JSON is damaged: "),
        ("[" * 100_000, "stub's JSON is damaged: "),
        ('{"x": 1' + 5000 * "0" + "}", "stub's JSON is damaged: "),
        ("[1]", "stub's JSON is not an object"),
        ("null", "stub's JSON is not an object"),
        ('"text"', "stub's JSON is not an object"),
    ],
)
def test_what_is_no_document_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        document("stub", text)
    assert str(caught.value).startswith(reason)


# --- its fields


def test_fields_are_read_with_their_types() -> None:
    found = Document("stub", {"a": 3, "b": 2.5, "c": {"d": -1}, "e": -LARGEST + 1})
    assert (found.integer("a"), found.number("a"), found.number("b")) == (3, 3.0, 2.5)
    assert isinstance(found.number("a"), float)
    assert found.object("c").integer("d") == -1
    assert found.integer("e") == -LARGEST + 1
    assert "a" in found
    assert "z" not in found


@pytest.mark.parametrize("read", ["integer", "number", "object", "numbered_objects"])
def test_a_missing_field_is_named(read: str) -> None:
    with pytest.raises(ParseError, match=r"^stub's JSON has no 'a'$"):
        getattr(Document("stub", {"b": 1}), read)("a")


@pytest.mark.parametrize("value", [None, True, False, 1.0, "1", [], {}, LARGEST, -LARGEST, 10**400])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(ParseError, match=r"^stub's 'a' is .*, not a whole number$"):
        Document("stub", {"a": value}).integer("a")


@pytest.mark.parametrize(
    "value", [None, True, "1", [], {}, math.nan, math.inf, -math.inf, 1e300, LARGEST, -LARGEST, 10**400]
)
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(ParseError, match=r"^stub's 'a' is .*, not a number$"):
        Document("stub", {"a": value}).number("a")


@pytest.mark.parametrize("value", [None, 1, [], "x", True])
def test_what_is_no_object(value: object) -> None:
    for read in ("object", "numbered_objects"):
        with pytest.raises(ParseError, match=r"^stub's 'a' is not what it should be$"):
            getattr(Document("stub", {"a": value}), read)("a")


def test_numbered_objects_come_in_order() -> None:
    found = Document("stub", {"thread": {str(number): {"n": number} for number in (10, 2, 0)}}).numbered_objects(
        "thread"
    )
    assert [(number, one.integer("n")) for number, one in found.items()] == [(0, 0), (2, 2), (10, 10)]
    with pytest.raises(ParseError, match=r"^stub's JSON has no 'x'$"):
        found[0].integer("x")


@pytest.mark.parametrize(
    "thread", [{"a": {}}, {"0": 7}, {"0": None}, {"-1": {}}, {"1" * 19: {}}, {"": {}}, {"\u0663": {}}]
)
def test_numbered_objects_that_are_none(thread: dict[str, Any]) -> None:
    with pytest.raises(ParseError, match=r"^stub's 'thread' is not what it should be$"):
        Document("stub", {"thread": thread}).numbered_objects("thread")


def test_no_numbered_object_is_no_result() -> None:
    with pytest.raises(ParseError, match=r"^stub reports no threads$"):
        Document("stub", {"thread": {}}).numbered_objects("thread")


@pytest.mark.parametrize("numbers", ["0", "02", "12", "012"])
def test_numbered_objects_are_as_many_as_asked_for(numbers: str) -> None:
    report = Document("stub", {"thread": {number: {} for number in numbers}})
    assert len(report.numbered_objects("thread")) == len(numbers)
    with pytest.raises(ParseError, match=rf"^stub reports threads {', '.join(numbers)}: 2 were asked for$"):
        report.numbered_objects("thread", 2)


def test_minimum_average_and_maximum_agree() -> None:
    report = Document("stub", {"min": 1, "avg": 3.01, "max": 3})
    assert report.figures(tolerance=0.01) == (1, 3.01, 3)
    with pytest.raises(ParseError, match=r"^stub's minimum 1, average 3\.01 and maximum 3 contradict each other$"):
        report.figures()


def test_a_histogram_comes_in_order() -> None:
    found = Document("stub", {"histogram": {"10": 1, "9": 2, "0": 0}})
    assert list(found.counts().items()) == [(0, 0), (9, 2), (10, 1)]
    assert Document("stub", {}).counts() == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "histogram is damaged: its buckets are not numbers"),
        ([], "histogram is damaged: its buckets are not numbers"),
        ({"x": 1}, "histogram is damaged: its buckets are not numbers"),
        ({"-1": 1}, "histogram is damaged: its buckets are not numbers"),
        ({"1.5": 1}, "histogram is damaged: its buckets are not numbers"),
        ({"1" * 5000: 1}, "histogram is damaged: its buckets are not numbers"),
        ({"1": -1}, "histogram is damaged: it holds counts below zero"),
        ({"1": 5, "2": -1}, "histogram is damaged: it holds counts below zero"),
        ({"1": 1.5}, "'1' is 1.5, not a whole number"),
        ({"1": None}, "'1' is None, not a whole number"),
        ({"1": True}, "'1' is True, not a whole number"),
        ({"1": 2**64}, "'1' is 18446744073709551616, not a whole number"),
    ],
)
def test_a_damaged_histogram(value: object, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        Document("stub", {"histogram": value}).counts()
    assert str(caught.value) == f"stub's {reason}"


@examples(200)
@given(st.dictionaries(st.text("0123456789", min_size=1, max_size=3), st.integers(0, 9), max_size=6))
def test_no_sample_of_a_histogram_is_lost(buckets: dict[str, int]) -> None:
    try:
        found = Document("stub", {"histogram": buckets}).counts()
    except ParseError:
        assert any(value != str(int(value)) for value in buckets)
    else:
        assert sum(found.values()) == sum(buckets.values())
        assert len(found) == len(buckets)


@examples(300)
@given(st.text(max_size=40) | st.text('{}[]",:0123456789eE.-+nan avgcmdline\n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = document("stub", text)
    except ParseError:
        return
    assert isinstance(found.data, dict)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("01a-", max_size=2), inner, max_size=2),
    max_leaves=5,
)


@examples(300)
@given(ANYTHING, st.sampled_from(["object", "numbered_objects", "counts", "integer", "number"]))
def test_any_value_is_read_or_refused(value: object, read: str) -> None:
    names = () if read == "counts" else ("histogram",)
    try:
        getattr(Document("stub", {"histogram": value}), read)(*names)
    except ParseError as error:
        assert str(error).startswith(("stub's ", "stub reports no "))  # noqa: PT017
