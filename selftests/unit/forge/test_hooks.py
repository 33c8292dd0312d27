# SPDX-License-Identifier: MIT
from __future__ import annotations

import copy
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.forge.hooks import BadDelivery, github_hook, gitlab_hook
from rtgate.forge.run_command import Command
from rtgate.http.secret import Token

SECRET = Token("a-secret-of-the-hook", "$X")
HEAD = "c0ffee" + "1" * 34
GITLAB: dict[str, Any] = {
    "object_kind": "note",
    "user": {"id": 101, "username": "linus"},
    "project": {"id": 42, "path_with_namespace": "rt/kernel"},
    "object_attributes": {
        "id": 9,
        "note": "/rtgate run",
        "noteable_type": "MergeRequest",
        "system": False,
        "action": "create",
    },
    "merge_request": {"iid": 7, "last_commit": {"id": HEAD}},
}
GITHUB: dict[str, Any] = {
    "action": "created",
    "repository": {"full_name": "kernel/linux"},
    "issue": {"number": 7, "pull_request": {"url": "x"}},
    "comment": {"id": 9, "body": "/rtgate run", "user": {"login": "linus"}},
}


def by_gitlab(body: bytes, **more: str) -> Command | None:
    return gitlab_hook({"x-gitlab-token": SECRET.secret(), "x-gitlab-event": "Note Hook", **more}, body, SECRET)


def by_github(body: bytes, **more: str) -> Command | None:
    signature = hmac.new(SECRET.secret().encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={signature}", "x-github-event": "issue_comment", **more}
    return github_hook(headers, body, SECRET)


FORGES = pytest.mark.parametrize(("deliver", "said"), [(by_gitlab, GITLAB), (by_github, GITHUB)])
Deliver = Callable[[bytes], Command | None]


def test_a_note_on_a_merge_request() -> None:
    assert by_gitlab(json.dumps(GITLAB).encode()) == Command(project="rt/kernel", merge_request=7, comment=9, head=HEAD)


def test_a_comment_on_a_pull_request() -> None:
    assert by_github(json.dumps(GITHUB).encode()) == Command(project="kernel/linux", merge_request=7, comment=9)


@pytest.mark.parametrize("token", ["", "a-secret-of-the-hooK", "a-secret-of-the-hook ", "\udcff"])
def test_the_secret_of_gitlab(token: str) -> None:
    with pytest.raises(BadDelivery, match="is not the secret") as error:
        gitlab_hook({"x-gitlab-token": token, "x-gitlab-event": "Note Hook"}, json.dumps(GITLAB).encode(), SECRET)
    assert error.value.status == 401


def test_the_signature_of_github_is_of_this_body_and_this_secret() -> None:
    body = json.dumps(GITHUB).encode()
    other = hmac.new(b"another-secret-here", body, hashlib.sha256).hexdigest()
    for signature in ("", "sha256=", f"sha256={other}", f"sha1={other}"):
        with pytest.raises(BadDelivery, match="is not that of the secret") as error:
            by_github(body, **{"x-hub-signature-256": signature})
        assert error.value.status == 401
    right = hmac.new(SECRET.secret().encode(), body, hashlib.sha256).hexdigest()
    with pytest.raises(BadDelivery):
        by_github(body + b" ", **{"x-hub-signature-256": f"sha256={right}"})


def test_other_events_are_none_of_our_business() -> None:
    assert by_gitlab(b"{}", **{"x-gitlab-event": "Push Hook"}) is None
    assert by_github(b"{}", **{"x-github-event": "ping"}) is None


def changed(said: dict[str, Any], path: str, value: object) -> bytes:
    damaged = copy.deepcopy(said)
    *names, last = path.split(".")
    where = damaged
    for name in names:
        where = where[name]
    where[last] = value
    return json.dumps(damaged).encode()


@pytest.mark.parametrize(
    ("deliver", "said", "path", "value"),
    [
        (by_gitlab, GITLAB, "object_attributes.noteable_type", "Issue"),
        (by_gitlab, GITLAB, "object_attributes.system", True),
        (by_gitlab, GITLAB, "object_attributes.action", "update"),
        (by_gitlab, GITLAB, "object_attributes.note", "please say /rtgate run"),
        (by_github, GITHUB, "action", "edited"),
        (by_github, GITHUB, "issue.pull_request", None),
        (by_github, GITHUB, "comment.body", "> /rtgate run"),
    ],
)
def test_comments_that_are_no_command(deliver: Deliver, said: dict[str, Any], path: str, value: object) -> None:
    assert deliver(changed(said, path, value)) is None


@pytest.mark.parametrize(
    ("deliver", "said", "path", "value"),
    [
        (by_gitlab, GITLAB, "merge_request.iid", "7/../8"),
        (by_gitlab, GITLAB, "merge_request.iid", True),
        (by_gitlab, GITLAB, "merge_request.iid", -1),
        (by_gitlab, GITLAB, "object_attributes.id", 2**63),
        (by_gitlab, GITLAB, "merge_request.last_commit", {"id": "main"}),
        (by_gitlab, GITLAB, "project.path_with_namespace", None),
        (by_gitlab, GITLAB, "object_attributes.note", 5),
        (by_github, GITHUB, "issue.number", 7.0),
        (by_github, GITHUB, "comment.id", "9"),
        (by_github, GITHUB, "repository.full_name", ["kernel/linux"]),
        (by_github, GITHUB, "comment", "x"),
    ],
)
def test_what_is_no_such_event(deliver: Deliver, said: dict[str, Any], path: str, value: object) -> None:
    with pytest.raises(BadDelivery, match="not that of such an event") as error:
        deliver(changed(said, path, value))
    assert error.value.status == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@FORGES
@given(body=st.binary(max_size=200))
def test_bytes_are_refused_and_nothing_else_happens(deliver: Deliver, said: object, body: bytes) -> None:
    with pytest.raises(BadDelivery):
        deliver(body)


@FORGES
@given(data=st.data())
def test_any_value_in_any_place_is_a_command_or_refused(
    deliver: Deliver, said: dict[str, Any], data: st.DataObject
) -> None:
    """With the right secret: nothing but these three can come of it."""
    damaged = copy.deepcopy(said)
    where: Any = damaged
    while True:
        name = data.draw(st.sampled_from(sorted(where)))
        if not isinstance(where[name], dict) or data.draw(st.booleans()):
            break
        where = where[name]
    where[name] = data.draw(JSON)
    try:
        command = deliver(json.dumps(damaged).encode("utf-8", "surrogatepass"))
    except BadDelivery:
        return
    assert command is None or (0 < command.merge_request < 2**63 and 0 < command.comment < 2**63)


@FORGES
@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"1" * 10_000, b"\xff\xfe{", b'{"a": 1e999}', b"NaN", b"", b'"' + b"\\ud800" * 9 + b'"']
)
def test_json_that_is_made_to_hurt(deliver: Deliver, said: object, body: bytes) -> None:
    with pytest.raises(BadDelivery):
        deliver(body)
