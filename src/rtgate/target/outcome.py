# SPDX-License-Identifier: MIT
"""What came of carrying out one plan on one boot."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from rtgate.board.boot import State as State  # noqa: PLC0414 - a part of an outcome
from rtgate.console.faults import Fault
from rtgate.console.frames import FrameReader
from rtgate.errors import ParseError


@dataclass(frozen=True, slots=True, kw_only=True)
class LineQuality:
    """How well the console carried the results.

    Attributes:
        received: bytes read from the console.
        damaged: frames that did not match their checksum.
        repeated: frames that had to be asked for again, or came twice.
    """

    received: int = 0
    damaged: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One boot's outcome.

    Attributes:
        message: one sentence, empty when it measured.
        files: the files that the plan collected, by name.
        console: everything the console printed.
        seconds: host seconds by step (`boot`, `measure`, `total`).
        machine: what ran the board: QEMU's version and command line, or the console of a real one.
        host_wait: share of the time for which a board that is a process on this host waited for a processor; None
            where nobody knows.
        host_stopped: how this host kept the boot from running, and for how long (`this host was suspended for 60 s`);
            empty if it did not, or nobody knows.
    """

    state: State
    message: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    console: bytes = b""
    faults: tuple[Fault, ...] = ()
    line: LineQuality = field(default_factory=LineQuality)
    seconds: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    host_wait: float | None = None
    host_stopped: str = ""


def unpack(reader: FrameReader) -> dict[str, bytes]:
    """Return the files in complete frames.

    Raises:
        ParseError: the frames are incomplete, or hold no archive.
    """
    payload = reader.payload()
    try:
        with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
            return {
                member.name.removeprefix("r/"): _bytes(archive, member)
                for member in archive.getmembers()
                if member.isfile()
            }
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ParseError(f"the results are not an archive: {error}") from error


def read_outcome(reader: FrameReader) -> Outcome:
    """Return the outcome that frames hold; UNREADABLE when they are incomplete."""
    line = LineQuality(received=reader.received, damaged=reader.damaged, repeated=reader.repeated)
    try:
        return Outcome(state=State.MEASURED, files=unpack(reader), line=line)
    except ParseError as error:
        return Outcome(state=State.UNREADABLE, message=str(error), line=line)


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return stream.read() if stream else b""


def console_end(console: bytes) -> str:
    """Return how a console ended, for the end of a sentence."""
    lines = printable_tail(console)
    return f"last lines of the console:\n{lines}" if lines else "its console stayed silent"


def printable_tail(console: bytes, count: int = 12) -> str:
    """Return the last lines of a console log as text that is safe to print."""
    text = console.decode("utf-8", errors="replace").replace("\r", "")
    lines = [line for line in text.split("\n") if line.strip()]
    return "\n".join(
        "".join(char if char.isprintable() or char == "\t" else "." for char in line) for line in lines[-count:]
    )
