# SPDX-License-Identifier: MIT
"""Records through a job's log: the only way back that every LAVA lab has.

Records are sent as frames (`lava.results.frames`). A record is taken whole or refused; which ones are going to come is
announced before anything is measured, so that what did not arrive is missed.

A job's log holds what the board printed too, and a kernel under test may print frames. Whoever decodes should pass
only lines of the shell that `rtgate in-job` ran in; frames that contradict each other are refused in any case.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.in_job import on_board
from rtgate.lava.results.frames import Unit, collect_frames, frames
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place, Record

_TWICE = 2  # announcement and closing say what should be there: each is sent so often

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,120}"
_PATH = re.compile(rf"{_WORD}/{_WORD}/{_WORD}/[0-9]{{1,9}}")
_PLACE = re.compile(rf"{_WORD}/{_WORD}/{_WORD}")
_NAME = re.compile(rf"(?:raw/)?{_WORD}")


@dataclass(slots=True)
class DecodedRecords:
    """What came out of a log.

    Attributes:
        records: the directories that were written.
        damaged: units that arrived and cannot be read, a sentence each.
        missing: what was announced and did not arrive, a sentence each.
    """

    records: list[Path] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class Sender:
    """Sends one directory of records, each record as soon as it is there.

    Args:
        root: the directory of records.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._set = secrets.token_hex(6)
        self._sent: dict[str, tuple[str, str]] = {}

    def announcement(self) -> Iterator[str]:
        """Return the lines that say which records are going to come, by what is planned in the directory."""
        plans = {
            str(path.parent.relative_to(self._root)): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(self._root.glob("*/*/*/planned.json"))
        }
        for _ in range(_TWICE):
            yield from frames(self._set, "a", _as_json({"planned": plans}))

    def record(self, directory: Path, number: int | None = None) -> Iterator[str]:
        """Return the lines of one record; `number` is the one it should have. Raises InfrastructureError."""
        unit = str(len(self._sent) + 1)
        destination = directory if number is None else directory.parent / f"{number:03d}"
        path = str(destination.relative_to(self._root))
        data = _pack(directory, path)
        self._sent[unit] = (path, hashlib.sha256(data).hexdigest())
        yield from frames(self._set, unit, data)

    def closing_lines(self) -> Iterator[str]:
        """Return the lines that say what was sent."""
        for _ in range(_TWICE):
            yield from frames(self._set, "z", _as_json({"units": self._sent}))


def decode(lines: Iterable[str], into: Path, *, hung: bool = False) -> DecodedRecords:
    """Write the records in a job's log into a directory, beside those that it has.

    They were sent by `rtgate in-job`, or measured on the board itself (`lava.in_job.on_board`). Lines may be damaged,
    truncated, repeated, or not ours. What was announced and did not arrive is planned there (`records.planned`), so
    that judging misses it.

    Args:
        lines: the job's log.
        into: the directory.
        hung: LAVA's time was over while a test ran: a board that measures by itself and ends in the middle of a case
            hung. Without it the log may just as well have been cut off.

    Raises:
        InfrastructureError: the directory cannot be written.
    """
    log = list(lines)
    sets = collect_frames(log)
    contents = DecodedRecords()
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, units in sets.items():
            if "b" not in units:
                _Set(name, units, into, contents).write()
        boots = sorted((units["b"].line, name) for name, units in sets.items() if "b" in units)
        ends = [*(line for line, _ in boots[1:]), len(log)]
        for (line, name), end in zip(boots, ends, strict=False):
            _on_board(name, sets[name]["b"], log[line:end], contents, into, hung=hung)
    except OSError as error:
        raise InfrastructureError(f"records could not be written to {into}: {error}") from error
    if not sets:
        contents.missing.append("the log has no records")
    return contents


def _on_board(name: str, unit: Unit, lines: Sequence[str], contents: DecodedRecords, into: Path, *, hung: bool) -> None:
    """Write the records of what a board measured by itself."""
    try:
        for path, problem in on_board.write(on_board.context(unit.data()), lines, into, hung=hung):
            contents.records.append(path)
            contents.damaged += [f"{path.relative_to(into)}: {problem}"] if problem else []
    except (ValueError, ConfigError) as error:
        contents.damaged.append(f"the boot of set {name}: {error}")


def _as_json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


def _pack(directory: Path, record_path: str) -> bytes:
    """Return a record as a line of JSON (where it is, names and sizes of its files) and the bytes of the files."""
    try:
        paths = sorted(path for path in (*directory.iterdir(), *directory.glob("raw/*")) if path.is_file())
        files = [(str(path.relative_to(directory)), path.read_bytes()) for path in paths]
    except OSError as error:
        raise InfrastructureError(f"the record in {directory} cannot be read: {error}") from error
    head = {"path": record_path, "files": [[name, len(data)] for name, data in files]}
    return json.dumps(head).encode() + b"\n" + b"".join(data for _, data in files)


