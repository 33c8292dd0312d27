# SPDX-License-Identifier: MIT
"""Profiles: how long and how often to measure, from `profiles.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from rtgate import durations, site
from rtgate.errors import ConfigError
from rtgate.strict_yaml import Entry, Value, load
from rtgate.strict_yaml import Mapping as Fields
from rtgate.tools import Tool, loads
from rtgate.tools.extensions import cached_lookup
from rtgate.tools.loads import Options
from rtgate.tools.registry import COMPANIONS, TOOLS, outside, without_own

DEFAULT = "quick"  # of all commands
_SEEDS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
LARGEST_SEED = 100_000
_MOST_BOOTS = 10_000


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
class OnBoard:
    """What a profile measures on one board, instead of what it measures on the others.

    Attributes:
        beside: the board with which a gate of two kernels measures this one, too; empty for none.
        only, suites, loads: as those of the profile.
    """

    beside: str = ""
    only: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    loads: Mapping[str, Options] = field(default_factory=dict)


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
        options: options of tools that differ from those of the suites, by name as in `tools`.
        loads: the only loads that the profile measures under, each with its options; empty for those of the suites. A
            load that measures has those of its tool.
        nfs: whether latency may be measured on a board whose root file system is on the network.
        boards: what it measures on single boards instead, by board.
    """

    name: str
    description: str
    lengths: Lengths
    tools: Mapping[str, Lengths] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    minimum: tuple[str, ...] = ()
    nfs: bool = False
    options: Mapping[str, Options] = field(default_factory=dict)
    loads: Mapping[str, Options] = field(default_factory=dict)
    boards: Mapping[str, OnBoard] = field(default_factory=dict)

    def on(self, board: str | None) -> Profile:
        """Return the profile as it is on a board."""
        own = self.boards.get(board or "")
        return replace(self, only=own.only, suites=own.suites, loads=own.loads) if own else self

    def further_boards(self, board: str) -> tuple[str, ...]:
        """Return the boards that a gate of two kernels measures with this one."""
        return tuple(name for name, own in self.boards.items() if own.beside == board)

    def of(self, tool: str, suite: str = "", load: str = "") -> Lengths:
        """Return the lengths of a tool, under a load or in a suite where that has its own."""
        names = (f"{suite}/{tool}:{load}", f"{tool}:{load}", f"{suite}/{tool}", tool)
        return next((self.tools[name] for name in names if name in self.tools), self.lengths)

    def has(self, suite: str, tool: str, load: str = "", *, named: bool = False) -> bool:
        """Return whether the profile measures a tool of a suite, under a load; `named` is one it must name itself."""
        in_profile = (not self.only or tool in self.only) and (not self.suites or suite in self.suites)
        return in_profile and (load in self.loads if self.loads and load else not named)

    def options_of(self, tool: str, suite: str = "") -> Options:
        """Return the options of a tool that differ from those of the suites."""
        return self.options.get(f"{suite}/{tool}", self.options.get(tool, {}))

    def asks(self, tool: str, suite: str, load: str) -> dict[str, int | str]:
        """Return what the profile asks of a tool and of a load that is not usual for them, by name, for limits."""
        return {**without_own(tool, self.options_of(tool, suite)), **self.asks_of_load(load, suite)}

    def asks_of_load(self, load: str, suite: str) -> dict[str, int | str]:
        """Return what the profile asks of a load that is not usual for it, by name, for records and limits.

        Of one that measures, what it asks of the tool.
        """
        measures = load in COMPANIONS
        options = without_own(load, self.options_of(load, suite)) if measures else self.loads.get(load, {})
        return {f"{load} {name}": value for name, value in options.items()}

    def fit(self, tool: Tool, suite: str) -> Tool:
        """Return a tool of a suite with the profile's options."""
        options: Mapping[str, Any] = self.options_of(tool.name, suite)
        return replace(tool, **options) if options else tool  # type: ignore[type-var]


def profile(name: str, board: str | None = None) -> Profile:
    """Return the profile of this name, as it is on a board; without one as it is on boards that it does not name.

    Raises:
        ConfigError: there is none, or a profiles.yaml is wrong.
    """
    by_name = profiles()
    if name not in by_name:
        raise ConfigError(f"unknown profile {name!r} (allowed: {', '.join(sorted(by_name))})")
    return by_name[name].on(board)


