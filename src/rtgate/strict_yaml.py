# SPDX-License-Identifier: MIT
"""YAML that is read strictly: unknown and duplicate keys and wrong types are errors with path:line:column.

The only module that knows PyYAML.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import yaml

from rtgate import files
from rtgate.errors import ConfigError, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_T = TypeVar("_T")
_TYPE_NAMES = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "a whole number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:map": "a mapping",
    "tag:yaml.org,2002:seq": "a list",
}
# libyaml's loader reads 120 000 keys in a second, the one in Python in a minute or two.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()  # a loader for each number took longer than the number
_DEEPEST = 100  # levels; libyaml's composer calls itself for each, and no file here has ten
_LARGEST = 2**63  # nothing here counts further, and Python does not print a number of thousands of digits


def _names(tag: str) -> str:
    return _TYPE_NAMES.get(tag, f"a value of the YAML type {tag}")


def _choices(words: Collection[str]) -> str:
    return ", ".join(sorted(words)) if words else "nothing"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a YAML file, with its place. Its methods read it as a type or raise ConfigError."""

    path: Path
    node: yaml.Node

    @property
    def location(self) -> Location:
        """Where the value starts."""
        return Location(self.path, self.node.start_mark.line + 1, self.node.start_mark.column + 1)

    def fail(self, message: str) -> NoReturn:
        """Raise a ConfigError at this value's place."""
        raise ConfigError(message, self.location)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self.node, yaml.MappingNode)

    def _scalar(self, tag: str) -> str:
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != f"tag:yaml.org,2002:{tag}":
            self.fail(f"expected {_names(f'tag:yaml.org,2002:{tag}')}, found {_names(self.node.tag)}")
        return str(self.node.value)

    def text(self, allowed: Collection[str] | None = None, what: str = "value") -> str:
        """Return text; with `allowed`, one of these words, which are called `what`."""
        text = self._scalar("str")
        if allowed is not None and text not in allowed:
            self.fail(f"unknown {what} {text!r} (allowed: {_choices(allowed)})")
        if not text.strip():
            self.fail("expected text, found an empty one")
        return text

    def word(self) -> str:
        """Return text, or a whole number as it is written."""
        scalar = isinstance(self.node, yaml.ScalarNode) and self.node.tag == "tag:yaml.org,2002:int"
        return str(self.node.value) if scalar else self.text()

    def parse(self, parse: Callable[[str], _T]) -> _T:
        """Return what `parse` makes of a text; its ValueError is a mistake at this place."""
        try:
            return parse(self.text())
        except ValueError as error:
            self.fail(str(error))

    def scalar_text(self) -> str:
        """Return a scalar as it is written: to YAML `0000:01:00.0` is a number of base 60, and `off` is false."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value:
            self.fail(f"expected text, found {_names(self.node.tag)}")
        return str(self.node.value)

    def integer(self, minimum: int | None = None, maximum: int | None = None) -> int:
        """Return a whole number between the bounds, both included."""
        raw = self._scalar("int")
        try:
            number = int(_CONSTRUCTOR.construct_yaml_int(yaml.ScalarNode("tag:yaml.org,2002:int", raw)))
        except (ValueError, IndexError):  # IndexError: `!!int ""`
            self.fail(f"expected a whole number, found {raw[:40]!r}")
        if abs(number) >= _LARGEST:
            self.fail(f"{raw[:40]!r} is out of range (allowed: less than {_LARGEST})")
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            low = "" if minimum is None else f"at least {minimum}"
            high = "" if maximum is None else f"at most {maximum}"
            self.fail(f"{number} is out of range (allowed: {' and '.join(part for part in (low, high) if part)})")
        return number

    def number(self) -> float:
        """Return a number, whole or not. `1e-6` is a number here, although YAML 1.1 reads it as text."""
        if isinstance(self.node, yaml.ScalarNode) and self.node.tag != "tag:yaml.org,2002:bool":
            with contextlib.suppress(ValueError):
                number = float(self.node.value)
                if math.isfinite(number):
                    return number
        self.fail(f"expected a number, found {_names(self.node.tag)}")

    def flag(self) -> bool:
        """Return true or false."""
        return self._scalar("bool").lower() in {"true", "yes", "on"}

    def items(self) -> tuple[Value, ...]:
        """Return the values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.fail(f"expected a list, found {_names(self.node.tag)}")
        return tuple(Value(self.path, node) for node in self.node.value)

    def entries(self) -> dict[str, Entry]:
        """Return the entries of a mapping whose keys are free names; a name that stands twice is an error."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(f"expected a mapping, found {_names(self.node.tag)}")
        entries: dict[str, Entry] = {}
        for key_node, value_node in self.node.value:
            key = Value(self.path, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                key.fail("expected a name as key")
            name = str(key_node.value)
            if name in entries:
                key.fail(f"duplicate key {name!r} (first at line {entries[name].key.location.line})")
            entries[name] = Entry(key, Value(self.path, value_node))
        return entries

    def plain_data(self, fill: Callable[[Value], object]) -> object:
        """Return the value as plain Python data; `fill` gives what stands for a text, and may raise ConfigError."""
        if isinstance(self.node, yaml.MappingNode):
            return {name: entry.value.plain_data(fill) for name, entry in self.entries().items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [item.plain_data(fill) for item in self.items()]
        readers: dict[str, Callable[[], object]] = {"bool": self.flag, "int": self.integer, "float": self.number}
        reader = readers.get(self.node.tag.removeprefix("tag:yaml.org,2002:"))
        return fill(self) if reader is None else reader()

    def as_written(self) -> Any:
        """Return the value as plain Python data that `dump` writes so that readers find the same.

        What only YAML takes for a number or a truth value, such as `0000:01:00.0` and `off`, stays text.
        """
        if isinstance(self.node, yaml.MappingNode):
            return {name: entry.value.as_written() for name, entry in self.entries().items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [item.as_written() for item in self.items()]
        text, tag = str(self.node.value), self.node.tag.removeprefix("tag:yaml.org,2002:")
        if tag == "int" and re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
            return int(text)
        if tag == "float" and re.fullmatch(r"-?[0-9]+\.[0-9]+", text):
            return float(text)
        if tag == "bool" and text in {"true", "false"}:
            return text == "true"
        return None if tag == "null" else text

    def mapping(self, required: Collection[str] = (), optional: Collection[str] = ()) -> Mapping:
        """Return a mapping with exactly these keys; others, and missing ones, are errors."""
        entries = self.entries()
        for name, entry in entries.items():
            if name not in required and name not in optional:
                entry.key.fail(f"unknown key {name!r} (allowed: {_choices({*required, *optional})})")
        missing_keys = [name for name in required if name not in entries]
        if missing_keys:
            self.fail(f"missing key {', '.join(repr(name) for name in missing_keys)}")
        return Mapping(self, {name: entry.value for name, entry in entries.items()})


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value, each with its place."""

    key: Value
    value: Value


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping whose keys were checked. `[]` for required keys, `get` for optional ones."""

    value: Value
    entries: dict[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.entries[name]

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def get(self, name: str) -> Value | None:
        """Return the value of an optional key, or None."""
        return self.entries.get(name)

    def text(self, name: str, default: str, allowed: Collection[str] | None = None) -> str:
        """Return the text of an optional key."""
        value = self.get(name)
        return default if value is None else value.text(allowed)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of an optional list, empty without it."""
        value = self.get(name)
        return () if value is None else tuple(item.text() for item in value.items())


