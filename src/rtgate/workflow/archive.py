# SPDX-License-Identifier: MIT
"""Keeping what was measured in the history: which database, and what a run is called there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rtgate import site
from rtgate.board import boards
from rtgate.errors import RtgateError
from rtgate.history.database import VARIABLE
from rtgate.history.store import Origin, Stored, store
from rtgate.measure.raw_output import read_verified
from rtgate.records.record import Record
from rtgate.report.notices import say
from rtgate.report.text import plain
from rtgate.validity import registry


def history_url(option: str | None) -> str | None:
    """Return the URL of an option, or of the environment; None for no history."""
    return option or os.environ.get(VARIABLE) or None


def keep(url: str | None, directory: Path) -> str:
    """Store the records of a directory after they were judged, if there is a history.

    A verdict must not get lost because a database does not answer: return why nothing was stored; empty if all is well.
    """
    if not url:
        return ""
    try:
        records = read_verified(directory)
        stored = store_now(url, records, run_name(directory, records)) if records else Stored()
    except RtgateError as error:
        return f"not stored in the history: {plain(str(error))}"
    say(f"history: {stored.new} records stored, {stored.known} were there already")
    return ""


def store_now(url: str, records: Sequence[Record], run_name: str) -> Stored:
    """Store records with the time of now and what their boards declare. Raises as `history.store.store`."""
    known = set(site.names("boards"))
    not_applicable = {
        name: registry.not_applicable(boards.board(name)) for name in {one.board for one in records} & known
    }
    return store(url, records, Origin(run=run_name, now=datetime.now(UTC), not_applicable=not_applicable))


def run_name(directory: Path, records: Sequence[Record]) -> str:
    """Return the name of a run: the directory's, and when its oldest record was written."""
    written = min((one.directory / "record.json").stat().st_mtime for one in records if one.directory is not None)
    place = directory.resolve()
    name = place.parent.name if place.name == "records" else place.name
    allowed = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    return f"{allowed[:80] or 'run'}-{datetime.fromtimestamp(written, UTC):%Y%m%dT%H%M%SZ}"
