# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.forge import gerrit_events
from rtgate.forge.gerrit_events import Event, Lines, event

# As Gerrit 3.9.1 sent it, without its parts about people.
CREATED = (
    b'{"patchSet":{"number":1,"revision":"d2b6b5c2c2","parents":["edfbaf3c9b"],"ref":"refs/changes/04/4/1",'
    b'"createdOn":1795573556,"kind":"REWORK","sizeInsertions":1,"sizeDeletions":0},'
    b'"change":{"project":"rt/kernel","branch":"master","id":"I52","number":4,"subject":"x","url":"http://h/c/4",'
    b'"createdOn":1795573556,"status":"NEW","wip":true},"project":{"name":"rt/kernel"},'
    b'"refName":"refs/heads/master","changeKey":{"key":"I52"},"type":"patchset-created","eventCreatedOn":1795573556}'
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_patch_set() -> None:
    assert event(CREATED) == Event(kind="patchset-created", project="rt/kernel", change=4)


# A reply, in the form of the event above: Gerrit puts lines of its own above what somebody wrote.
COMMENT = (
    b'{"author":{"name":"Reader","email":"reader@example.org","username":"reader"},'
    b'"comment":"Patch Set 1:\\n\\n(1 comment)\\n\\n/rtgate run","change":{"project":"rt/kernel","number":4},'
    b'"type":"comment-added"}'
)


def test_a_comment_that_wants_another_review() -> None:
    assert event(COMMENT) == Event(kind="comment-added", project="rt/kernel", change=4, run_for="reader")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"/rtgate run", b"> /rtgate run"),
        (b"/rtgate run", b"say /rtgate run"),
        (b"/rtgate run", b"/rtgate running"),
        (b'"comment"', b'"text"'),
        (b'"author"', b'"somebody"'),
    ],
)
def test_a_comment_that_wants_nothing(old: bytes, new: bytes) -> None:
    assert event(COMMENT.replace(old, new)) == Event(kind="comment-added", project="rt/kernel", change=4)


def test_a_number_as_text() -> None:
    assert event(CREATED.replace(b'"number":4', b'"number":"4"')) == event(CREATED)


def test_events_that_were_dropped() -> None:
    assert event(b'{"type":"dropped-output","eventCreatedOn":1}') == Event(kind="dropped-output")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[1]",
        b"{}",
        b'{"type": 7}',
        b'{"type": "ref-updated", "refUpdate": {}}',
        b'{"type": "patchset-created", "change": "4"}',
        b'{"type": "patchset-created", "change": {"project": "p", "number": "x"}}',
        b'{"type": "patchset-created", "change": {"project": "p", "number": -4}}',
        b'{"type": "patchset-created", "change": {"project": "p", "number": 1e999}}',
        b'{"type": "patchset-created", "change": {"project": ["p"], "number": 4}}',
        b'{"type": "patchset-created", "change": {"project": "p", "number": ' + b"9" * 5000 + b"}}",
        b"[" * 100_000,
    ],
)
def test_what_is_not_an_event_of_a_change(line: bytes) -> None:
    assert event(line) is None


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_anything_is_an_event_or_not(line: bytes) -> None:
    found = event(line)
    assert found is None or found.kind


@given(kind=JSON, change=JSON, project=JSON, number=JSON)
def test_an_event_with_anything_in_its_places(kind: Any, change: Any, project: Any, number: Any) -> None:
    for data in ({"type": kind, "change": change}, {"type": "x", "change": {"project": project, "number": number}}):
        found = event(json.dumps(data).encode())
        assert found is None or found.kind == "dropped-output" or found.change > 0


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.data())
def test_lines_are_found_wherever_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    rest, reader, found = b"".join(line + b"\n" for line in lines), Lines(), []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += reader.add(rest[:size])
        rest = rest[size:]
    assert found == lines


def test_a_line_without_end_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gerrit_events, "_LINE", 100)
    reader = Lines()
    assert [line for _ in range(50) for line in reader.add(b"x" * 70)] == []
    assert len(reader._rest) <= 100
    assert reader.add(b"the end\nnext\n") == [b"next"]
