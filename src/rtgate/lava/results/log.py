# SPDX-License-Identifier: MIT
"""A LAVA job's log as data.

LAVA writes a YAML list with one flow mapping per line, every scalar in double quotes (`lava_common/log.py`)::

    - {"dt": "2026-11-21T17:42:20.1", "lvl": "target", "msg": "text", "ns": "common"}

That is JSON but for a few escapes, and reading it as JSON is a hundred times faster than reading it as YAML; what is no
JSON after all (tags such as `!!int`) is read as YAML. Nothing here trusts a line: it went through a board.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rtgate import strict_yaml
from rtgate.errors import ConfigError

Message = str | dict[str, Any]
_PRINTED = frozenset({"target", "feedback"})  # feedback: what LAVA read of a board while it used another connection


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a job's log.

    Attributes:
        number: counts all lines of the job's log, from 0.
        time: the dispatcher's clock in ISO 8601, UTC.
        level: `debug info warning error exception input target feedback results event`, or `unreadable`.
        message: text; a mapping at level `results`.
        namespace: of a connection, empty for the job's own.
    """

    number: int
    time: str
    level: str
    message: Message
    namespace: str

    @property
    def text(self) -> str:
        """The message if it is text, else nothing."""
        return self.message if isinstance(self.message, str) else ""

    @property
    def printed(self) -> bool:
        """Whether a board, or the shell of a test, printed it."""
        return self.level in _PRINTED

    @property
    def result(self) -> Mapping[str, Any]:
        """The result that the line holds, else nothing."""
        return self.message if isinstance(self.message, dict) and self.level == "results" else {}


def parse(text: str, first: int = 0) -> tuple[LogLine, ...]:
    """Return the lines of a log, or of a part of one that starts at line `first`.

    A last line without its end is still being written and is left out; lines that nobody understands keep their text
    at level `unreadable`.
    """
    whole, _, _ = text.rpartition("\n")
    return tuple(_line(line, first + number) for number, line in enumerate(whole.split("\n"))) if whole else ()


def dump(lines: Iterable[LogLine]) -> str:
    """Return lines as a log that `parse` reads."""
    return "".join(f"- {json.dumps(_fields(line))}\n" for line in lines)


def once(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Yield each line once: a worker that got no answer sends its last lines again, with the times they had."""
    before: set[tuple[str, str, str]] = set()
    for line in lines:
        key = (line.time, line.level, line.text or json.dumps(line.message, sort_keys=True, default=str))
        if key not in before or not line.time:
            before.add(key)
            yield line


def _fields(line: LogLine) -> dict[str, Any]:
    fields = {"dt": line.time, "lvl": line.level, "msg": line.message}
    return {**fields, "ns": line.namespace} if line.namespace else fields


def _line(text: str, number: int) -> LogLine:
    data = _read(text.removeprefix("- "))
    if not isinstance(data, dict):
        return LogLine(number, "", "unreadable", text, "")
    message, level = data.get("msg", ""), str(data.get("lvl", ""))
    if isinstance(message, str) and level in _PRINTED:
        message = _unescape(message)
    return LogLine(
        number=number,
        time=str(data.get("dt", "")),
        level=level,
        message=message if isinstance(message, str | dict) else str(message),
        namespace=str(data.get("ns", "")),
    )


def _unescape(text: str) -> str:
    """Return what a board printed. LAVA 2023.01 (`lava_dispatcher/shell.py`) puts a backslash before each quote."""
    return text if '"' not in text or _BARE_QUOTE.search(text) else text.replace('\\"', '"')


_BARE_QUOTE = re.compile(r'(?<!\\)"')


def _read(text: str) -> Any:
    try:
        return json.loads(text if "\\" not in text else _ESCAPE.sub(_as_json, text))
    except (ValueError, RecursionError):
        try:
            return strict_yaml.data(text)
        except ConfigError:
            return None


# YAML's escapes in double quotes that JSON lacks (YAML 1.1, section 5.6).
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8})|(.))")
_NAMED = {
    "0": "\\u0000",
    "a": "\\u0007",
    "v": "\\u000b",
    "e": "\\u001b",
    " ": " ",
    "N": "\\u0085",
    "_": "\\u00a0",
    "L": "\\u2028",
    "P": "\\u2029",
}


def _as_json(match: re.Match[str]) -> str:
    if match[1]:
        return f"\\u00{match[1]}"
    if match[2]:
        code = int(match[2], 16)
        return json.dumps(chr(code))[1:-1] if code <= 0x10FFFF else match[0]
    return _NAMED.get(match[3], match[0])
