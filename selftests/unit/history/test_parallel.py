# SPDX-License-Identifier: MIT
"""Several processes and one SQLite file. PostgreSQL: selftests/integration/test_history.py."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from selftests.history_writers import OWN, ROOT, SHARED, write_at_once

from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.queries import BootFilter

WRITERS = 4


@pytest.mark.long("many writers, 5 s; one that is killed is in make test")
def test_no_record_is_lost_or_doubled_among_writers_that_start_at_once(url: str) -> None:
    new = write_at_once(url, WRITERS)
    assert sum(new) == SHARED + WRITERS * OWN
    with History.open(url) as history:
        found = queries.find(history, BootFilter())
        assert len(found) == sum(new)
        assert len({one.boot_id for one in queries.records(history, found)}) == len(found)


_DIES = """\
import os, signal, sys
sys.path.insert(0, {root!r})
from selftests.unit.history.conftest import origin, record
from rtgate.history import schema
from rtgate.history.database import History, insert_new
from rtgate.history.store import _row, add

with History.open(sys.argv[1], create=True) as history:
    add(history, [record(1)], origin())
    row = _row(record(2), origin())
    row.pop("environment_row")
    with history.writing() as connection:
        insert_new(connection, schema.boots, [row])
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_leaves_whole_records_only(url: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _DIES.format(root=str(ROOT)), url], check=False, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    with History.open(url) as history:
        assert [boot.number for boot in queries.find(history, BootFilter())] == [1]
    with sqlite3.connect(tmp_path / "history.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
