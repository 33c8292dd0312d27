# SPDX-License-Identifier: MIT
"""`verdict.json`: every verdict of a run and the exit code that they came to."""

from __future__ import annotations

import json
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.judge.verdict import Verdict
from rtgate.records.codec import check_known

FORMAT = 1
_FIELDS = ("format", "outcome", "exit_code", "verdicts", "explained", "seal", "whole")


def read_verdicts(path: Path, records: Path) -> tuple[list[Verdict], int]:
    """Return the verdicts of a verdict.json, and the exit code that they came to.

    Raises:
        ConfigError: it is missing, damaged, or of another format.
    """
    try:
        data = json.loads(files.read_text(path, files.JSON_LIMIT))
        if data["format"] != FORMAT:
            raise ConfigError(f"{path}: verdict format {data['format']}, this rtgate reads {FORMAT}")
        check_known(data, _FIELDS)
        return [Verdict.from_json(entry) for entry in data["verdicts"]], int(data["exit_code"])
    except FileNotFoundError:
        raise ConfigError(f"{path}: not there: judge the records first: rtgate judge {records}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged: {files.damage(error)}: judge the records again") from error
