# SPDX-License-Identifier: MIT
"""Good kernels: promoted on a board after a good verdict, and revoked on all of them when they turn out to be bad.

Boots of a kernel that is good teach what a good kernel is like: noise, limits, the prior of a comparison. Nothing else
makes a kernel good, and nothing makes a revoked one good again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, exists, func, or_, select

from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError, TargetError
from rtgate.history import schema
from rtgate.history.database import History, insert_new
from rtgate.history.encoding import storable
from rtgate.history.schema import boots, promotions, qualifications, revocations, screens

_FEWEST_DIGITS = 8  # of a digest that a person types
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Why a kernel is good on a board.

    Attributes:
        kernel: what tells kernels apart (`Record.kernel_id`).
        run: of the history, whose verdict it is.
        promoted_at: UTC, as ISO 8601 has it.
        verdict: `PASS`; what else the run came to if nobody could judge it, empty if it was not judged.
        unjudged: why it is good without a good verdict; empty for a judged one.
    """

    board: str
    kernel: str
    run: str
    promoted_at: str
    promoted_by: str
    verdict: str
    unjudged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Why a kernel is not good, whatever was said before."""

    kernel: str
    revoked_at: str
    revoked_by: str
    reason: str

    @property
    def sentence(self) -> str:
        """Which kernel it is, and why."""
        return f"{short(self.kernel)} was revoked on {self.revoked_at} by {self.revoked_by}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOnBoard:
    """What the history knows of a kernel that was promoted or revoked, on one board.

    Attributes:
        boots: all of them.
        valid: those that something may be learnt from.
        promotion: None for a kernel that was revoked and never promoted.
    """

    board: str
    kernel: str
    release: str
    source: str
    devices: tuple[str, ...]
    runs: tuple[str, ...]
    cases: tuple[str, ...]
    boots: int
    valid: int
    promotion: Promotion | None
    revocation: Revocation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationEffect:
    """What a revocation was about.

    Attributes:
        kernels: those that are revoked now and were not before.
        boots: how many the history has of them.
        uses: sentences about what rests on them, with what to do.
    """

    kernels: tuple[str, ...]
    boots: int
    uses: tuple[str, ...]


def short(kernel: str) -> str:
    """Return a kernel as people name it: the beginning of its image's SHA-256, or all of another name."""
    return kernel[:12] if _SHA256.fullmatch(kernel) else kernel


def is_promoted() -> ColumnElement[bool]:
    """Return the condition that a boot's kernel was promoted on its board."""
    return exists().where(promotions.c.kernel == boots.c.kernel, promotions.c.board == boots.c.board)


def is_revoked() -> ColumnElement[bool]:
    """Return the condition that a boot's kernel was revoked."""
    return exists().where(revocations.c.kernel == boots.c.kernel)


def is_good() -> ColumnElement[bool]:
    """Return the condition that a boot's kernel is good: promoted and not revoked."""
    return and_(is_promoted(), ~is_revoked())


def promote(history: History, new_promotions: Iterable[Promotion]) -> tuple[Promotion, ...]:
    """Make kernels good, all of them or none; return those that were not good before.

    A kernel that was promoted stays as it was, but a good verdict takes the place of an unjudged promotion.

    Raises:
        TargetError: one of the kernels was revoked.
        InfrastructureError: the database does not answer.
    """
    new = []
    with history.writing() as connection:
        for promotion in sorted(new_promotions, key=lambda promotion: (promotion.kernel, promotion.board)):
            objections = _revocations(connection, {promotion.kernel})
            if objections:
                raise TargetError(f"not promoted: {objections[0].sentence}")
            if promotion.unjudged == "":
                connection.execute(promotions.delete().where(_same_kernel(promotion), promotions.c.unjudged != ""))
            if insert_new(connection, promotions, [asdict(promotion)]):
                new.append(promotion)
    return tuple(new)


def _same_kernel(promotion: Promotion) -> ColumnElement[bool]:
    return and_(promotions.c.kernel == promotion.kernel, promotions.c.board == promotion.board)


def revoke(history: History, name: str, revocation: Revocation) -> RevocationEffect:
    """Revoke the kernels of a name, for all boards; boots stay.

    Args:
        history: where they are.
        name: eight digits or more of an image's SHA-256 or of a commit, or the name of a kernel without an image.
        revocation: by whom and why; its kernel is that of the name.

    Raises:
        ConfigError: the history has no such kernel, or several.
        InfrastructureError: the database does not answer.
    """
    with history.writing() as connection:
        kernels = _find_kernels(connection, name)
        row = asdict(revocation)
        new = tuple(kernel for kernel in kernels if insert_new(connection, revocations, [{**row, "kernel": kernel}]))
        count = connection.execute(select(func.count()).where(boots.c.kernel.in_(kernels))).scalar() or 0
        return RevocationEffect(kernels=new, boots=count, uses=tuple(_uses(connection, kernels)))


