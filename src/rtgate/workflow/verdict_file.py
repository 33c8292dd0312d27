# SPDX-License-Identifier: MIT
"""`verdict.json`: every verdict of a run and the exit code that they came to."""

from __future__ import annotations

import json
from pathlib import Path

from rtgate import files
from rtgate.errors import ChangedError, ConfigError
from rtgate.judge.verdict import Verdict
from rtgate.records.codec import reject_unknown_fields
from rtgate.records.seal import is_changed

FORMAT = 1
_FIELDS = ("format", "outcome", "exit_code", "verdicts", "explained", "seal", "whole")


def read_verdicts(path: Path, records: Path) -> tuple[list[Verdict], int]:
    """Return the verdicts of a verdict.json, and the exit code that they came to.

    Raises:
        ConfigError: it is missing, damaged, or of another format.
        ChangedError: it is not as it was written.
    """
    try:
        data = json.loads(files.read_text(path, files.JSON_LIMIT))
        if data["format"] != FORMAT:
            raise ConfigError(f"{path}: verdict format {data['format']}, this rtgate reads {FORMAT}")
        reject_unknown_fields(data, _FIELDS)
        if is_changed(path):
            raise ChangedError(f"{path} was changed after it was written: {_remedy(path, records)}")
        return [Verdict.from_json(entry) for entry in data["verdicts"]], int(data["exit_code"])
    except FileNotFoundError:
        raise ConfigError(f"{path}: not there: judge the records first: rtgate judge {records}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged: {files.damage(error)}: {_remedy(path, records)}") from error


def _remedy(path: Path, records: Path) -> str:
    """Return what to do about verdicts that cannot be believed: `rtgate judge` writes its own among the records."""
    again = f"judge the records again: rtgate judge {records}"
    among = records / path.name
    if path.absolute() == among.absolute():
        return again
    return f"{again}, and name what it writes, and a directory for the report: --verdict {among} -o DIR"