def profiles() -> dict[str, Profile]:
    """Return all profiles by name; those of the site win. Raises ConfigError."""
    by_name: dict[str, Profile] = {}
    for path in reversed(site.files("profiles.yaml")):
        by_name.update(read(path))
    return by_name


def read(path: Path) -> dict[str, Profile]:
    """Read one profiles.yaml. Raises ConfigError."""
    with cached_lookup():
        return {name: _profile(name, entry) for name, entry in load(path).entries().items()}


_LENGTHS = ("duration", "seeds", "boots")


def _profile(name: str, entry: Entry) -> Profile:
    data = entry.value.mapping(
        required=("description", *_LENGTHS), optional=("tools", "only", "suites", "minimum", "nfs", "loads", "boards")
    )
    lengths = Lengths(
        duration_s=seconds(data["duration"]), seeds=_seeds(data["seeds"]), boots=data["boots"].integer(minimum=1)
    )
    own = {} if "tools" not in data else data["tools"].entries()
    return Profile(
        name=name,
        description=data["description"].text(),
        lengths=lengths,
        tools={_case(section.key): _read_lengths(section.value, lengths) for section in own.values()},
        only=_read_tools(data),
        suites=data.texts("suites"),
        minimum=data.texts("minimum"),
        nfs="nfs" in data and data["nfs"].flag(),
        options={name: options for name, entry in own.items() if (options := _options(name, entry.value))},
        loads=_loads(data),
        boards={} if "boards" not in data else _boards(data["boards"]),
    )


def _read_tools(data: Fields) -> tuple[str, ...]:
    return tuple(_tool(item, item.text()) for item in (data["only"].items() if "only" in data else ()))


def _loads(data: Fields) -> Mapping[str, Options]:
    return {} if "loads" not in data else {name: _load(entry) for name, entry in data["loads"].entries().items()}


def _boards(value: Value) -> Mapping[str, OnBoard]:
    board_names = site.names("boards")
    boards = {}
    for entry in value.entries().values():
        data = entry.value.mapping(optional=("beside", "only", "suites", "loads"))
        name = entry.key.text(board_names)
        beside = data["beside"].text(board_names) if "beside" in data else ""
        if beside == name:
            data["beside"].fail(
                f"{name} is beside itself: name the board whose gate measures it, too, or remove `beside`"
            )
        boards[name] = OnBoard(
            beside=beside,
            only=_read_tools(data),
            suites=data.texts("suites"),
            loads=_loads(data),
        )
    return boards


def _options(name: str, value: Value) -> Options:
    """Return the `options` of a tool's entry, checked against what the tool takes."""
    entry = value.entries().get("options")
    if entry is None:
        return {}
    if ":" in name:
        entry.key.fail(f"{name} cannot have options of its own: they are the tool's, under every load")
    options = _read_options(entry.value)
    _fits(TOOLS[name.rpartition("/")[2]], options, entry.value)
    return options


_MOST_PRIORITY = 99  # of SCHED_FIFO and SCHED_RR
_NEVER_0 = ("interval_us", "period_us", "bucket_ns")  # ends of options' names: how often something happens, how wide


def _fits(kind: type[Any], options: Options, value: Value) -> None:
    """Check that a tool has these options, and takes their values. Raises ConfigError."""
    own: dict[str, Any] = {attribute.name: attribute.default for attribute in fields(kind)}
    for name, option in options.items():
        place = value.entries()[name]
        if name not in own:
            place.key.fail(f"{kind.name} has no option {name!r} (allowed: {', '.join(sorted(own)) or 'none'})")
        if type(option) is not type(own[name]):
            place.value.fail(f"{name} is {option!r} (allowed: a value like {own[name]!r})")
        if type(option) is int:
            _within(option, kind, own[name], place)
    try:
        kind(**options)
    except (ConfigError, ValueError) as error:  # the latter from a site's own tool
        value.fail(str(error))
    except (Exception, SystemExit) as error:
        if kind.name in outside():
            raise outside()[kind.name].failure(error) from error
        raise


