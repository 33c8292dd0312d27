# SPDX-License-Identifier: MIT
"""`verdict.json`: every verdict of a run and the exit code that they came to."""

from __future__ import annotations

import json
from pathlib import Path

from rtgate import files
from rtgate.errors import ChangedError, ConfigError
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code, worst
from rtgate.records.codec import reject_unknown_fields
from rtgate.records.seal import is_changed

FORMAT = 1
NOT_GREEN = frozenset({Status.FAIL, Status.ERROR, Status.MISS})
_FIELDS = ("format", "outcome", "exit_code", "verdicts", "explained", "seal", "whole")


def read_verdicts(path: Path, records: Path) -> tuple[list[Verdict], int]:
    """Return the verdicts of a verdict.json, and the exit code that they came to.

    A run that was judged and has not ended is a MISS, also if what it has measured is good.

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
        verdicts = [Verdict.from_json(entry) for entry in data["verdicts"]]
        if data.get("whole") is True or worst(verdicts) in NOT_GREEN:
            return verdicts, int(data["exit_code"])
        verdicts.append(_unended(path, records))
        return verdicts, exit_code(verdicts)
    except FileNotFoundError:
        raise ConfigError(f"{path}: not there: judge the records first: rtgate judge {records}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged: {files.damage(error)}: {_remedy(path, records)}") from error


def _unended(path: Path, records: Path) -> Verdict:
    """Return what is said of a run of which nobody knows that everything was measured and judged."""
    sentence = f"the run that wrote {path} has not ended: run it again, or {_remedy(path, records)}"
    return Verdict(status=Status.MISS, kind=Kind.MISSING, sentence=sentence, board="", arm="", flavour="", case="")


def _remedy(path: Path, records: Path) -> str:
    """Return what to do about verdicts that cannot be believed: `rtgate judge` writes its own among the records."""
    again = f"judge the records again: rtgate judge {records}"
    among = records / path.name
    if path.absolute() == among.absolute():
        return again
    return f"{again}, and name what it writes, and a directory for the report: --verdict {among} -o DIR"