def _find_kernels(connection: Connection, name: str) -> tuple[str, ...]:
    """Return the kernels that somebody means. Raises ConfigError."""
    rows = connection.execute(select(boots.c.kernel, boots.c.kernel_commit).distinct()).all()
    kernels = _named(name, {row.kernel for row in rows})
    if len(kernels) == 1:
        return tuple(kernels)
    commits = _named(name, {row.kernel_commit for row in rows})
    if kernels or len(commits) > 1:
        raise ConfigError(f"{name!r} is several kernels: {', '.join([*map(short, kernels), *commits])}")
    if not commits:
        raise ConfigError(
            f"the history has no kernel {name!r} (allowed: {_FEWEST_DIGITS} digits or more of an image's SHA-256 or of "
            "a commit, as `rtgate baseline show` has them)"
        )
    return tuple(sorted({row.kernel for row in rows if row.kernel_commit in commits}))


def _named(name: str, digests: Collection[str]) -> list[str]:
    """Return what a name is of: what is called so itself, or else all that begin with it.

    A kernel without an image may have a name with which another one's begins.
    """
    return [name] if name and name in digests else sorted(digest for digest in digests if _names(name, digest))


def _names(name: str, digest: str) -> bool:
    return name == digest != "" or (len(name) >= _FEWEST_DIGITS and digest.startswith(name))


def _uses(connection: Connection, kernels: Collection[str]) -> Iterable[str]:
    """Yield what rests on boots of kernels."""
    of = promotions.c
    runs = select(boots.c.run).where(boots.c.kernel.in_(kernels), boots.c.arm == ArmName.BASELINE)
    query = select(promotions).where(of.run.in_(runs), of.kernel.not_in(kernels), of.unjudged == "")
    for row in connection.execute(query.order_by(of.promoted_at)):
        if not _revocations(connection, {row.kernel}):
            yield f"{short(row.kernel)} on {row.board} was promoted by a comparison with it (run {row.run}): look at it"
    for table, what, again in (
        (qualifications, "qualification", "rtgate qualify"),
        (screens, "level of the screen", "rtgate calibrate"),
    ):
        for row in _newest(connection, table):
            if set(json.loads(row.kernels)) & set(kernels):
                device = f"{row.board} {row.device}".strip()
                yield f"the {what} of {device} for {row.case_name} ({row.stored_at}) rests on it: {again}"
    query = select(of.board, func.min(of.promoted_at)).where(of.kernel.in_(kernels)).group_by(of.board)
    for board, since in connection.execute(query.order_by(of.board)):
        yield f"limits of {board} that `rtgate calibrate` proposed since {since} may rest on it: calibrate again"


def _newest(connection: Connection, table: Table) -> Sequence[Row[Any]]:
    """Return the row of each place that counts."""
    of = table.c
    last = select(func.max(of.id)).group_by(*(of[name] for name in schema.PLACE))
    return connection.execute(select(table).where(of.id.in_(last)).order_by(of.id)).all()


def revocations_of(history: History, kernels: Collection[str]) -> tuple[Revocation, ...]:
    """Return which of these kernels were revoked. Raises InfrastructureError."""
    with history.reading() as connection:
        return _revocations(connection, kernels)


def _revocations(connection: Connection, kernels: Collection[str]) -> tuple[Revocation, ...]:
    names = [storable(kernel) for kernel in kernels]
    query = select(revocations).where(revocations.c.kernel.in_(names)).order_by(revocations.c.kernel)
    return tuple(Revocation(**row) for row in connection.execute(query).mappings())


def kernels_on_boards(history: History, board: str | None = None) -> tuple[KernelOnBoard, ...]:
    """Return the kernels that were promoted or revoked, in the order in which their boots came.

    Raises InfrastructureError.
    """
    of = boots.c
    keys = [of.board, of.kernel, of.device, of.run, of.case_name]
    query = (
        select(
            *keys,
            func.max(of.kernel_release).label("release"),
            func.max(of.kernel_source).label("source"),
            func.count().label("boots"),
            func.count().filter(of.valid.is_(True), of.faults == 0).label("usable"),
        )
        .where(or_(is_promoted(), is_revoked()), *([of.board == board] if board else []))
        .group_by(*keys)
        .order_by(func.min(of.id))
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
        promotion_rows = {
            (row["board"], row["kernel"]): row for row in connection.execute(select(promotions)).mappings()
        }
        revocation_rows = {row["kernel"]: row for row in connection.execute(select(revocations)).mappings()}
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.board, row.kernel), []).append(row)
    return tuple(
        KernelOnBoard(
            board=place[0],
            kernel=place[1],
            release=group[-1].release,
            source=group[-1].source,
            devices=tuple(sorted({row.device for row in group if row.device})),
            runs=tuple(dict.fromkeys(row.run for row in group)),
            cases=tuple(sorted({row.case_name for row in group})),
            boots=sum(row.boots for row in group),
            valid=sum(row.usable for row in group),
            promotion=Promotion(**promotion_rows[place]) if place in promotion_rows else None,
            revocation=Revocation(**revocation_rows[place[1]]) if place[1] in revocation_rows else None,
        )
        for place, group in groups.items()
    )
