# SPDX-License-Identifier: MIT
"""Opening the history: SQLite in a file, or PostgreSQL by URL; its tables are made and brought up to date here.

SQLite runs in WAL mode with a busy timeout, and every write transaction takes its lock when it begins, so writers
queue up instead of failing half way. PostgreSQL's writers need no such help; only the steps of the schema take a lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.history import schema
from rtgate.history.url import EXAMPLES

_BUSY_S = 60.0  # how long a writer waits for others; a transaction takes milliseconds
_STEP_LOCK = 0x72746761  # any number that other programs on the same PostgreSQL server are unlikely to lock
_CONNECT_S = 10
_STATEMENT_S = 600  # a statement reads some hundred boots, or is a step of the tables


class History:
    """An open history. Use it as a context manager, or close it; threads may share it."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> History:
        """Open the history of a URL, and bring its tables up to date.

        Args:
            url: SQLAlchemy's, of SQLite or PostgreSQL.
            create: whether a SQLite file that is not there is made.

        Raises:
            ConfigError: the URL is wrong, a driver is missing, or what is there is no history, or a newer one.
            InfrastructureError: the database cannot be reached or written.
        """
        address = _parse_url(url)
        name = address.render_as_string(hide_password=True)
        if address.get_backend_name() == "sqlite":
            _check_file(address, name, create=create)
        history = cls(_engine(address), name)
        try:
            history._migrate()
        except BaseException:
            history.close()
            raise
        return history

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection for a transaction that only reads. Raises as `open`."""
        with self._errors(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection for one short transaction that writes. Raises as `open`."""
        with (
            self._errors(),
            self._engine.connect().execution_options(rtgate_writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise _explain_error(error, self.name) from error

    def _migrate(self) -> None:
        """Carry out the steps that the tables have not seen. Many processes may do so at once: one does it."""
        with self.reading() as connection:
            if _version(connection) == len(schema.STEPS):
                return
        with self.writing() as connection:
            if self.dialect == "postgresql":
                # Another process may be carrying out the steps, each as long as a statement may take.
                connection.execute(text(f"SET LOCAL lock_timeout = '{_STATEMENT_S}s'"))
                connection.execute(select(func.pg_advisory_xact_lock(_STEP_LOCK)))
            now = _version(connection)
            if now > len(schema.STEPS):
                raise ConfigError(
                    f"the history {self.name} was made by a newer rtgate (its tables are version {now}, this rtgate "
                    f"knows {len(schema.STEPS)}): use that one, or another history"
                )
            if now == 0:
                self._check_ours(connection)
            for step in schema.STEPS[now:]:
                step(connection)
            connection.execute(schema.version.delete())
            connection.execute(schema.version.insert().values(version=len(schema.STEPS)))

    def _check_ours(self, connection: Connection) -> None:
        """Refuse a file that belongs to another program. A PostgreSQL database may be shared."""
        tables = inspect(connection).get_table_names() if self.dialect == "sqlite" else []
        if tables:
            raise ConfigError(f"{self.name} is a database of something else (tables: {', '.join(tables[:5])})")


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows that are not there yet, and return how many that were."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).on_conflict_do_nothing().returning(*table.primary_key)
    return len(connection.execute(statement, rows).all())


def _parse_url(url: str) -> URL:
    if "://" not in url:
        raise ConfigError(
            f"{url!r} is not the URL of a history: for a file write sqlite:///{url} (allowed: {EXAMPLES})"
        )
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(f"this is not the URL of a history: {error} (allowed: {EXAMPLES})") from error
    if address.drivername in {"postgresql", "postgres"}:
        address = address.set(drivername="postgresql+psycopg")
    if address.drivername not in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
        raise ConfigError(f"a history cannot be kept in {address.drivername!r} (allowed: {EXAMPLES})")
    return address


def _check_file(url: URL, name: str, *, create: bool) -> None:
    if not url.database or url.database == ":memory:":
        raise ConfigError(f"{name} names no file, and a history must outlive this command (allowed: {EXAMPLES})")
    path = Path(url.database)
    if path.is_dir():
        raise ConfigError(f"{path} is a directory: a history is a file in it, for example {path / 'history.db'}")
    if not path.exists() and not create:
        raise ConfigError(f"there is no history at {path} yet: `rtgate history add` makes it")
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} does not exist: make it, then the history can be made in it")


def _engine(url: URL) -> Engine:
    is_file = url.get_backend_name() == "sqlite"
    try:
        engine = create_engine(url, connect_args={"timeout": _BUSY_S} if is_file else _server_deadlines(url))
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ConfigError(
            f"a history in PostgreSQL needs psycopg, which is not installed ({error}): "
            "pip install 'rtgate[postgresql]' (or 'psycopg[binary]')"
        ) from error
    if is_file:
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    elif "options" not in url.query:  # which may set other limits
        event.listen(engine, "begin", _limit_statements)
    return engine


def _server_deadlines(url: URL) -> dict[str, Any]:
    """Return the deadlines of a PostgreSQL connection (libpq's parameters), but for those that the URL has itself.

    A host that vanishes answers neither data nor keepalives.
    """
    deadlines = {
        "connect_timeout": _CONNECT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": round(1000 * _BUSY_S),
    }
    return {name: value for name, value in deadlines.items() if name not in url.query}


def _limit_statements(connection: Connection) -> None:
    """Have a PostgreSQL server end what takes too long, in this transaction alone.

    PgBouncer refuses limits as a parameter of the connection, and gives the connection to other programs afterwards.
    """
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_BUSY_S:.0f}s'")
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{_STATEMENT_S}s'")


def _prepare(connection: Any, _record: Any) -> None:
    """Prepare a SQLite connection: transactions begin when we say so, and readers do not stop writers."""
    connection.isolation_level = None
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = wal")
            break
        except connection.OperationalError as error:
            # Changing the mode does not wait for others as everything else does.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = normal")
    connection.execute("PRAGMA foreign_keys = on")


def _begin(connection: Connection) -> None:
    """Begin a SQLite transaction; one that writes takes the lock now, so that it cannot fail for it later."""
    writes = connection.get_execution_options().get("rtgate_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _version(connection: Connection) -> int:
    """Return how many steps the tables have seen."""
    if not inspect(connection).has_table(schema.version.name):
        return 0
    return connection.execute(select(func.max(schema.version.c.version))).scalar() or 0


def _explain_error(error: DBAPIError, name: str) -> ConfigError | InfrastructureError:
    reason = " ".join(str(error.orig).split()) or type(error.orig).__name__
    if "not a database" in reason or "malformed" in reason:
        return ConfigError(f"{name} is not a history: {reason}")
    if "locked" in reason:
        return InfrastructureError(f"the history {name} was busy for more than {_BUSY_S:g} s: {reason}")
    return InfrastructureError(f"the history {name} cannot be used: {reason}")
