# SPDX-License-Identifier: MIT
"""`soak.json`: what a worker needs to go on with a soak that another one began.

What has been fetched already is told by the records themselves.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate import files
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.codec import decode, encode, require_keys
from rtgate.records.document import read_document
from rtgate.records.record import Chunk, KernelIdentity, Place

FORMAT = 1
_FILE = "soak.json"
HOST = "host"  # the console of a board that rtgate starts, in QEMU


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSpec:
    """What a soak was asked for, and what tells it from others.

    Attributes:
        nonce: names it in its records.
        case: `suite/tool:load`.
        chunk_s: target seconds that each chunk measures.
        first: number of its first chunk in the directory of records.
        plan: names the plan; another one means that a board's or rtgate's files have changed.
        boot_id: of the boot that it runs in; empty where the target has none, None before it was reached.
        log_seen: the last line of the kernel's log that a chunk has; empty for none, or for one without a time stamp.
    """

    nonce: str
    board: str
    case: str
    console: str
    tuning: str
    chunk_s: float
    first: int
    last: int
    plan: str
    kernel: KernelIdentity
    boot_id: str | None = None
    log_seen: str = ""

    @property
    def chunks(self) -> int:
        """How many chunks it has."""
        return self.last - self.first + 1


def exists(records: Path) -> bool:
    """Return whether a directory of records has a soak that may go on."""
    return (records / _FILE).exists()


def read(records: Path) -> SoakSpec:
    """Return the soak of a directory of records.

    Raises:
        ConfigError: there is none, or its file is damaged.
    """
    order = read_document(records / _FILE, _parse, "remove it and begin a soak anew", supported=FORMAT)
    if order is None:
        raise ConfigError(f"{records} has no soak under way: begin one with `rtgate soak --board B --case C`")
    return order


def _parse(data: Mapping[str, Any]) -> SoakSpec:
    require_keys(data, SoakSpec)
    order = decode(data, SoakSpec)
    if not math.isfinite(order.chunk_s):
        raise ValueError(f"`chunk_s` is {order.chunk_s}")
    return order


def write(order: SoakSpec, records: Path) -> None:
    """Write `soak.json`, whole or not at all. Raises InfrastructureError."""
    with files.writing(records):
        records.mkdir(parents=True, exist_ok=True)
        files.write_text(records / _FILE, json.dumps({"format": FORMAT, **encode(order)}, indent=1) + "\n")


def begin(case: Case, arm: Arm, console: str, chunks: int, records: Path) -> SoakSpec:
    """Return a new soak, written down with the chunks that it is going to have.

    Its chunks are counted on from what the directory holds of the case, so that a chunk's number names one record.

    Raises:
        ConfigError: the directory has a soak that has not ended.
        InfrastructureError: the disk is full or not writable.
    """
    if exists(records):
        command = continue_command(read(records), records)
        raise ConfigError(f"{records} has a soak that has not ended: `{command}`, or --stop {records}")
    files.require_free_space(records)
    place = Place(records=records, board=arm.board.name, arm=arm.name, case=case.name)
    first = max(planned.measured_numbers(place), default=0) + 1
    order = SoakSpec(
        nonce=f"S{secrets.token_hex(4)}",
        board=arm.board.name,
        case=case.name,
        console=console,
        tuning=arm.tuning.name,
        chunk_s=arm.profile.of(case.tool.name, case.suite, case.load).duration_s,
        first=first,
        last=first + chunks - 1,
        plan=plan(case, arm, first).nonce,
        kernel=arm.kernel,
    )
    write(order, records)
    planned.plan(place, range(chunks), virtual=False)
    return order


def continue_command(order: SoakSpec, records: Path) -> str:
    """Return the command that goes on with a soak; a board that rtgate starts needs its kernel again."""
    return f"rtgate soak --continue {records}{' --kernel DIR' if order.console == HOST else ''}"


def missing(order: SoakSpec, records: Path) -> list[int]:
    """Return the numbers of the chunks that have no record. Raises ConfigError for a damaged one."""
    directory = _place(order, records).directory
    return [number for number in range(order.first, order.last + 1) if not _is_there(order, number, directory)]


def _is_there(order: SoakSpec, number: int, directory: Path) -> bool:
    place = directory / f"{number:03d}"
    if not (place / "record.json").exists():
        return False
    return records_file.read(place).chunk == Chunk(soak=order.nonce, number=number)


def give_up(order: SoakSpec, records: Path) -> None:
    """Wait no longer for the chunks that are missing: a person ended the soak, or it never began.

    Nothing is needed for it of the board, of its console or of its kernel. Raises ConfigError, InfrastructureError.
    """
    planned.unplan(_place(order, records), len(missing(order, records)))
    forget(records)


def _place(order: SoakSpec, records: Path) -> Place:
    return Place(records=records, board=order.board, arm=ArmName.CANDIDATE, case=order.case)


def forget(records: Path) -> None:
    """Remove `soak.json`: nothing is left to go on with."""
    (records / _FILE).unlink(missing_ok=True)
