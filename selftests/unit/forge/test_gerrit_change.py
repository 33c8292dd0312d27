# SPDX-License-Identifier: MIT
from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.forge.gerrit import Gerrit
from rtgate.forge.gerrit_change import PatchSet, first_line, patch_set

ONE = PatchSet(project="rt/kernel", branch="master", change=4711, number=3, revision="a" * 40, title="a title")


def test_variables_name_it_again() -> None:
    assert patch_set(ONE.variables()) == ONE


def test_names() -> None:
    assert (ONE.name, ONE.ref, ONE.branch_ref) == (
        "change 4711, patch set 3",
        "refs/changes/11/4711/3",
        "refs/heads/master",
    )


@pytest.mark.parametrize("name", sorted(set(ONE.variables()) - {"GERRIT_CHANGE_SUBJECT"}))
def test_a_variable_that_is_missing(name: str) -> None:
    variables = {key: value for key, value in ONE.variables().items() if key != name}
    with pytest.raises(ConfigError, match=f"{name} is not set"):
        patch_set(variables)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GERRIT_CHANGE_NUMBER", "0"),
        ("GERRIT_CHANGE_NUMBER", "../7"),
        ("GERRIT_PATCHSET_NUMBER", "-1"),
        ("GERRIT_PATCHSET_REVISION", "HEAD"),
        ("GERRIT_PATCHSET_REVISION", "--upload-pack=x"),
        ("GERRIT_BRANCH", "a\x1bb"),
    ],
)
def test_a_variable_that_is_something_else(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        patch_set({**ONE.variables(), name: value})


@given(st.text())
def test_a_title_is_one_line_that_any_program_takes(text: str) -> None:
    title = first_line(text)
    assert len(title) <= 500
    assert not set(title) & set("\0\n\r\x1b\x07\u202e\u2028")
    title.encode()
    assert first_line(title) == title


def test_the_password_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Makefiles of the patch set get what is in it."""
    own = {
        "RTGATE_GERRIT_URL": "https://review.invalid",
        "RTGATE_GERRIT_USER": "bot",
        "RTGATE_GERRIT_PASSWORD": "x" * 9,
    }
    for name, value in (ONE.variables() | own).items():
        monkeypatch.setenv(name, value)
    found = Gerrit.from_environment()
    assert "RTGATE_GERRIT_PASSWORD" not in os.environ
    assert found.server.access.password.secret() == "x" * 9
