# SPDX-License-Identifier: MIT
"""Finding boots in the history, and their records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, Table, distinct, func, select

from rtgate.board.boot import State
from rtgate.history import encoding, schema
from rtgate.history.baselines import Revocation, is_good, is_promoted, is_revoked
from rtgate.history.database import History
from rtgate.history.schema import boots, environments, revocations
from rtgate.records.record import Record

# More than 60 sessions of two boots tell nothing new (and old boots of a board tell little about it).
NEWEST: Final = 120
_AT_ONCE = 500  # ids of one query: databases limit how many values it may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One row: a case in one boot, without its measurements.

    Attributes:
        run: what was measured together.
        number: which boot of its run.
        good_kernel: whether its kernel is known to be good: promoted on this board, and not revoked.
        kernel: what tells kernels apart (`Record.kernel_id`).
        image: SHA-256 of the kernel's image; empty for a kernel that nobody knew.
        comparable: equal for boots that may be compared.
    """

    id: int
    board: str
    device: str
    case: str
    profile: str
    arm: str
    good_kernel: bool
    run: str
    number: int
    kernel: str
    kernel_name: str
    kernel_release: str
    image: str
    source: str
    comparable: str
    seed: int | None
    stored_at: str
    state: str
    valid: bool
    why_invalid: str
    faults: int

    @property
    def has_results(self) -> bool:
        """Whether it came to an end; otherwise nobody knows its whole environment."""
        return self.state == State.MEASURED

    @property
    def usable(self) -> bool:
        """Whether something may be learnt from it: valid, and without a fault of the kernel."""
        return self.valid and not self.faults


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFilter:
    """Which boots; None for any.

    Attributes:
        keys: names of their records (`encoding.key`).
        without: runs that are left out.
        usable: only valid boots without a kernel fault.
        good_kernels: only of kernels that are known to be good.
        revoked: only of kernels that were revoked, or only of others.
        newest: at most so many, the last stored ones.
    """

    board: str | None = None
    device: str | None = None
    flavour: str | None = None
    case: str | None = None
    profile: str | None = None
    arm: str | None = None
    comparable: str | None = None
    keys: Sequence[str] | None = None
    runs: Sequence[str] | None = None
    without: Sequence[str] = ()
    usable: bool = False
    good_kernels: bool = False
    revoked: bool | None = None
    newest: int | None = None


_NAMES: Final = {
    "case": boots.c.case_name,
    "image": boots.c.kernel_image,
    "source": boots.c.kernel_source,
}


def _column(name: str) -> ColumnElement[Any]:
    return _NAMES[name] if name in _NAMES else boots.c[name]


_COLUMNS: Final = [
    is_good().label(name) if name == "good_kernel" else _column(name).label(name) for name in Boot.__slots__
]


def find(history: History, boot_filter: BootFilter) -> tuple[Boot, ...]:
    """Return the boots that are wanted, in the order in which they were stored. Raises InfrastructureError."""
    query: Select[Any] = select(*_COLUMNS).where(*_conditions(boot_filter)).order_by(boots.c.id.desc())
    if boot_filter.newest is not None:
        query = query.limit(boot_filter.newest)
    with history.reading() as connection:
        newest_first = [Boot(**row) for row in connection.execute(query).mappings()]
    return tuple(reversed(newest_first))


