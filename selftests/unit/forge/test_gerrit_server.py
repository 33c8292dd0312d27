# SPDX-License-Identifier: MIT
"""What needs no server; the rest is in selftests/forge, before a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.forge.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.forge.gerrit import Gerrit
from rtgate.forge.gerrit_change import PatchSet
from rtgate.forge.gerrit_server import GerritServer, access, base
from rtgate.http.client import NoAnswer

SECRET = "s3cr3t-0123456789"
PATCH_SET = PatchSet(project="kernel", branch="master", change=1, number=1, revision="a" * 40)
WHO = {"RTGATE_GERRIT_USER": "bot", "RTGATE_GERRIT_PASSWORD": SECRET}


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"RTGATE_GERRIT_URL": "https://a/", "GERRIT_URL": "https://b", "GERRIT_HOST": "c"}, "https://a"),
        ({"GERRIT_URL": "https://b", "GERRIT_HOST": "c"}, "https://b"),
        ({"GERRIT_HOST": "c"}, "https://c"),
    ],
)
def test_which_server(variables: dict[str, str], url: str) -> None:
    assert access({**variables, **WHO}).url == url


def test_an_option_comes_first() -> None:
    assert access({"GERRIT_URL": "https://b", **WHO}, "https://d").url == "https://d"


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("GERRIT_URL", "which Gerrit.*RTGATE_GERRIT_URL"),
        ("RTGATE_GERRIT_USER", "RTGATE_GERRIT_USER must name"),
        ("RTGATE_GERRIT_PASSWORD", "RTGATE_GERRIT_PASSWORD_FILE must name"),
    ],
)
def test_what_is_not_set(missing: str, message: str) -> None:
    variables = {"GERRIT_URL": "https://b", **WHO}
    del variables[missing]
    with pytest.raises(ConfigError, match=message):
        access(variables)


def test_a_password_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}-of-the-file\n")
    path.chmod(0o600)
    found = access({"GERRIT_HOST": "c", "RTGATE_GERRIT_USER": "bot", "RTGATE_GERRIT_PASSWORD_FILE": str(path)})
    assert found.password.secret() == f"{SECRET}-of-the-file"
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://h/", "https://h"),
        ("https://h:8443/gerrit/", "https://h:8443/gerrit"),
        ("http://h/a/", "http://h"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_server_by_its_url(text: str, url: str) -> None:
    assert base(text) == url


@pytest.mark.parametrize("url", [f"https://bot:{SECRET}@h", "ssh://h:29418", "h", "https://", "http://h:port"])
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        base(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"current_revision": "a" * 40},
        {"current_revision": "a" * 40, "revisions": {}},
        {"current_revision": "a" * 40, "revisions": {"a" * 40: []}},
        {"current_revision": "a" * 40, "revisions": {"a" * 40: {"_number": 1}}, "project": "p", "branch": "b"},
    ],
)
def test_a_change_that_is_described_in_another_way(entry: dict[str, object]) -> None:
    server = GerritServer(access({"GERRIT_HOST": "c", **WHO}))
    with pytest.raises(NoAnswer, match="in a way that rtgate does not know"):
        server._patch_set(entry)


def test_a_server_that_is_away_is_named_at_once() -> None:
    said: list[str] = []
    variables = {"RTGATE_GERRIT_URL": "http://127.0.0.1:9", **WHO, **PATCH_SET.variables()}
    gerrit = Gerrit.from_environment(variables, say=said.append)
    hurried = replace(gerrit, server=replace(gerrit.server, patience=HASTY))
    with pytest.raises(InfrastructureError, match="rtgate tries for 3 s"):
        hurried.merge_request()
    (first,) = said
    assert first.startswith("http://127.0.0.1:9/a/projects/kernel/branches/master does not answer: ")
    assert first.endswith("trying again, for 3 s at most")
