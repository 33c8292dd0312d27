# SPDX-License-Identifier: MIT
"""The seal of a run: `verdict.sha256` has the digest of `verdict.json`, which holds that of `records.sha256`.

That lists every file below `records/`. Both are in the format of `sha256sum`: `sha256sum -c verdict.sha256
records.sha256` beside them tells the same without rtgate.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError

LIST = "records.sha256"
VERDICT_DIGEST = "verdict.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
# A soak's lie among its records.
_NOT_RECORDS = frozenset(
    {LIST, VERDICT_DIGEST, "verdict.json", "junit.xml", "allure-results", "summary.html", ".soak.lock"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is not as it was sealed, as paths relative to the directory of verdict.json."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each file."""
        groups = (("changed", self.changed), ("missing", self.missing), ("added", self.added))
        return tuple(f"{what}: {path}" for what, paths in groups for path in paths)


def seal(directory: Path, records: Path) -> dict[str, object]:
    """Write the list of a run's files, and return what verdict.json says of it.

    Args:
        directory: of verdict.json.
        records: the run's records, below `directory` or equal to it.

    Raises:
        OSError: the list cannot be written.
    """
    text = "".join(f"{digest}  {path}\n" for path, digest in sorted(_digests(directory, records).items()))
    files.write_text(directory / LIST, text)
    return {"records": str(records.relative_to(directory)), LIST: hashlib.sha256(text.encode()).hexdigest()}


def write_sealed(text: str, verdict: Path) -> None:
    """Write verdict.json whole, and its digest beside it. Raises OSError."""
    digest = f"{hashlib.sha256(text.encode()).hexdigest()}  {verdict.name}\n"
    files.write_text(verdict, text)
    files.write_text(verdict.with_name(VERDICT_DIGEST), digest)


def is_changed(verdict: Path) -> bool:
    """Return whether a verdict.json is not as it was written; False where no digest beside it is about it.

    Raises ConfigError, OSError or UnicodeDecodeError: a file cannot be read.
    """
    try:
        digest = _stated_digest(verdict)
    except FileNotFoundError:
        return False
    text = files.read_bytes(verdict, files.JSON_LIMIT)
    return digest is not None and hashlib.sha256(text).hexdigest() != digest


def _stated_digest(verdict: Path) -> str | None:
    """Return what stands in `verdict.sha256`; None where that is not about this file. Raises as reading a file."""
    match = _LINE.fullmatch(files.read_text(verdict.with_name(VERDICT_DIGEST), files.YAML_LIMIT).removesuffix("\n"))
    return match[1] if match and match[2] == verdict.name else None


def check(directory: Path) -> Difference:
    """Return what changed since `seal`. Raises ConfigError: there is no sealed run, or its files are damaged."""
    difference = _verdict(directory)
    if difference is not None and difference.changed:
        return difference
    verdict = directory / "verdict.json"
    entry = _entry(verdict)
    if entry is None:
        raise ConfigError(f"{verdict}: it is damaged or was never sealed; judge the records again")
    return difference or _records_difference(verdict, entry)


def sealed_records(verdict: Path) -> Path | None:
    """Return the directory of records that a verdict.json is about; None where it does not say so, or says nothing."""
    try:
        entry = _entry(verdict)
    except ConfigError:
        return None
    return (verdict.parent / entry.records).resolve() if entry else None


def check_records(verdict: Path) -> Difference:
    """Return what of its records changed since a verdict.json was written.

    Nothing is known where it has no seal, and where the list beside it is that of another file of verdicts, which was
    written later. Whether the file itself changed is `is_changed`. Raises ConfigError: a file is damaged.
    """
    nothing, entry = Difference(changed=(), missing=(), added=()), _entry(verdict)
    difference = _records_difference(verdict, entry) if entry else nothing
    return nothing if difference.changed == (LIST,) else difference


@dataclass(frozen=True, slots=True)
class _Entry:
    """The field `seal` of verdict.json: the directory of the records as it names it, and the digest of their list."""

    records: Path
    digest: str


