# SPDX-License-Identifier: MIT
"""Profiles: how long and how often to measure, from `profiles.yaml`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import loads, site
from rtgate.errors import ConfigError
from rtgate.strict_yaml import Entry, Value, load
from rtgate.units import Quantity, Unit

_SEEDS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_LARGEST_SEED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long and how often one tool measures.

    Attributes:
        duration_s: seconds of target time.
        seeds: boots of a virtual-time board.
        boots: how many boots of any other board.
    """

    duration_s: float
    seeds: tuple[int, ...]
    boots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile.

    Attributes:
        lengths: of every tool that has none of its own.
        tools: lengths of tools that measure longer, shorter or more often than the others, by name; by `suite/name` for
            those of one suite, by `name:load` and `suite/name:load` for those under one load.
        only: the tools that the profile measures; empty for all.
        suites: the suites that it measures; empty for all.
        minimum: cases that a lab's board measures whatever a screen on virtual time said, by name.
        nfs: whether latency may be measured on a board whose root file system is on the network.
    """

    name: str
    description: str
    lengths: Lengths
    tools: Mapping[str, Lengths] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    minimum: tuple[str, ...] = ()
    nfs: bool = False

    def of(self, tool: str, suite: str = "", load: str = "") -> Lengths:
        """Return the lengths of a tool, under a load or in a suite where that has its own."""
        names = (f"{suite}/{tool}:{load}", f"{tool}:{load}", f"{suite}/{tool}", tool)
        return next((self.tools[name] for name in names if name in self.tools), self.lengths)

    def has(self, suite: str, tool: str) -> bool:
        """Return whether the profile measures a tool of a suite."""
        return (not self.only or tool in self.only) and (not self.suites or suite in self.suites)


def profile(name: str, tools: Collection[str] = ()) -> Profile:
    """Return the profile of this name; with `tools`, only those may be named in it.

    Raises:
        ConfigError: there is none, or a profiles.yaml is wrong.
    """
    found = profiles(tools)
    if name not in found:
        raise ConfigError(f"unknown profile {name!r} (allowed: {', '.join(sorted(found))})")
    return found[name]


def profiles(tools: Collection[str] = ()) -> dict[str, Profile]:
    """Return all profiles by name; those of the site win. Raises ConfigError."""
    found: dict[str, Profile] = {}
    for path in reversed(site.files("profiles.yaml")):
        found.update(read(path, tools))
    return found


def read(path: Path, tools: Collection[str] = ()) -> dict[str, Profile]:
    """Read one profiles.yaml. Raises ConfigError."""
    return {name: _profile(name, entry, tools) for name, entry in load(path).entries().items()}


_LENGTHS = ("duration", "seeds", "boots")


def _profile(name: str, entry: Entry, tools: Collection[str]) -> Profile:
    data = entry.value.mapping(
        required=("description", *_LENGTHS), optional=("tools", "only", "suites", "minimum", "nfs")
    )
    lengths = Lengths(
        duration_s=_seconds(data["duration"]), seeds=_seeds(data["seeds"]), boots=data["boots"].integer(minimum=1)
    )
    own = {} if "tools" not in data else data["tools"].entries()
    return Profile(
        name=name,
        description=data["description"].text(),
        lengths=lengths,
        tools={_case(found.key, tools): _own(found.value, lengths) for found in own.values()},
        only=tuple(_tool(item, tools) for item in (data["only"].items() if "only" in data else ())),
        suites=data.texts("suites"),
        minimum=data.texts("minimum"),
        nfs="nfs" in data and data["nfs"].flag(),
    )


def _tool(value: Value, tools: Collection[str]) -> str:
    name = value.text()
    if tools and name.rpartition("/")[2] not in tools:
        value.fail(f"unknown tool {name!r} (allowed: {', '.join(sorted(tools))})")
    return name


def _case(value: Value, tools: Collection[str]) -> str:
    """Return the name of a tool, which may be that in one suite, and under one load."""
    name, colon, load = value.text().partition(":")
    if tools and name.rpartition("/")[2] not in tools:
        value.fail(f"unknown tool {name!r} (allowed: {', '.join(sorted(tools))})")
    if colon and load not in {*loads.NAMES, *tools}:  # some tools are loads as well
        value.fail(f"unknown load {load!r} (allowed: {', '.join(loads.NAMES)})")
    return value.text()


def _own(value: Value, lengths: Lengths) -> Lengths:
    data = value.mapping(optional=_LENGTHS)
    return Lengths(
        duration_s=_seconds(data["duration"]) if "duration" in data else lengths.duration_s,
        seeds=_seeds(data["seeds"]) if "seeds" in data else lengths.seeds,
        boots=data["boots"].integer(minimum=1) if "boots" in data else lengths.boots,
    )


def _seconds(value: Value) -> float:
    try:
        seconds = Quantity.parse(value.text()).to(Unit.S).value
    except ValueError as error:
        value.fail(str(error))
    if not 1 <= seconds <= 7 * 86400:
        value.fail("a duration is from 1 s to 7 days")
    return seconds


def _seeds(value: Value) -> tuple[int, ...]:
    text = value.word()
    try:
        return seeds(text)
    except ConfigError as error:
        value.fail(str(error))


def seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that `3`, `1-4` or `1-4,9` names, sorted.

    Raises:
        ConfigError: it names none, or something else.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if low > high:
            raise ConfigError(f"{text!r} names no seeds (allowed: a number, a range like 1-4, or several with commas)")
        if low < 1 or high > _LARGEST_SEED:
            raise ConfigError(f"{text!r} names no seeds from 1 to {_LARGEST_SEED}")
        found.update(range(low, high + 1))
    return tuple(sorted(found))
