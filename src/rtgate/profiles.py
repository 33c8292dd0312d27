# SPDX-License-Identifier: MIT
"""Profiles: how long and how often to measure, from `profiles.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rtgate import site
from rtgate.errors import ConfigError
from rtgate.strict_yaml import Entry, Value, load
from rtgate.units import Quantity, Unit

_SEEDS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_LARGEST_SEED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile.

    Attributes:
        duration_s: seconds of target time that a tool measures.
        seeds: boots of a virtual-time board.
        boots: how many boots of any other board.
    """

    name: str
    description: str
    duration_s: float
    seeds: tuple[int, ...]
    boots: int


def profile(name: str) -> Profile:
    """Return the profile of this name.

    Raises:
        ConfigError: there is none, or a profiles.yaml is wrong.
    """
    found = profiles()
    if name not in found:
        raise ConfigError(f"unknown profile {name!r} (allowed: {', '.join(sorted(found))})")
    return found[name]


def profiles() -> dict[str, Profile]:
    """Return all profiles by name; those of the site win. Raises ConfigError."""
    found: dict[str, Profile] = {}
    for path in reversed(site.files("profiles.yaml")):
        found.update(read(path))
    return found


def read(path: Path) -> dict[str, Profile]:
    """Read one profiles.yaml. Raises ConfigError."""
    return {name: _profile(name, entry) for name, entry in load(path).entries().items()}


def _profile(name: str, entry: Entry) -> Profile:
    data = entry.value.mapping(required=("description", "duration", "seeds", "boots"))
    return Profile(
        name=name,
        description=data["description"].text(),
        duration_s=_seconds(data["duration"]),
        seeds=_seeds(data["seeds"]),
        boots=data["boots"].integer(minimum=1),
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
