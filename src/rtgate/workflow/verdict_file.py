# SPDX-License-Identifier: MIT
"""`verdict.json`: every verdict of a run and the exit code that they came to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rtgate.errors import ChangedError, ConfigError, Interrupted
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code, worst
from rtgate.records.codec import reject_unknown_fields
from rtgate.records.document import read_document
from rtgate.records.seal import check_records, is_changed, sealed_records
from rtgate.report.text import plain_text

FORMAT = 1
_GOOD = {0, Interrupted.exit_code}
"""Exit codes that say nothing bad: the second is that of a run that goes on."""
NOT_GREEN = frozenset({Status.FAIL, Status.ERROR, Status.MISS})
_FIELDS = ("outcome", "exit_code", "verdicts", "explained", "seal", "whole")


def read_verdicts(path: Path, records: Path) -> tuple[list[Verdict], int]:
    """Return the verdicts of a verdict.json, and the exit code that they came to.

    A run that was judged and has not ended is a MISS, also if what it has measured is good.

    Raises:
        ConfigError: it is missing, damaged, or of another format.
        ChangedError: it is not as it was written.
    """
    remedy = _remedy(path, records)

    def parse(data: Mapping[str, Any]) -> tuple[list[Verdict], int]:
        reject_unknown_fields(data, _FIELDS)
        if is_changed(path):
            raise ChangedError(f"{path} was changed after it was written: {remedy}")
        verdicts, code = [Verdict.from_json(entry) for entry in data["verdicts"]], int(data["exit_code"])
        if data.get("whole") is True or worst(verdicts) in NOT_GREEN or code not in _GOOD:
            return verdicts, code
        verdicts.append(_unended(path, remedy))
        return verdicts, exit_code(verdicts)

    stored = read_document(path, parse, remedy, supported=FORMAT)
    if stored is None:
        raise ConfigError(f"{path}: not there: judge the records first: rtgate judge {records}")
    return stored


def require_judged(path: Path, records: Path) -> None:
    """Refuse verdicts of other records than these, which would say of one kernel what holds for another.

    Verdicts that were written elsewhere than beside or among their records name none: these are not refused.

    Raises:
        ConfigError: they are about another directory, or the list of its files is damaged.
        ChangedError: records were changed, added or removed since.
    """
    judged = sealed_records(path)
    remedy = _remedy(path, records)
    if judged not in {None, records.resolve()}:
        raise ConfigError(f"{path} is about {judged}, and not about {records}: {remedy}")
    changes = check_records(path).lines
    if changes:
        raise ChangedError(
            f"{records} is not as it was judged ({plain_text(changes[0])}; {len(changes)} in all): {remedy}"
        )


def _unended(path: Path, remedy: str) -> Verdict:
    """Return what is said of a run of which nobody knows that everything was measured and judged."""
    sentence = (
        f"{path} does not say that its run has ended (it was stopped, or is still under way): run it again, or {remedy}"
    )
    return Verdict(status=Status.MISS, kind=Kind.MISSING, sentence=sentence, board="", arm="", flavour="", case="")


def _remedy(path: Path, records: Path) -> str:
    """Return what to do about verdicts that cannot be believed: `rtgate judge` writes its own among the records."""
    again = f"judge the records again: rtgate judge {records}"
    among = records / path.name
    if path.absolute() == among.absolute():
        return again
    return f"{again}, and name what it writes, and a directory for the report: --verdict {among} -o DIR"
