# SPDX-License-Identifier: MIT
"""The JSON of rt-tests, which every tool of it shares, and how a run that did not end well is told from one that did.

Facts of rt-tests 2.4 to 2.10 (`rt_write_json` in src/lib/rt-utils.c): strings are not escaped, some keys end in a
colon, an average of no samples is `-nan`. A tool that was stopped by a signal writes JSON as if it had ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from rtgate.errors import ParseError
from rtgate.tools import Output
from rtgate.tools.measurement import Histogram
from rtgate.units import Unit

_CMDLINE = re.compile(r'("cmdline:?":\s*").*(",)\s*$', re.MULTILINE)
_DIGITS = 18
_LARGEST = 2**63  # no C program prints a larger number
_NAN = re.compile(r'("avg":\s*)-?nan\b')


def check_end(tool: str, output: Output, codes: tuple[int, ...] = (0,)) -> None:
    """Check that a tool ended by itself.

    Args:
        tool: its name, for the message.
        output: what it left.
        codes: exit codes that stand for a complete run.

    Raises:
        ParseError: it failed, broke off, or the plan had to stop it.
    """
    deadline = output.text("tool.deadline").strip()
    if deadline:
        raise ParseError(f"{tool} was stopped {deadline}: it did not end by itself")
    if output.exit_code not in codes:
        raise ParseError(f"{tool} ended with exit code {output.exit_code}: {output.message}")
    if "# Break value:" in output.text("tool.out"):  # the exit code is 0 all the same
        raise ParseError(f"{tool} broke off at its break value: the run is not complete")


def document(tool: str, text: str) -> Document:
    """Return the JSON that a tool wrote.

    Raises:
        ParseError: there is none, or it is damaged.
    """
    if not text.strip():
        raise ParseError(f"{tool} wrote no JSON")
    try:
        content = json.loads(_strip_command_line(text))
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, or a number of thousands of digits
        raise ParseError(f"{tool}'s JSON is damaged: {error}") from error
    if not isinstance(content, dict):
        raise ParseError(f"{tool}'s JSON is not an object")
    return Document(tool, content)


def _strip_command_line(text: str) -> str:
    """Return the text without its command line, the one string that users fill: it is not read and may hold quotes."""
    line = _CMDLINE.search(text)
    if line and not text[text.rfind("\n", 0, line.start()) + 1 : line.start()].strip():
        text = f"{text[: line.end(1)]}{text[line.start(2) :]}"
    return _NAN.sub(r"\1null", text)


def _decimal(keys: Collection[str]) -> bool:
    """Return whether all are decimal numbers; one test for all of them, because a day-long run has 80 000."""
    digits = "".join(keys)
    return not keys or (digits.isascii() and digits.isdecimal() and all(keys) and max(map(len, keys)) <= _DIGITS)


class Document:
    """An object in a tool's JSON, whose fields are read with their types checked."""

    def __init__(self, tool: str, data: dict[str, Any]) -> None:
        self.tool = tool
        self.data = data

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def _field(self, name: str) -> Any:
        if name not in self.data:
            raise ParseError(f"{self.tool}'s JSON has no {name!r}")
        return self.data[name]

    def object(self, name: str) -> Document:
        """Return the object of this name. Raises ParseError."""
        field = self._field(name)
        if not isinstance(field, dict):
            raise ParseError(f"{self.tool}'s {name!r} is not what it should be")
        return Document(self.tool, field)

    def numbered_objects(self, name: str, total: int | None = None) -> dict[int, Document]:
        """Return the objects below this name by their number, as in `thread`.

        Args:
            name: what they are.
            total: how many there must be, counted from 0; None for any.

        Raises:
            ParseError: there are none, or others.
        """
        objects = self.object(name).data
        if not objects:
            raise ParseError(f"{self.tool} reports no {name}s")
        if not _decimal(objects) or not all(isinstance(value, dict) for value in objects.values()):
            raise ParseError(f"{self.tool}'s {name!r} is not what it should be")
        numbers = sorted(map(int, objects))
        if total is not None and numbers != list(range(total)):
            raise ParseError(f"{self.tool} reports {name}s {', '.join(map(str, numbers))}: {total} were asked for")
        return {int(key): Document(self.tool, objects[key]) for key in sorted(objects, key=int)}

    def figures(self, tolerance: float = 0) -> tuple[int, float, int]:
        """Return `min`, `avg` and `max`; `tolerance` is how far the average may be rounded. Raises ParseError."""
        low, mean, high = self.integer("min"), self.number("avg"), self.integer("max")
        if not low - tolerance <= mean <= high + tolerance:
            raise ParseError(f"{self.tool}'s minimum {low}, average {mean} and maximum {high} contradict each other")
        return low, mean, high

    def counts(self) -> dict[int, int]:
        """Return the `histogram`: samples by value, in order; empty if there is none. Raises ParseError."""
        histogram = self.data.get("histogram", {})
        if not isinstance(histogram, dict) or not _decimal(histogram):
            raise ParseError(f"{self.tool}'s histogram is damaged: its buckets are not numbers")
        whole = not set(map(type, histogram.values())) - {int}
        least, most = (min(histogram.values(), default=0), max(histogram.values(), default=0)) if whole else (0, 0)
        if not whole or not -_LARGEST < least <= most < _LARGEST:
            wrong = next(key for key, value in histogram.items() if type(value) is not int or abs(value) >= _LARGEST)
            Document(self.tool, histogram).integer(wrong)
        if least < 0:
            raise ParseError(f"{self.tool}'s histogram is damaged: it holds counts below zero")
        counts = dict(zip(map(int, histogram), histogram.values(), strict=True))
        if len(counts) < len(histogram):
            raise ParseError(f"{self.tool}'s histogram is damaged: a bucket stands twice")
        buckets = sorted(counts)
        return counts if buckets == list(counts) else {value: counts[value] for value in buckets}

    def histogram(self, unit: Unit, limit: int) -> Histogram:
        """Return a thread's `histogram`, which overflows at `limit`: the overflows are the cycles that it lacks.

        Raises:
            ParseError: it is damaged, or contradicts the cycles, the maximum or the limit.
        """
        counts, cycles, high = self.counts(), self.integer("cycles"), self.integer("max")
        total = sum(counts.values())
        if total > cycles:
            raise ParseError(f"{self.tool}'s histogram holds {total} samples of {cycles} cycles")
        top = next((value for value in reversed(counts) if counts[value]), None)
        if top is not None and top >= limit:
            raise ParseError(f"{self.tool}'s histogram holds a sample of {top}, and its range ends at {limit}")
        if top is not None and (top > high or (top < high and total == cycles)):
            raise ParseError(f"{self.tool}'s maximum {high} and its histogram contradict each other")
        return Histogram(unit=unit, counts=counts, overflow=cycles - total, limit=limit)

    def check_low(self, histogram: Histogram) -> None:
        """Check that `min` is the lowest value of a histogram, if that has one. Raises ParseError."""
        low, lowest = self.natural("min"), min((value for value, n in histogram.counts.items() if n), default=None)
        if lowest is not None and lowest != low:
            raise ParseError(f"{self.tool}'s minimum {low} and its histogram contradict each other")

    def integer(self, name: str) -> int:
        """Return the whole number of this name. Raises ParseError."""
        integer = self._field(name)
        if not isinstance(integer, int) or isinstance(integer, bool) or abs(integer) >= _LARGEST:
            raise ParseError(f"{self.tool}'s {name!r} is {integer!r}, not a whole number")
        return integer

    def natural(self, name: str) -> int:
        """Return the whole number of this name, which is 0 or more. Raises ParseError."""
        value = self.integer(name)
        if value < 0:
            raise ParseError(f"{self.tool}'s {name!r} is {value}")
        return value

    def text(self, name: str) -> str:
        """Return the text of this name. Raises ParseError."""
        text = self._field(name)
        if not isinstance(text, str):
            raise ParseError(f"{self.tool}'s {name!r} is {text!r:.40}, not a text")
        return text

    def number(self, name: str) -> float:
        """Return the number of this name. Raises ParseError."""
        number = self._field(name)
        if not isinstance(number, int | float) or isinstance(number, bool) or not abs(number) < _LARGEST:
            raise ParseError(f"{self.tool}'s {name!r} is {number!r}, not a number")
        return float(number)
