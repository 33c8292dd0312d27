# SPDX-License-Identifier: MIT
"""A judged run in the formats of those who collect results; nothing is judged or sent here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.judge.verdict import Verdict
from rtgate.records.record import Record
from rtgate.report import kcidb, squad
from rtgate.report.note import summary
from rtgate.report.note_markdown import as_markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run with its verdicts.

    Attributes:
        code: the exit code that the verdicts came to.
        origin: the CI system's name at KCIDB; empty for none.
    """

    records: Sequence[Record]
    verdicts: Sequence[Verdict]
    code: int
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A format, and the file or directory that gets it."""

    format: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> Export:
        """Return the export that `FORMAT=PATH` asks for. Raises ValueError."""
        name, equals, path = text.partition("=")
        if name not in FORMATS or not path:
            wrong = f"{name!r} is not a format" if equals and path else f"{text!r} is not FORMAT=PATH"
            raise ValueError(f"{wrong} (formats: {', '.join(FORMATS)})")
        return cls(name, Path(path))

    def write(self, run: JudgedRun) -> None:
        """Write a run.

        Raises:
            ConfigError: there is something in its place, or KCIDB's name of the CI system is missing.
            InfrastructureError: it cannot be written.
        """
        with files.writing(self.path):
            FORMATS[self.format](run, self.path)


def _write_kcidb(run: JudgedRun, path: Path) -> None:
    if not kcidb.ORIGIN.fullmatch(run.origin):
        raise ConfigError(
            f"--origin {run.origin!r} is not a name of a CI system at KCIDB: use small letters, digits and _, "
            "as agreed with KCIDB's maintainers"
        )
    files.write_text(path, kcidb.document(run.records, run.verdicts, run.origin))


def _write_markdown(run: JudgedRun, path: Path) -> None:
    files.write_text(path, as_markdown(summary(run.records, run.verdicts, run.code)))


def _write_squad(run: JudgedRun, directory: Path) -> None:
    """Write `DIRECTORY/ENVIRONMENT/{tests,metrics,metadata}.json`."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        # What an earlier run left would be sent as part of this one.
        raise ConfigError(f"{directory} is not an empty directory: remove it, or name another one")
    for submission in squad.submissions(run.records, run.verdicts, run.code):
        place = directory / submission.environment
        place.mkdir(parents=True)
        for name, document in submission.documents.items():
            files.write_text(place / f"{name}.json", document)


FORMATS: dict[str, Callable[[JudgedRun, Path], None]] = {
    "kcidb": _write_kcidb,
    "squad": _write_squad,
    "markdown": _write_markdown,
}
"""What writes each format, by the name that people type."""
