# SPDX-License-Identifier: MIT
from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from selftests.unit.history.conftest import origin, record
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.history import database, queries, schema
from rtgate.history.database import History
from rtgate.history.queries import BootFilter
from rtgate.history.store import add
from rtgate.history.url import VARIABLE, require_url


def test_reading_makes_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no history at .*history\.db yet: `rtgate history add` makes it"):
        History.open(url)
    assert not list(tmp_path.iterdir())


def test_the_url_comes_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="which history"):
        require_url(None)
    monkeypatch.setenv(VARIABLE, "sqlite:///a.db")
    assert require_url(None) == "sqlite:///a.db"
    assert require_url("sqlite:///b.db") == "sqlite:///b.db"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("history.db", "for a file write sqlite:///history.db"),
        ("mysql://host/x", "cannot be kept in 'mysql'"),
        ("postgresql+psycopg2://host/x", "cannot be kept in 'postgresql\\+psycopg2'"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////", "is a directory"),
        ("sqlite:////nowhere/at/all.db", "/nowhere/at does not exist"),
        ("x://:y:/", "is not the URL of a history"),
    ],
)
def test_a_wrong_url_says_what_is_allowed(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        History.open(url, create=True)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("this is not a database, " * 100)
    with pytest.raises(ConfigError, match=r"notes\.txt is not a history"):
        History.open(f"sqlite:///{text}")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(ConfigError, match=r"something else .tables: songs"):
        History.open(f"sqlite:///{other}")
    assert text.read_text().startswith("this is not a database")


def test_a_newer_schema_is_refused(url: str) -> None:
    newer = len(schema.STEPS) + 1
    with History.open(url, create=True) as history, history.writing() as connection:
        connection.execute(schema.version.update().values(version=newer))
    with pytest.raises(ConfigError, match=f"made by a newer rtgate .its tables are version {newer}"):
        History.open(url)


def test_every_step_can_be_the_last_that_was_seen(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = schema.STEPS
    for known in range(1, len(steps) + 1):
        monkeypatch.setattr(schema, "STEPS", steps[:known])
        with History.open(url, create=True) as history:
            add(history, [record(known)], origin())
    with History.open(url) as history:
        assert len(queries.find(history, BootFilter())) == len(steps)


def test_a_step_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_connection: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, broken))
        with pytest.raises(ZeroDivisionError):
            History.open(url, create=True)
    with History.open(url) as history:
        assert not queries.find(history, BootFilter())


def test_a_server_that_does_not_answer_is_the_labs_failure_and_no_password_is_told() -> None:
    with pytest.raises(InfrastructureError, match="cannot be used") as caught:
        History.open("postgresql://user:secret@127.0.0.1:1/history")
    assert "secret" not in str(caught.value)


def test_a_server_that_vanishes_is_not_waited_for_without_end() -> None:
    url = "postgresql+psycopg://host/history"
    deadlines = database._server_deadlines(make_url(url))
    assert {"connect_timeout", "keepalives_idle", "tcp_user_timeout"} < set(deadlines)
    assert "options" not in deadlines  # which PgBouncer refuses
    assert "connect_timeout" not in database._server_deadlines(make_url(f"{url}?connect_timeout=5"))


@pytest.mark.parametrize(("query", "limited"), [("", True), ("?options=-c%20statement_timeout%3D30min", False)])
def test_limits_of_statements_end_with_a_transaction_and_those_of_the_url_stand(query: str, limited: bool) -> None:
    engine = database._engine(make_url(f"postgresql+psycopg://host/history{query}"))
    assert event.contains(engine, "begin", database._limit_statements) is limited
    statements: list[str] = []
    database._limit_statements(cast(Connection, SimpleNamespace(exec_driver_sql=statements.append)))
    assert [statement.split()[:2] for statement in statements] == [["SET", "LOCAL"]] * 2


def test_without_psycopg_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'rtgate\[postgresql\]'"):
        History.open("postgresql://127.0.0.1:1/history")


def test_readers_do_not_wait_for_a_writer(url: str, tmp_path: Path) -> None:
    with History.open(url, create=True) as history:
        add(history, [record(1)], origin())
        with sqlite3.connect(tmp_path / "history.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert len(queries.find(history, BootFilter())) == 1
            other.execute("ROLLBACK")
        other.close()