def _within(number: int, kind: type[Any], usual: int, place: Entry) -> None:
    """Check that a number is in its option's range. Raises ConfigError."""
    name = place.key.text()
    least, most = 1 if name.endswith(_NEVER_0) else 0, None
    if name == "priority":
        # With 0, SCHED_OTHER's, most tools do not measure with the real-time threads that a run must have.
        least, most = min(1, usual), _MOST_PRIORITY
    least, most = kind.ranges.get(name, (least, most))
    if number < least or (most is not None and number > most):
        place.value.fail(
            f"{name} is {number} (allowed: {f'at least {least}' if most is None else f'{least} to {most}'})"
        )


def _load(entry: Entry) -> Options:
    name, names = entry.key.text(), (*loads.names(), *COMPANIONS)
    if name not in names:
        entry.key.fail(f"unknown load {name!r} (allowed: {', '.join(names)})")
    options = _read_options(entry.value)
    if name in COMPANIONS and options:
        entry.value.fail(f"{name} is a tool as well: write its options below `tools`, as `{name}: {{options: ...}}`")
    try:
        loads.check_options(name, options)
    except ConfigError as error:
        entry.value.fail(str(error))
    return options


def _read_options(value: Value) -> Options:
    """Return a mapping of whole numbers, flags and texts."""
    options = {name: entry.value.plain_data(Value.text) for name, entry in value.entries().items()}
    for name, option in options.items():
        if not isinstance(option, int | str):
            value.entries()[name].value.fail("expected a whole number, true or false, or a text")
    return {name: option for name, option in options.items() if isinstance(option, int | str)}


def _tool(value: Value, name: str) -> str:
    """Return the name of a tool, which may be that in one suite. Raises ConfigError: there is no such tool."""
    if name.rpartition("/")[2] not in TOOLS:
        value.fail(f"unknown tool {name!r} (allowed: {', '.join(sorted(TOOLS))})")
    return name


def _case(value: Value) -> str:
    """Return the name of a tool, which may be that in one suite, and under one load."""
    name, colon, load = value.text().partition(":")
    _tool(value, name)
    if colon and load not in loads.names() and load not in COMPANIONS:
        value.fail(f"unknown load {load!r} (allowed: {', '.join((*loads.names(), *COMPANIONS))})")
    return value.text()


def _read_lengths(value: Value, lengths: Lengths) -> Lengths:
    data = value.mapping(optional=(*_LENGTHS, "options"))
    return Lengths(
        duration_s=seconds(data["duration"]) if "duration" in data else lengths.duration_s,
        seeds=_seeds(data["seeds"]) if "seeds" in data else lengths.seeds,
        boots=data["boots"].integer(minimum=1) if "boots" in data else lengths.boots,
    )


def seconds(value: Value) -> float:
    """Return a duration of a file, at most a week. Raises ConfigError."""
    return value.parse(partial(durations.parse, most_s=7 * durations.DAY_S))


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
    numbers: set[int] = set()
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if low > high:
            raise ConfigError(f"{text!r} names no seeds (allowed: a number, a range like 1-4, or several with commas)")
        if low < 1 or high > LARGEST_SEED:
            raise ConfigError(f"{text!r} names no seeds from 1 to {LARGEST_SEED}")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def boots(seed_text: str | None, count: str | None, *, virtual_time: bool) -> tuple[int, ...]:
    """Return the boots that the options --seeds and --boots name; empty for those of the profile.

    Raises:
        ConfigError: they name none, or the option is not for this time.
    """
    if virtual_time and count is not None:
        raise ConfigError("--boots is for boards that do not run on virtual time: name seeds with --seeds")
    if not virtual_time and seed_text:
        raise ConfigError("--seeds is for virtual time: say how many boots with --boots")
    if count is not None and "-" in count[1:]:
        return seeds(count)
    if count is not None and not (count.isdecimal() and 0 < int(count) <= _MOST_BOOTS):
        raise ConfigError(f"--boots {count}: expected at least 1 (and at most {_MOST_BOOTS}), or numbers like 4-6")
    return seeds(seed_text) if seed_text else tuple(range(1, int(count or 0) + 1))
