# SPDX-License-Identifier: MIT
"""What a run has to do with the history: its records are kept there, and kernels that were revoked are known.

The modules that know SQLAlchemy are imported by whoever has a history: they take a third of a second to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate.errors import RtgateError
from rtgate.measure.raw_output import read_verified
from rtgate.records.record import Record
from rtgate.report.notices import say
from rtgate.report.text import plain_text
from rtgate.validity import registry

if TYPE_CHECKING:
    from rtgate.history.store import StoreResult


def keep(url: str | None, directory: Path) -> str:
    """Store the records of a directory after they were judged, if there is a history.

    A verdict must not get lost because a database does not answer: return why nothing was stored; empty if all is well.
    """
    if not url:
        return ""
    try:
        records = read_verified(directory)
        outcome = store_now(url, records, run_name(directory, records)) if records else None
    except RtgateError as error:
        return f"not stored in the history: {plain_text(str(error))}"
    new, old = (outcome.new, outcome.existing) if outcome else (0, 0)
    say(f"history: {new} records stored, {old} were there already")
    return ""


def revocation_notes(url: str | None, records: Iterable[Record]) -> tuple[str, ...]:
    """Return sentences about measured kernels that were revoked; none without a history.

    A history that does not answer says nothing here: storing the records in it reports that.
    """
    arms: dict[str, str] = {record.kernel_id: record.arm for record in records}
    if not url or not arms:
        return ()
    from rtgate.history import baselines  # noqa: PLC0415
    from rtgate.history.database import History  # noqa: PLC0415

    try:
        with History.open(url, create=True) as history:
            revocations = baselines.revocations_of(history, arms)
    except RtgateError:
        return ()
    return tuple(
        f"the {arms[revocation.kernel]}'s kernel is known to be bad: {revocation.sentence}"
        for revocation in revocations
    )


def store_now(url: str, records: Sequence[Record], run_name: str) -> StoreResult:
    """Store records with the time of now and what their boards declare. Raises as `history.store.store`."""
    from rtgate.history.store import Origin, store  # noqa: PLC0415

    not_applicable = {board: registry.not_applicable_on(board) for board in {record.board for record in records}}
    return store(url, records, Origin(run=run_name, now=datetime.now(UTC), not_applicable=not_applicable))


def run_name(directory: Path, records: Sequence[Record]) -> str:
    """Return the name of a run: the directory's, and when its oldest record was written."""
    mtime = min(
        (record.directory / "record.json").stat().st_mtime for record in records if record.directory is not None
    )
    place = directory.resolve()
    name = place.parent.name if place.name == "records" else place.name
    safe_name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    return f"{safe_name[:80] or 'run'}-{datetime.fromtimestamp(mtime, UTC):%Y%m%dT%H%M%SZ}"
