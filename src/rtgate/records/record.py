# SPDX-License-Identifier: MIT
"""Records: one case on one arm in one boot, as a directory that measuring writes and judging reads.

`RECORDS/board/arm/case/NNN/record.json` beside `console.log` and `raw/`. The JSON holds everything that judging
needs; `planned.json` beside the boots says which were planned; the raw output is kept so that a person can look, and
so that a better parser can read it again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rtgate import files as regular_file
from rtgate.board.boot import ArmName, State, TimeBase
from rtgate.console.faults import Fault
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.records.codec import decimal, decode, encode, reject_unknown_fields, require_keys
from rtgate.records.environment import Environment
from rtgate.records.evidence import Evidence
from rtgate.records.kernel_identity import KernelIdentity as KernelIdentity  # noqa: PLC0414 - a part of a record
from rtgate.tools.measurement import Measurement
from rtgate.units import Quantity

FORMAT = 1
OTHER_BUILD = "other_build"
"""In `machine` of a boot that was not made, the build whose kernels drive what this one does not."""
_INSTRUCTION_NS = re.compile(r"([1-9][0-9]{0,8})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Which part of a soak a record is.

    Attributes:
        soak: names the soak.
        number: counts all chunks of a case in one directory of records, from 1.
    """

    soak: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record.

    Attributes:
        case: `suite/tool:load`.
        message: one sentence, empty when it measured.
        seed: the seed of a virtual-time boot; None elsewhere.
        seconds: host seconds by step.
        line: bytes received, frames damaged, frames repeated.
        machine: what ran the board.
        sources: SHA-256 of each file that the record was made from, by its path beside `record.json`.
        reading: how the tool's output was read (see `measure.raw_output`), as a mapping; empty where nothing was.
        discrepancies: where the record and its files say different things; of those who read it, not in the JSON.
        chunk: which part of a soak it is; None for a measurement of its own.
    """

    case: str
    board: str
    arm: ArmName
    profile: str
    seed: int | None
    boot_id: str
    state: State
    message: str
    argv: tuple[str, ...]
    kernel: KernelIdentity
    environment: Environment
    evidence: Evidence
    measurements: tuple[Measurement, ...]
    faults: tuple[Fault, ...]
    line: Mapping[str, int]
    seconds: Mapping[str, float]
    machine: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    discrepancies: tuple[str, ...] = ()
    chunk: Chunk | None = None
    directory: Path | None = None

    @property
    def boot(self) -> str:
        """How people name the boot: `seed 3`, `chunk 7`, the boot's id, or its number in a job."""
        if self.chunk is not None:
            return f"chunk {self.chunk.number}"
        name = self.boot_id[:8] or self.machine.get("boot", "unknown")
        return f"seed {self.seed}" if self.seed is not None else f"boot {name}"

    @property
    def has_results(self) -> bool:
        """Whether the plan ended and its results are here."""
        return self.state == State.MEASURED

    @property
    def ended_early(self) -> bool:
        """Whether the tool ended its run with the failure that it found, so that the run may be short."""
        return any(quantity.value > 0 for quantity, _ in self.numbers(self.evidence.expectation.ends_with))

    @property
    def virtual_time(self) -> bool:
        """Whether the figures are virtual time."""
        return self.environment.time == TimeBase.VIRTUAL

    @property
    def release(self) -> str:
        """The kernel's release, as it said itself or as its build did; empty if neither did."""
        return self.environment.kernel_release or self.kernel.release

    @property
    def kernel_id(self) -> str:
        """What tells kernels apart: the image; of one that nobody knows the build id, or release and version."""
        return (
            self.kernel.image_sha256
            or self.environment.build_id
            or self.kernel.build_id
            or f"{self.release} {self.environment.kernel_version or self.kernel.version}".strip()
        )

    @property
    def pair(self) -> int | None:
        """Which pair of a comparison on a board the boot is of, counted from 1; None if nobody said."""
        return decimal(self.machine.get("pair", ""))

    @property
    def screening(self) -> bool:
        """Whether the boot is compared with the history only, and is of no pair."""
        return self.machine.get("stage", "") == "screen"

    def numbers(self, name: str) -> tuple[tuple[Quantity, Measurement], ...]:
        """Return the measurements of a name that are numbers, each with its number: one for each CPU, for example."""
        return tuple(
            (measurement.quantity, measurement)
            for measurement in self.measurements
            if measurement.name == name and measurement.quantity is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the records of one case on one arm of a board are."""

    records: Path
    board: str
    arm: str
    case: str

    @property
    def directory(self) -> Path:
        """The directory that holds a directory for each boot."""
        return self.records / self.board / self.arm / self.case.replace("/", ".")


def write(record: Record, files: Mapping[str, bytes], console: bytes, records: Path) -> Path:
    """Write a record with its raw output, whole or not at all, and return its directory. Raises InfrastructureError."""
    raw = {f"raw/{Path(name).name}": data for name, data in files.items()}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in {**raw, "console.log": console}.items()}
    record = replace(record, sources=digests)
    case = Place(records=records, board=record.board, arm=record.arm, case=record.case).directory
    try:
        with regular_file.scratch(case, ".writing-") as place:
            draft = place / ".record"
            (draft / "raw").mkdir(parents=True)
            for name, data in raw.items():
                (draft / name).write_bytes(data)
            (draft / "console.log").write_bytes(console)
            (draft / "record.json").write_text(json.dumps(as_json(record), indent=1) + "\n", encoding="utf-8")
            return _place(draft, case, record)
    except (OSError, InfrastructureError) as error:
        raise InfrastructureError(f"the record could not be written to {case}: {error}") from error


def rewrite(record: Record, files: Mapping[str, bytes]) -> None:
    """Write a record anew in its directory, with further files beside it. Raises InfrastructureError."""
    assert record.directory is not None
    try:
        for name, data in files.items():
            (record.directory / Path(name).name).write_bytes(data)
        regular_file.write_text(record.directory / "record.json", json.dumps(as_json(record), indent=1) + "\n")
    except OSError as error:
        raise InfrastructureError(f"the record in {record.directory} could not be written: {error}") from error


def _place(draft: Path, case: Path, record: Record) -> Path:
    """Rename to the number of the seed or chunk, in place of an older record of it, or to the next free number."""
    number = record.seed if record.chunk is None else record.chunk.number
    if number is not None:
        target = case / f"{number:03d}"
        return _replace(target, draft) if target.exists() else draft.rename(target)
    return move_to_number(draft, case, 1)


def _replace(target: Path, draft: Path) -> Path:
    """Put a record in the place of an older one, which stays if that fails."""
    older = draft.with_name(".older")
    try:
        target.rename(older)
        return draft.rename(target)
    except BaseException:
        if older.exists() and not target.exists():
            older.rename(target)
        raise


def move_to_number(directory: Path, case: Path, number: int) -> Path:
    """Rename a record's directory to a number below its case, or the next one that is free. Raises OSError."""
    while True:
        try:
            return directory.rename(case / f"{number:03d}")
        except OSError:
            if not (case / f"{number:03d}").exists():
                raise
            number += 1


def read(directory: Path) -> Record:
    """Read the record in a directory.

    Raises:
        ConfigError: it is missing, damaged, or of a newer format.
    """
    path = directory / "record.json"
    try:
        text = regular_file.read_text(path, regular_file.JSON_LIMIT)
        data = json.loads(text, parse_constant=int)  # no NaN
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(_damage_text(str(path), error)) from error
    return from_json(data, str(path), directory)


def from_json(data: dict[str, Any], origin: str, directory: Path | None = None) -> Record:
    """Return the record of `as_json`. Raises ConfigError, naming `origin`: it is damaged or of another format."""
    try:
        if data["format"] != FORMAT:
            raise ConfigError(f"{origin}: record format {data['format']}, this rtgate reads {FORMAT}")
        return _decode(data, directory)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(_damage_text(origin, error)) from error


def _damage_text(origin: str, error: Exception) -> str:
    return (
        f"{origin}: damaged record: {regular_file.damage(error)}: the file was changed or is of another rtgate; "
        f"measure again, or remove its directory"
    )


def paths(directory: Path) -> list[Path]:
    """Return every `record.json` below a directory, sorted, but those that somebody is writing."""
    return [path for path in sorted(directory.rglob("record.json")) if not path.parent.name.startswith(".")]


def read_all(records: Path) -> Iterator[Record]:
    """Read every record below a directory, in order of their paths. Raises ConfigError as `read`."""
    for path in sorted(records.glob("*/*/*/*/record.json")):
        if not path.parent.name.startswith("."):
            yield read(path.parent)


def digest_source(record: Record) -> str:
    """Return what two runs of one seed must have in common, as text: every measurement with all its samples."""
    return json.dumps([measurement.as_json() for measurement in record.measurements], sort_keys=True)


# What those who read a record found of it: no file can claim these.
_NOT_STORED = frozenset({"discrepancies", "directory"})


def as_json(record: Record) -> dict[str, Any]:
    """Return the record as it stands in `record.json`."""
    data = encode(replace(record, directory=None, measurements=()))
    measurements = [measurement.as_json() for measurement in record.measurements]
    fields = {name: value for name, value in data.items() if name not in _NOT_STORED}
    return {"format": FORMAT, **fields, "measurements": measurements}


def _decode(data: dict[str, Any], directory: Path | None) -> Record:
    fields = {name: value for name, value in data.items() if name != "format"}
    reject_unknown_fields(fields, fields.keys() - _NOT_STORED)
    require_keys(fields, Record, without=_NOT_STORED)
    require_keys(fields["evidence"], Evidence)
    measurements = tuple(_measurement(entry, number) for number, entry in enumerate(fields.pop("measurements")))
    record = decode({**fields, "measurements": ()}, Record)
    text = record.environment.instruction_ns
    if not _INSTRUCTION_NS.fullmatch(text):
        raise ValueError(f"{text!r:.40} is not a number of nanoseconds - at `$.environment.instruction_ns`")
    _check_patterns("$.evidence.writes", record.evidence.writes)
    _check_patterns("$.evidence.expectation.firmware", record.evidence.expectation.firmware)
    return replace(record, measurements=measurements, directory=directory)


def _check_patterns(place: str, patterns: Mapping[str, str]) -> None:
    """Check the regular expressions that validity checks search with. Raises ValueError."""
    for pattern in patterns.values():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r:.40} is not a regular expression ({error}) - at `{place}`") from error


def _measurement(entry: dict[str, Any], number: int) -> Measurement:
    place = f"$.measurements[{number}]"
    reject_unknown_fields(entry, ("name", "better", "labels", "unit", "value", "histogram"), place)
    reject_unknown_fields(entry.get("histogram") or {}, ("counts", "overflow", "limit"), f"{place}.histogram")
    return Measurement.from_json(entry)
