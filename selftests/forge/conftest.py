# SPDX-License-Identifier: MIT
"""A real Gerrit server for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.forge.gerrit_jars import why_not
from selftests.forge.gerrit_server import PASSWORDS, Author, GerritServer

from rtgate.forge.gerrit import Gerrit
from rtgate.forge.gerrit_change import PatchSet


@pytest.fixture(scope="session")
def gerrit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GerritServer]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    server = GerritServer(tmp_path_factory.mktemp("gerrit"))
    try:
        server.prepare()
        yield server
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def _up(request: pytest.FixtureRequest) -> None:
    """Start it again after a test that failed while it was away."""
    if "gerrit" in request.fixturenames:
        request.getfixturevalue("gerrit").start()


@pytest.fixture
def author(gerrit: GerritServer, tmp_path: Path) -> Author:
    return Author(gerrit, tmp_path / "clone")


def variables(gerrit: GerritServer, author: Author, change: int, number: int = 1, **more: str) -> dict[str, str]:
    """Return the environment that Jenkins gives a job for the commit that `author` has pushed."""
    patch_set = PatchSet(
        project=author.project, branch=author.branch, change=change, number=number, revision=author.head()
    )
    access = {
        "RTGATE_GERRIT_URL": gerrit.url,
        "RTGATE_GERRIT_USER": "bot",
        "RTGATE_GERRIT_PASSWORD": PASSWORDS["bot"],
    }
    return {**patch_set.variables(), **access, **more}


def forge(gerrit: GerritServer, author: Author, change: int, number: int = 1, **more: str) -> Gerrit:
    return Gerrit.from_environment(variables(gerrit, author, change, number, **more))