def dump(data: object) -> str:
    """Return plain Python data as YAML: whatever a text holds, it is read back as this text, and nothing else."""
    return yaml.safe_dump(data, sort_keys=False, width=120)


def load(path: Path) -> Value:
    """Read the one document of a YAML file.

    Raises:
        ConfigError: the file is missing, unreadable, empty, no YAML, or uses anchors (which hide where a value is).
    """
    try:
        text = files.read_text(path, files.YAML_LIMIT)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, path)


def parse(text: str, path: Path) -> Value:
    """Read the one document in `text`; `path` is used in messages. Raises ConfigError as `load`."""
    try:
        node = _compose(text, path)
    except yaml.MarkedYAMLError as error:
        place = _at(path, error.problem_mark) if error.problem_mark else Location(path, 1, 1)
        raise ConfigError(f"not YAML: {error.problem or error.context}", place) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Location(path, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise ConfigError(f"not YAML: {error.reason}: {chr(error.character)!r}", place) from error
    except (ValueError, OverflowError, RecursionError) as error:
        # PyYAML lets these out: no such character (`"\\UFFFFFFFF"`), too many digits (`%YAML`), too many levels.
        raise ConfigError(f"not YAML: {error}", Location(path, 1, 1)) from error
    if node is None:
        raise ConfigError("the file is empty", Location(path, 1, 1))
    return Value(path, node)


@lru_cache(maxsize=64)
def _compose(text: str, path: Path) -> yaml.Node | None:
    """Return the document. What libyaml refuses is left to the loader in Python, whose messages are better.

    A board's file is read for every case that names the board: nobody changes a node, so equal texts share theirs.
    """
    try:
        _without_aliases(text, path, _LOADER)
        return yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, OverflowError):
        _without_aliases(text, path, yaml.SafeLoader)
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _without_aliases(text: str, path: Path, loader: Any) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError("aliases are not allowed: write the value out", _at(path, event.start_mark))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ConfigError(f"not YAML: more than {_DEEPEST} levels", Location(path, 1, 1))


def data(text: str) -> Any:
    """Return what YAML that a program wrote holds, as plain values: a log, a job's definition.

    Raises:
        ConfigError: it is no YAML, or has tags that are not YAML's own.
    """
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())[:200]}") from error


def _at(path: Path, mark: Any) -> Location:
    return Location(path, mark.line + 1, mark.column + 1)
