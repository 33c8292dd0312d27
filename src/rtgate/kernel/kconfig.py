# SPDX-License-Identifier: MIT
"""Why Kconfig did not take an option: what the tree's Kconfig files say about a symbol.

Not a second Kconfig: it reads definitions, dependencies and selects, enough to explain a value that `make
olddefconfig` has already decided.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rtgate.kernel import kconfig_expression
from rtgate.kernel.identity import BUILD_DIRECTORY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_ENTRY = re.compile(r"(?:menu)?config\s+(\w+)")
_TYPE = re.compile(r"(bool|tristate|int|hex|string|prompt)\b\s*(?P<prompt>[\"'].*)?")
_SELECT = re.compile(r"select\s+(\w+)(?:\s+if\s+(?P<condition>.*))?")


@dataclass(frozen=True, slots=True)
class Sources:
    """A kernel tree, and the architecture whose Kconfig files count (`arm64`, `x86`)."""

    tree: Path
    source_arch: str

    def files(self) -> Iterator[Path]:
        """Return the Kconfig files that this architecture can see."""
        for top in sorted(self.tree.iterdir()):
            if top.is_symlink():
                continue  # it may lead anywhere; Linux has none here
            if top.name.startswith("Kconfig"):
                yield top
            elif top.is_dir() and top.name == "arch":
                yield from (path for path in top.glob("Kconfig*"))
                yield from (top / self.source_arch).rglob("Kconfig*")
            elif top.is_dir() and top.name != "tools" and not top.name.startswith(BUILD_DIRECTORY_PREFIX):
                yield from top.rglob("Kconfig*")


@dataclass(slots=True)
class Definition:
    """One `config` entry of a Kconfig file."""

    place: str
    depends: list[str]
    choice: int | None  # which choice of the file it belongs to
    prompt: bool = False


@dataclass(slots=True)
class Definitions:
    """Every definition of every symbol, and who selects it."""

    by_symbol: dict[str, list[Definition]] = field(default_factory=dict)
    selectors: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def reason(self, symbol: str, value: str, config: Mapping[str, str]) -> str:
        """Return why `symbol` has not got the value asked for."""
        definitions = self.by_symbol.get(symbol)
        if not definitions:
            near = difflib.get_close_matches(symbol, self.by_symbol, n=2, cutoff=0.85)
            hint = f" (near: {', '.join(f'CONFIG_{name}' for name in near)})" if near else ""
            return f"this tree has no such symbol{hint}"
        if value == "n":
            return self._why_set(symbol, definitions, config)
        reasons = [self._unmet(definition, config) for definition in definitions]
        if all(reasons):
            return "; ".join(filter(None, reasons))
        if rival := self._rival(symbol, definitions, config):
            return f"in the same choice CONFIG_{rival} was taken"
        if not any(definition.prompt for definition in definitions):
            return f"{definitions[0].place}: it has no prompt: only another option can select it"
        return f"{definitions[0].place}: Kconfig does not tell"

    def is_settable(self, symbol: str, config: Mapping[str, str]) -> bool:
        """Return whether a fragment could decide `symbol` by itself: of a choice another member may be wanted."""
        return any(
            definition.prompt and definition.choice is None and self._unmet(definition, config) is None
            for definition in self.by_symbol.get(symbol, [])
        )

    def _why_set(self, symbol: str, definitions: list[Definition], config: Mapping[str, str]) -> str:
        selectors = [
            f"CONFIG_{name}"
            for name, condition in self.selectors.get(symbol, [])
            if config.get(name, "n") != "n" and kconfig_expression.value(condition, config) in {"y", "m", None}
        ]
        if selectors:
            return f"selected by {', '.join(sorted(set(selectors)))}"
        if not any(definition.prompt for definition in definitions):
            return f"{definitions[0].place}: it has no prompt: its default decides"
        return f"{definitions[0].place}: Kconfig does not tell"

    @staticmethod
    def _unmet(definition: Definition, config: Mapping[str, str]) -> str | None:
        for expression in definition.depends:
            if kconfig_expression.value(expression, config) == "n":
                symbols = kconfig_expression.symbols(expression)
                values = ", ".join(f"{name}={config.get(name, 'n')}" for name in symbols)
                return f"{definition.place}: depends on {expression} ({values})"
        return None

    def _rival(self, symbol: str, definitions: list[Definition], config: Mapping[str, str]) -> str | None:
        places = {(_file(item.place), item.choice) for item in definitions if item.choice is not None}
        for rival, entries in self.by_symbol.items():
            for item in entries:
                if rival != symbol and (_file(item.place), item.choice) in places and config.get(rival) == "y":
                    return rival
        return None


def _file(place: str) -> str:
    return place.rpartition(":")[0]


def scan(sources: Sources) -> Definitions:
    """Read all Kconfig files of a tree for one architecture: about a second for Linux."""
    definitions = Definitions()
    for path in sources.files():
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            _Reader(str(path.relative_to(sources.tree)), definitions).read(text)
    return definitions


class _Reader:
    """Reads one Kconfig file."""

    def __init__(self, name: str, definitions: Definitions) -> None:
        self._name = name
        self._found = definitions
        self._blocks: list[tuple[str, list[str]]] = []  # kind, dependencies that it puts on what is inside
        self._choices = 0
        self._symbol = ""
        self._entry: Definition | None = None

    def read(self, text: str) -> None:
        help_indent: int | None = None
        for number, line in _join_lines(text):
            words = line.strip()
            indent = len(line.expandtabs()) - len(line.expandtabs().lstrip())
            if help_indent is not None and (not words or indent >= max(help_indent, 1)):
                help_indent = help_indent or indent if words else help_indent
                continue
            help_indent = None
            if words in {"help", "---help---"}:
                help_indent = 0
            elif words and not words.startswith("#"):
                self._line(number, words)

    def _line(self, number: int, words: str) -> None:
        keyword = words.split(None, 1)[0]
        rest = words[len(keyword) :].strip()
        if match := _ENTRY.fullmatch(words):
            self._open(match[1], number)
        elif keyword in {"if", "menu", "choice"}:
            self._choices += keyword == "choice"
            self._blocks.append((keyword, [rest] if keyword == "if" else []))
            self._entry = None
        elif keyword in {"endif", "endmenu", "endchoice"}:
            if self._blocks:
                self._blocks.pop()
            self._entry = None
        elif keyword == "comment":
            # What it depends on is its own, and neither that of the option above it nor of the menu around it.
            self._entry = Definition(f"{self._name}:{number}", [], None)
        elif keyword == "depends":
            self._depends(rest.removeprefix("on").strip())
        elif self._entry is not None:
            self._attribute(self._entry, words)

    def _open(self, symbol: str, number: int) -> None:
        depends = [expression for _, expressions in self._blocks for expression in expressions]
        choice = self._choices if any(kind == "choice" for kind, _ in self._blocks) else None
        self._symbol = symbol
        self._entry = Definition(f"{self._name}:{number}", depends, choice)
        self._found.by_symbol.setdefault(symbol, []).append(self._entry)

    def _depends(self, expression: str) -> None:
        if self._entry is not None:
            self._entry.depends.append(expression)
        elif self._blocks:
            self._blocks[-1][1].append(expression)

    def _attribute(self, entry: Definition, words: str) -> None:
        if match := _TYPE.match(words):
            entry.prompt = entry.prompt or bool(match["prompt"])
        elif match := _SELECT.match(words):
            selector = (self._symbol, match["condition"] or "y")
            self._found.selectors.setdefault(match[1], []).append(selector)


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines with their numbers, those that end in a backslash joined with the next."""
    prefix, start = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        start = start or number
        if line.endswith("\\"):
            prefix += line[:-1] + " "
            continue
        yield start, prefix + line
        prefix, start = "", 0
