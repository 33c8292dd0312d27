# SPDX-License-Identifier: MIT
"""The seal of a run: `records.sha256` lists every file below `records/`, `verdict.json` holds the list's digest.

The list is in the format of `sha256sum`: `sha256sum -c records.sha256` beside it tells the same without rtgate.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError

LIST = "records.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_NOT_RECORDS = frozenset({LIST, "verdict.json"})  # a soak's lie among its records


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is not as it was sealed, as paths relative to the directory of verdict.json."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each file."""
        named = (("changed", self.changed), ("missing", self.missing), ("added", self.added))
        return tuple(f"{what}: {path}" for what, paths in named for path in paths)


def seal(directory: Path, records: Path, judged_with: Sequence[Path]) -> dict[str, object]:
    """Write the list of a run's files, and return what verdict.json says of it.

    Args:
        directory: of verdict.json.
        records: the run's records, below `directory` or equal to it.
        judged_with: the limits and placebos that were used.

    Raises:
        OSError: the list cannot be written.
        ConfigError: one of the files is not a regular file.
    """
    text = "".join(f"{digest}  {path}\n" for path, digest in sorted(_digests(directory, records).items()))
    staged = directory / f".{LIST}.writing"
    staged.write_text(text, encoding="utf-8")
    staged.replace(directory / LIST)
    digests = [hashlib.sha256(files.read_bytes(path, files.YAML_LIMIT)).digest() for path in judged_with]
    return {
        "records": str(records.relative_to(directory)),
        LIST: hashlib.sha256(text.encode()).hexdigest(),
        "judged_with": hashlib.sha256(b"".join(digests)).hexdigest(),
    }


def check(directory: Path) -> Difference:
    """Return what changed since `seal`. Raises ConfigError: there is no sealed run, or its files are damaged."""
    verdict, listed = directory / "verdict.json", directory / LIST
    try:
        sealed = json.loads(files.read_text(verdict, files.JSON_LIMIT))["seal"]
        records, digest = Path(str(sealed["records"])), str(sealed[LIST])
    except FileNotFoundError:
        raise ConfigError(f"{verdict}: no such file: name the directory of a report, as `rtgate gate -o` did") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = files.damage(error)
        raise ConfigError(f"{verdict}: {what}: it is damaged or was never sealed; judge the records again") from error
    if records.is_absolute() or ".." in records.parts:
        raise ConfigError(f"{verdict}: field `seal.records` leaves the directory: judge the records again")
    try:
        text = files.read_bytes(listed, files.JSON_LIMIT)
    except FileNotFoundError:
        return Difference(changed=(), missing=(LIST,), added=())
    except OSError as error:
        raise ConfigError(f"{listed}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(text).hexdigest() != digest:
        # Nothing can be said of the single files by a list that was changed itself.
        return Difference(changed=(LIST,), missing=(), added=())
    before = {match[2]: match[1] for line in text.decode().split("\n") if (match := _LINE.fullmatch(line))}
    return _difference(before, _digests(directory, directory / records))


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> Difference:
    return Difference(
        changed=tuple(path for path in sorted(before.keys() & now.keys()) if before[path] != now[path]),
        missing=tuple(sorted(before.keys() - now.keys())),
        added=tuple(sorted(now.keys() - before.keys())),
    )


def _digests(directory: Path, records: Path) -> dict[str, str]:
    """Return the digest of every file; what is no regular file has none that anything could equal."""
    found: dict[str, str] = {}
    for path in sorted(records.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.name in _NOT_RECORDS or path.name.endswith(".writing") or path.is_dir():
            continue
        try:
            found[name] = hashlib.sha256(files.read_bytes(path, files.RAW_LIMIT)).hexdigest()
        except (OSError, ConfigError) as error:
            found[name] = f"cannot be read: {error}"
    return found