@dataclass(slots=True)
class _Set:
    """The units of one directory of records, to be written into another one."""

    name: str
    units: dict[str, Unit]
    into: Path
    contents: DecodedRecords

    def write(self) -> None:
        """Write what is whole, and note what is not."""
        self._plan()
        entries = self._closing()
        numbers = {unit for unit in self.units if unit.isdecimal()}
        for number in sorted(numbers | entries.keys(), key=int):
            path, digest = entries.get(number, ("", ""))
            label = f"record {number} of set {self.name}" + (f" ({path})" if path else "")
            if number not in self.units:
                self.contents.missing.append(f"{label} did not arrive")
                continue
            try:
                self._record(self.units[number].data(), digest)
            except ValueError as error:
                self.contents.damaged.append(f"{label}: {error}")

    def _json(self, unit: str, what: str) -> Any:
        """Return what announcement or closing say, None (and a note) when there is no reading them."""
        if unit not in self.units:
            self.contents.missing.append(f"the {what} of set {self.name} did not arrive")
            return None
        try:
            return json.loads(self.units[unit].data())
        except (ValueError, RecursionError) as error:
            self.contents.damaged.append(f"the {what} of set {self.name}: {error}")
            return None

    def _plan(self) -> None:
        """Plan what was announced. Nothing is measured twice in a set: a record that comes is one of these."""
        announcement = self._json("a", "announcement")
        try:
            plans = {} if announcement is None else dict(announcement["planned"])
            for path, plan in plans.items():
                place = _place(self.into, path)
                planned.add(place, [int(seed) for seed in plan["seeds"]], int(plan["boots"]))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            self.contents.damaged.append(f"the announcement of set {self.name}: {error}")

    def _closing(self) -> dict[str, tuple[str, str]]:
        closing = self._json("z", "closing")
        try:
            entries = {} if closing is None else dict(closing["units"])
            return {str(int(number)): (str(path)[:400], str(digest)) for number, (path, digest) in entries.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.contents.damaged.append(f"the closing of set {self.name}: {error}")
            return {}

    def _record(self, data: bytes, digest: str) -> None:
        """Write one record, whole or not at all. Raises ValueError or ConfigError for one that is not good."""
        if digest and hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("its SHA-256 is not that of the closing")
        path, files = _unpack(data)
        directory = Path(tempfile.mkdtemp(prefix=".decoding-", dir=self.into))
        try:
            (directory / "raw").mkdir()
            for name, content in files.items():
                (directory / name).write_bytes(content)
            directory.chmod(0o755)
            record = _read_record(directory)
            place = Place(records=self.into, board=record.board, arm=record.arm, case=record.case)
            inside = str(place.directory.relative_to(self.into))
            _refuse(path, inside)
            place.directory.mkdir(parents=True, exist_ok=True)
            self.contents.records.append(
                records_file.move_to_number(directory, place.directory, int(path.rpartition("/")[2]))
            )
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _place(records: Path, path: str) -> Place:
    """Return the place that a path names. Raises ValueError."""
    if not _PLACE.fullmatch(path):
        raise ValueError(f"{path!r:.80} cannot hold records")
    board, arm, case = path.split("/")
    return Place(records=records, board=board, arm=arm, case=case)


def _refuse(path: str, inside: str) -> None:
    """Raise ValueError for a record that says that it is somewhere else than its content does."""
    if not path.startswith(f"{inside}/"):
        raise ValueError(f"it says that it is {path}, and its content that it is {inside!r:.80}")


def _read_record(directory: Path) -> Record:
    """Read a record. Raises ValueError for one that cannot be read."""
    try:
        return records_file.read(directory)
    except ConfigError as error:
        raise ValueError(str(error).replace(f"{directory}/", "")) from error


def _unpack(data: bytes) -> tuple[str, dict[str, bytes]]:
    """Return where a record is, and its files by name. Raises ValueError."""
    head, newline, rest = data.partition(b"\n")
    try:
        listing = json.loads(head)
        path = str(listing["path"])
        names = [(str(name), int(size)) for name, size in listing["files"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its list of files cannot be read: {error}") from error
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r:.80} cannot hold a record")
    if not newline or sum(size for _, size in names) != len(rest) or any(size < 0 for _, size in names):
        raise ValueError("its list of files does not match its bytes")
    files, start = {}, 0
    for name, size in names:
        if not _NAME.fullmatch(name) or name == "raw":
            raise ValueError(f"{name!r:.80} is not a name of a file in a record")
        files[name] = rest[start : start + size]
        start += size
    return path, files