def _entry(verdict: Path) -> _Entry | None:
    """Return what verdict.json says of its records; None if nothing. Raises ConfigError: it is damaged or missing."""
    try:
        document = json.loads(files.read_text(verdict, files.JSON_LIMIT))
        if "seal" not in document:
            return None
        return _Entry(Path(str(document["seal"]["records"])), str(document["seal"][LIST]))
    except FileNotFoundError:
        raise ConfigError(f"{verdict}: no such file: name the directory of a report, as `rtgate gate -o` did") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = files.damage(error)
        raise ConfigError(f"{verdict}: {what}: it is damaged or was never sealed; judge the records again") from error


def _records_difference(verdict: Path, entry: _Entry) -> Difference:
    directory, records = verdict.parent, entry.records
    list_path = directory / LIST
    if records.is_absolute() or ".." in records.parts:
        raise ConfigError(f"{verdict}: field `seal.records` leaves the directory: judge the records again")
    try:
        text = files.read_bytes(list_path, files.JSON_LIMIT)
    except FileNotFoundError:
        return Difference(changed=(), missing=(LIST,), added=())
    except OSError as error:
        raise ConfigError(f"{list_path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(text).hexdigest() != entry.digest:
        # Nothing can be said of the single files by a list that was changed itself.
        return Difference(changed=(LIST,), missing=(), added=())
    before = {match[2]: match[1] for line in text.decode().split("\n") if (match := _LINE.fullmatch(line))}
    now = _digests(directory, directory / records)
    for files_of_run in (before, now):
        files_of_run.pop(verdict.name, None)  # it may lie among the records under another name than verdict.json
    return _difference(before, now)


def _verdict(directory: Path) -> Difference | None:
    """Return that verdict.json is not as it was written: then nothing that it says of other files counts."""
    verdict = directory / "verdict.json"
    if not verdict.exists():
        return None
    try:
        digest = _stated_digest(verdict)
        text = files.read_bytes(verdict, files.JSON_LIMIT)
    except FileNotFoundError:
        return Difference(changed=(), missing=(VERDICT_DIGEST,), added=())
    except (OSError, ValueError) as error:
        path = directory / VERDICT_DIGEST
        raise ConfigError(f"{path}: cannot be read: {error}: judge the records again") from error
    if digest is None:
        return Difference(changed=(VERDICT_DIGEST,), missing=(), added=())
    if hashlib.sha256(text).hexdigest() == digest:
        return None
    return Difference(changed=("verdict.json",), missing=(), added=())


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> Difference:
    return Difference(
        changed=tuple(path for path in sorted(before.keys() & now.keys()) if before[path] != now[path]),
        missing=tuple(sorted(before.keys() - now.keys())),
        added=tuple(sorted(now.keys() - before.keys())),
    )


def _leads_back(directory: Path) -> bool:
    if not directory.is_symlink():
        return False
    parent, target = directory.parent.resolve(), directory.resolve()
    return target in {parent, *parent.parents}


def _digests(directory: Path, records: Path) -> dict[str, str]:
    """Return the digest of every file; what is not a regular file has none that anything could equal."""
    digests: dict[str, str] = {}
    # Not `rglob`: to sort the paths of 10 000 boots takes as long as to read them.
    # Links are followed, as by those who read records: a board's may lie on another disk. One that leads back is not.
    for place, directories, names in os.walk(records, followlinks=True):
        here = Path(place)
        directories[:] = (name for name in directories if name not in _NOT_RECORDS and not _leads_back(here / name))
        below = here.relative_to(directory)
        for file in names:
            if file in _NOT_RECORDS or file.endswith(".writing"):
                continue
            name = (below / file).as_posix()
            try:
                digests[name] = hashlib.sha256(files.read_bytes(directory / name, files.RAW_LIMIT)).hexdigest()
            except (OSError, ConfigError) as error:
                digests[name] = f"cannot be read: {error}"
    return digests