def _conditions(boot_filter: BootFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    for name in ("board", "device", "flavour", "case", "profile", "arm", "comparable"):
        value = getattr(boot_filter, name)
        if value is not None:
            conditions.append(_column(name) == value)
    if boot_filter.keys is not None:
        conditions.append(boots.c.key.in_(boot_filter.keys))
    if boot_filter.runs is not None:
        conditions.append(boots.c.run.in_(boot_filter.runs))
    if boot_filter.without:
        conditions.append(boots.c.run.not_in(boot_filter.without))
    if boot_filter.usable:
        conditions += [boots.c.valid.is_(True), boots.c.faults == 0]
    if boot_filter.good_kernels:
        conditions.append(is_good())
    if boot_filter.revoked is not None:
        conditions.append(is_revoked() if boot_filter.revoked else ~is_revoked())
    return conditions


def records(history: History, selection: Iterable[Boot]) -> tuple[Record, ...]:
    """Return the records of boots, in their order.

    Raises:
        ConfigError: what is stored is damaged.
        InfrastructureError: the database does not answer.
    """
    ids = [boot.id for boot in selection]
    query = select(boots.c.id, boots.c.measurements, boots.c.rest, environments.c.fields).join(environments)
    rows = _rows(history, query, ids)
    all_records = []
    for number in ids:
        measurements, rest, fields = rows[number]
        all_records.append(encoding.unpack(measurements, rest, fields, _origin(history, number)))
    return tuple(all_records)


def measured_like(history: History, selection: Iterable[Boot], like: Record) -> tuple[Record, ...]:
    """Return `like` with what summaries look at of each of the boots, which must be comparable with it.

    It is several times faster than `records`, which it raises as.
    """
    ids = [boot.id for boot in selection]
    rows = _rows(history, select(boots.c.id, boots.c.measurements), ids)
    measurement_sets = (encoding.summarised_measurements(rows[number][0], _origin(history, number)) for number in ids)
    return tuple(replace(like, state=State.MEASURED, measurements=measurements) for measurements in measurement_sets)


def _rows(history: History, query: Select[Any], ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Return what a query says of each boot, by its id."""
    rows: dict[int, tuple[Any, ...]] = {}
    with history.reading() as connection:
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            rows |= {row[0]: tuple(row[1:]) for row in connection.execute(query.where(boots.c.id.in_(part)))}
    return rows


def newest_row(history: History, table: Table, place: Mapping[str, str]) -> Row[Any] | None:
    """Return what was stored last for a place (columns of `schema.PLACE`) in qualifications or screens; None for none.

    Raises InfrastructureError.
    """
    environments = (place.get("environment"), schema.ANY_ENVIRONMENT)
    conditions = (
        table.c[name].in_(environments) if name == "environment" else table.c[name] == value
        for name, value in place.items()
    )
    query = select(table).where(*conditions)
    with history.reading() as connection:
        return connection.execute(query.order_by(table.c.id.desc()).limit(1)).first()


def _origin(history: History, number: int) -> str:
    return f"boot {number} of the history {history.name}"


def of_records(history: History, originals: Iterable[Record]) -> tuple[Boot, ...]:
    """Return the boots that these records are stored as, in the order in which they were. Raises as `find`."""
    keys = [encoding.key(record) for record in originals]
    parts = [find(history, BootFilter(keys=keys[start : start + _AT_ONCE])) for start in range(0, len(keys), _AT_ONCE)]
    return tuple(sorted(chain(*parts), key=lambda boot: boot.id))


def runs_of(history: History, originals: Iterable[Record]) -> frozenset[str]:
    """Return the runs that any of these records was stored with. Raises as `find`."""
    return frozenset(boot.run for boot in of_records(history, originals))


def comparable_boots(
    history: History, like: Record, *, newest: int = NEWEST, without: Collection[str] = ()
) -> tuple[Boot, ...]:
    """Return usable boots of good kernels that may be compared with a record: equal in board, environment and plan.

    Args:
        history: where to look.
        like: what they must be comparable with. Its flavour counts, too: noise borrowed from another is no help.
        newest: at most so many, the last stored ones.
        without: runs that are left out.

    Raises:
        InfrastructureError: the database does not answer.
    """
    return find(history, replace(_comparable(like), without=tuple(sorted(without)), newest=newest))


def _comparable(like: Record) -> BootFilter:
    return BootFilter(
        comparable=encoding.comparable(like), flavour=encoding.flavour(like), usable=True, good_kernels=True
    )


def revoked_warnings(history: History, like: Record) -> tuple[str, ...]:
    """Return sentences about revoked kernels whose boots a comparison would use otherwise. Raises as `find`."""
    return left_out(history, _comparable(like))


def left_out(history: History, boot_filter: BootFilter) -> tuple[str, ...]:
    """Return a sentence for each revoked kernel that has boots like those that are wanted. Raises as `find`."""
    query = (
        select(*revocations.c, func.count().label("boots"))
        .select_from(boots.join(revocations, revocations.c.kernel == boots.c.kernel))
        .where(
            *_conditions(replace(boot_filter, good_kernels=False, revoked=None)),
            *([is_promoted()] if boot_filter.good_kernels else []),
        )
        .group_by(*revocations.c)
        .order_by(revocations.c.revoked_at, revocations.c.kernel)
    )
    with history.reading() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    return tuple(f"left out, boots: {row.pop('boots')}: {Revocation(**row).sentence}" for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the history has of one case of a run."""

    run: str
    board: str
    device: str
    flavour: str
    case: str
    arm: str
    kernel_release: str
    kernels: int
    boots: int
    valid: int
    of_good_kernels: int
    stored_at: str


def contents(history: History, boot_filter: BootFilter) -> tuple[Line, ...]:
    """Return what is there, by run, oldest first. Raises InfrastructureError."""
    keys = [boots.c[name] for name in ("run", "board", "device", "flavour", "case_name", "arm")]
    query = (
        select(
            *keys,
            func.max(boots.c.kernel_release).label("kernel_release"),
            func.count(distinct(func.nullif(boots.c.kernel, ""))).label("kernels"),
            func.count().label("boots"),
            func.count().filter(boots.c.valid.is_(True), boots.c.faults == 0).label("valid"),
            func.count().filter(is_good()).label("of_good_kernels"),
            func.min(boots.c.stored_at).label("stored_at"),
        )
        .where(*_conditions(boot_filter))
        .group_by(*keys)
        .order_by(func.min(boots.c.id))
    )
    with history.reading() as connection:
        rows = connection.execute(query).mappings().all()
    return tuple(
        Line(**{("case" if name == "case_name" else name): value for name, value in row.items()}) for row in rows
    )
