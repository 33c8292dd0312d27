# SPDX-License-Identifier: MIT
"""The history in a real PostgreSQL server, which is started for these tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from selftests.history_writers import OWN, SHARED, write_at_once
from selftests.unit.history.conftest import make_good, origin, promotion, record
from sqlalchemy import create_engine, text

from rtgate.errors import ConfigError, InfrastructureError, TargetError
from rtgate.history import queries, schema
from rtgate.history.baselines import Revocation, kernels_on_boards, promote, revoke
from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.prior import HistoryPrior
from rtgate.history.queries import BootFilter
from rtgate.history.store import StoreResult, add

WRITERS = 4


def _programs() -> Path:
    """Return the directory of PostgreSQL's server programs; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    named = shutil.which("postgres")
    if not found and not named:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    return found[-1].parent if found else Path(str(named)).parent


def _as_its_user() -> list[str]:
    """PostgreSQL does not run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server that listens on a socket only, and give the URL of its databases, without their name."""
    programs, user = _programs(), _as_its_user()
    # Below /tmp: the server's user must get in, and a socket's path is short.
    directory = Path(tempfile.mkdtemp(prefix="rtgate-pg-"))
    name = "postgres" if user else pwd.getpwuid(os.geteuid()).pw_name
    if user:
        shutil.chown(directory, "postgres", "postgres")
    data, log = directory / "data", directory / "log"

    def quietly(*command: object) -> None:
        done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, cwd=directory)
        assert done.returncode == 0, done.stderr

    quietly(*user, programs / "initdb", "-A", "trust", "--no-sync", "-D", data)
    control = [*user, programs / "pg_ctl", "-D", data, "-w"]
    options = f"-k {directory} -c listen_addresses='' -c fsync=off"
    quietly(*control, "-l", log, "-o", options, "start")
    try:
        yield f"postgresql+psycopg://{name}@/{{name}}?host={directory}"
    finally:
        quietly(*control, "-m", "immediate", "stop")
        shutil.rmtree(directory)


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    """Make a database for one test and return its URL."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    _execute(server.format(name="postgres"), f"CREATE DATABASE {name}")
    return server.format(name=name)


def _execute(url: str, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_it_keeps_what_it_is_given(url: str) -> None:
    made = [record(number, scale=scale) for number, scale in enumerate([1.0, 1.1, 1.0, 1.2], 1)]
    with History.open(url, create=True) as history:
        assert add(history, made, origin()) == StoreResult(new=4, existing=0)
        make_good(history, made)
        assert add(history, made, origin("again")) == StoreResult(new=0, existing=4)
        found = sorted(queries.comparable_boots(history, record(99)), key=lambda boot: boot.number)
        assert list(queries.records(history, found)) == made
        assert borrow(history, record(99)).priors["winsorised mean"].degrees == 2
        (line,) = queries.contents(history, BootFilter(board="bench"))
        assert (line.boots, line.valid) == (4, 4)


def test_kernels_are_promoted_and_revoked(url: str) -> None:
    bad = "b" * 64
    made = [record(1), record(2), record(3, image=bad), record(4, image=bad)]
    with History.open(url, create=True) as history:
        add(history, made, origin())
        assert not queries.comparable_boots(history, record(99))
        unjudged = promotion(made[0], verdict="", unjudged="the vendor's")
        assert promote(history, [unjudged]) == (unjudged,)
        assert promote(history, [promotion(one) for one in (made[0], made[2])]) != ()
        assert len(queries.comparable_boots(history, record(99))) == 4
        effect = revoke(history, bad[:8], Revocation(kernel="", revoked_at="now", revoked_by="joe", reason="slow"))
        assert (effect.kernels, effect.boots) == ((bad,), 2)
        found = queries.comparable_boots(history, record(99))
        assert sorted(boot.number for boot in found) == [1, 2]  # of one transaction, in no order of theirs
        assert len(HistoryPrior(history).case_history(record(99), ()).spikes) == 2
        assert queries.revoked_warnings(history, record(99)) == (
            "left out, boots: 2: bbbbbbbbbbbb was revoked on now by joe: slow",
        )
        assert [line.of_good_kernels for line in queries.contents(history, BootFilter())] == [2]
        good, revoked = sorted(kernels_on_boards(history), key=lambda one: one.kernel)
        assert (good.promotion, good.revocation) == (promotion(made[0]), None)
        assert (revoked.boots, revoked.revocation is None) == (2, False)
        with pytest.raises(TargetError, match="was revoked on now by joe"):
            promote(history, [promotion(made[2])])


def test_no_record_is_lost_or_doubled_among_writers_that_start_at_once(url: str) -> None:
    new = write_at_once(url, WRITERS)
    assert sum(new) == SHARED + WRITERS * OWN
    with History.open(url) as history:
        found = queries.find(history, BootFilter())
        assert len({one.boot_id for one in queries.records(history, found)}) == len(found) == sum(new)


def test_tables_of_others_stay(url: str) -> None:
    _execute(url, "CREATE TABLE songs (title TEXT)")
    with History.open(url) as history:
        add(history, [record(1)], origin())
    _execute(url, "INSERT INTO songs VALUES ('La Paloma')")


def test_a_newer_schema_is_refused(url: str) -> None:
    with History.open(url) as history, history.writing() as connection:
        connection.execute(schema.version.update().values(version=99))
    with pytest.raises(ConfigError, match="made by a newer rtgate"):
        History.open(url)


def test_a_database_that_is_not_there_and_a_user_without_rights(server: str, url: str) -> None:
    with pytest.raises(InfrastructureError, match="does not exist"):
        History.open(server.format(name="nowhere"))
    _execute(url, "CREATE USER guest")
    name = url.partition("://")[2].partition("@")[0]
    with pytest.raises(InfrastructureError, match="permission denied"):
        History.open(url.replace(f"{name}@", "guest@", 1))
