# SPDX-License-Identifier: MIT
"""Limits: `thresholds.yaml`, read strictly. Every limit has a unit and says where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rtgate.board.boards import FLAVOURS
from rtgate.console.faults import FaultKind
from rtgate.errors import ConfigError, Location
from rtgate.kernel.version import VersionRange
from rtgate.records.longer_sections import LENGTHS, RAWLOCK, SECTION_MEASUREMENTS
from rtgate.strict_yaml import Mapping as YamlMapping
from rtgate.strict_yaml import Value, dump, load
from rtgate.tools import Reports, loads
from rtgate.tools.case_name import CaseName
from rtgate.tools.extensions import cached_lookup
from rtgate.tools.registry import COMPANIONS, TOOLS, reports
from rtgate.units import Quantity, Unit

_DEFAULT_CONFIDENCE = 0.99


class LimitKind(Enum):
    """How a limit is applied."""

    MAX = "max"
    MIN = "min"
    EXACT = "exact"
    SHARE = "share"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One limit.

    Attributes:
        limit: for `max`, `min` and `exact`.
        over: for `share`: the level that at most `share` of all samples may exceed.
        share: for `share`: between 0 and 1.
        confidence: for `share`: of the interval that decides.
        fault: for `fault`: the kind of kernel fault, as in `console.faults.FaultKind`.
        fails: for `fault`: whether such a fault fails the kernel, or is only reported.
        source: where the limit comes from, in words.
        location: where it stands; None for one that stands in no file.
        cpu_class: the kind of CPU that it is for (a board's `cpu_classes`); empty for all.
        function: of a longest section: the function that begins it; empty for any.
        lock: of a longest hold: the raw spinlock, as `rtgate sections` names it; empty for any.
        margin: how the limit was made from what was measured; may be empty.
        profile: the profile whose options it is for; empty for the tool's own.
        options: what that profile asks of the tool and of the load that is not usual for them, by name.
        duration_s: for how long that profile measures; 0 without one, or if it does not matter to this limit.
        kernels: versions that it is for.
    """

    board: str
    flavour: str
    case: str
    kind: LimitKind
    source: str
    location: Location | None = None
    measurement: str = ""
    limit: Quantity | None = None
    over: Quantity | None = None
    share: float = 0.0
    confidence: float = _DEFAULT_CONFIDENCE
    fault: str = ""
    fails: bool = True
    margin: str = ""
    cpu_class: str = ""
    function: str = ""
    lock: str = ""
    profile: str = ""
    options: Mapping[str, bool | int | str] = field(default_factory=dict, hash=False)
    duration_s: float = 0.0
    kernels: VersionRange = field(default_factory=VersionRange)

    @property
    def name(self) -> str:
        """What it limits, as verdicts name it: the measurement, and the function or the lock."""
        return f"{self.measurement} {self.function}{self.lock}".strip()

    @property
    def origin(self) -> str:
        """Where the limit stands and comes from, for sentences."""
        if self.location is None:
            return self.source
        return f"{self.source}; {self.location.path.name}:{self.location.line}"

    def fits_length(self, duration_s: float) -> bool:
        """Return whether a run of this length is one that it is for; some tools measure for whole seconds only."""
        return not self.duration_s or abs(self.duration_s - duration_s) < 1


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All limits that apply in one run."""

    entries: tuple[Threshold, ...] = ()

    def of(self, board: str, flavour: str, case: str) -> tuple[Threshold, ...]:
        """Return the limits of one case, whatever options and kernels they are for."""
        key = (board, flavour, case)
        return tuple(entry for entry in self.entries if (entry.board, entry.flavour, entry.case) == key)

    def for_options(
        self, board: str, flavour: str, case: str, options: Mapping[str, bool | int | str]
    ) -> tuple[Threshold, ...]:
        """Return the limits of one case that are for a profile's options; none stand for the tool's own."""
        return tuple(entry for entry in self.of(board, flavour, case) if entry.options == options)


@dataclass(frozen=True, slots=True)
class ProfileCase:
    """How a profile measures a case on a board: what it asks that is not usual, by name, and for how many seconds."""

    options: Mapping[str, bool | int | str]
    duration_s: float


FindProfileCase = Callable[[Value, str, CaseName], ProfileCase]
"""How the profile that a value names measures a case on a board; it raises ConfigError at the value."""


_GUARANTEED = frozenset({Reports.FAILURES, Reports.LATENESS})


def guarantees(
    case: str, limits: Sequence[Threshold], kinds: Collection[Reports] = _GUARANTEED
) -> tuple[Threshold, ...]:
    """Return the limits that need no file: a failure that a tool found is the kernel's.

    A measurement that `limits`, those of the case from the file, speak of has no other.
    """
    names = {limit.measurement for limit in limits}
    failures = [
        measurement for measurement, kind in reports(case).items() if kind in kinds and measurement not in names
    ]
    return tuple(
        Threshold(
            board="",
            flavour="",
            case=case,
            kind=LimitKind.EXACT,
            source="a kernel that works has none",
            measurement=measurement,
            limit=Quantity(0, Unit.COUNT),
        )
        for measurement in failures
    )


def of_failures(limit: Threshold, kinds: Collection[Reports] = _GUARANTEED) -> bool:
    """Return whether a limit is for failures that a tool found, and takes the place of their guarantee."""
    return reports(limit.case).get(limit.measurement) in kinds


def load_thresholds(paths: Iterable[Path], boards: Mapping[str, bool], profiles: FindProfileCase) -> Thresholds:
    """Read limits files, the winner first: a board's limits come whole from the first file that has the board.

    Args:
        paths: the files.
        boards: for each board that exists, whether it is a virtual one.
        profiles: returns how the profile that a limit is for measures the case.

    Raises:
        ConfigError: a file is wrong: unknown or duplicate names, wrong units, names that no tool produces.
    """
    by_board: dict[str, tuple[Threshold, ...]] = {}
    with cached_lookup():
        for path in paths:
            for board, entries in _file(path, boards, profiles).items():
                by_board.setdefault(board, entries)
    return Thresholds(tuple(entry for entries in by_board.values() for entry in entries))


def excerpt(
    paths: Iterable[Path],
    thresholds: Thresholds,
    board: str,
    profile_cases: Mapping[str, ProfileCase],
    profile: str,
) -> str:
    """Return the limits of some cases of a board as the text of a limits file of their own.

    A limit for a profile is left out if it is for other options or another length; else it becomes one for `profile`.
    Where the text is read other profiles need not be known, and one of that name may be another one.

    Args:
        paths: limits files, the winner first.
        thresholds: what `load_thresholds` read from them.
        board: the board.
        profile_cases: how the profile that measures them does so, by case.
        profile: its name.

    Raises:
        ConfigError: a file cannot be read.
    """
    files = (load(path).entries() for path in paths)
    own = next((entries[board].value for entries in files if board in entries), None)
    by_flavour = {} if own is None else own.entries()
    left_out = {
        limit.location
        for limit in thresholds.entries
        if limit.board == board and limit.profile and not _is_for(limit, profile_cases.get(limit.case))
    }
    limits = {
        flavour: {
            case: [_for_profile(limit, profile) for limit in limits.value.items() if limit.location not in left_out]
            for case, limits in by_case.value.entries().items()
            if case in profile_cases
        }
        for flavour, by_case in by_flavour.items()
    }
    return dump({board: limits})


def _is_for(limit: Threshold, profile_case: ProfileCase | None) -> bool:
    if profile_case is None:
        return False
    return limit.options == profile_case.options and limit.fits_length(profile_case.duration_s)


def _for_profile(limit: Value, profile: str) -> object:
    """Return a limit as plain data, with another name of its profile if it is for one."""
    entries = {name: entry.value.plain_data(Value.text) for name, entry in limit.entries().items()}
    return {**entries, **({"profile": profile} if "profile" in entries else {})}


def _file(path: Path, boards: Mapping[str, bool], profiles: FindProfileCase) -> dict[str, tuple[Threshold, ...]]:
    by_board = {}
    for name, entry in load(path).entries().items():
        if name not in boards:
            entry.key.fail(f"unknown board {name!r} (allowed: {', '.join(sorted(boards))})")
        by_board[name] = _board(name, entry.value, virtual=boards[name], profiles=profiles)
    return by_board


def _board(board: str, value: Value, *, virtual: bool, profiles: FindProfileCase) -> tuple[Threshold, ...]:
    thresholds: list[Threshold] = []
    for flavour, by_case in value.entries().items():
        if flavour not in FLAVOURS:
            by_case.key.fail(f"unknown flavour {flavour!r} (allowed: {', '.join(FLAVOURS)})")
        for case, limits in by_case.value.entries().items():
            name = known_case(case, limits.key)
            place = _Place(board=board, virtual=virtual, flavour=flavour, name=name, profiles=profiles)
            thresholds.extend(_threshold(place, item) for item in limits.value.items())
    return tuple(thresholds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What a limit applies to."""

    board: str
    virtual: bool
    flavour: str
    name: CaseName
    profiles: FindProfileCase

    @property
    def case(self) -> str:
        return str(self.name)


def known_case(case: str, key: Value) -> CaseName:
    """Return the name of a case that a suite may measure. Raises ConfigError at `key`: there is no such case."""
    try:
        name = CaseName.parse(case)
    except ConfigError as error:
        key.fail(str(error))
    if name.tool not in TOOLS:
        key.fail(f"unknown tool {name.tool!r} (allowed: {', '.join(sorted(TOOLS))})")
    if name.suite not in TOOLS[name.tool].suites:
        key.fail(f"{name.tool} is not in the suite {name.suite!r} (allowed: {', '.join(TOOLS[name.tool].suites)})")
    if name.load not in loads.names() and name.load not in COMPANIONS:
        key.fail(f"unknown load {name.load!r} (allowed: {', '.join((*loads.names(), *COMPANIONS))})")
    return name


_OPTIONAL = ("margin", "class", "profile", "kernels")
_KEYS: Mapping[LimitKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    LimitKind.MAX: (("measurement", "kind", "limit", "source"), (*_OPTIONAL, "function", "lock")),
    LimitKind.MIN: (("measurement", "kind", "limit", "source"), _OPTIONAL),
    LimitKind.EXACT: (("measurement", "kind", "limit", "source"), _OPTIONAL),
    LimitKind.SHARE: (("measurement", "kind", "over", "limit", "source"), (*_OPTIONAL, "confidence")),
    LimitKind.FAULT: (("kind", "fault", "policy", "source"), ()),
}


def _threshold(place: _Place, item: Value) -> Threshold:
    entries = item.entries()
    if "kind" not in entries:
        item.fail(f"missing key 'kind' (allowed values: {', '.join(kind.value for kind in LimitKind)})")
    kind = LimitKind(entries["kind"].value.text([kind.value for kind in LimitKind]))
    keys, optional = _KEYS[kind]
    data = item.mapping(keys, optional)
    limit = Threshold(
        board=place.board,
        flavour=place.flavour,
        case=place.case,
        kind=kind,
        source=data["source"].text(),
        location=item.location,
        margin=data.text("margin", ""),
        cpu_class=data.text("class", ""),
        function=data.text("function", ""),
        lock=data.text("lock", ""),
    )
    if kind is LimitKind.FAULT:
        policy = data["policy"].text(("fail", "report"))
        fault = data["fault"].text([fault.value for fault in FaultKind])
        return replace(limit, fault=fault, fails=policy == "fail")
    return _read_threshold(place, replace(limit, **_key(place, data)), data)


def _key(place: _Place, data: YamlMapping) -> dict[str, Any]:
    """Return for which options and kernels a limit is."""
    scope: dict[str, Any] = {}
    if "profile" in data:
        profile_case = place.profiles(data["profile"], place.board, place.name)
        scope = {"profile": data["profile"].text(), **asdict(profile_case)}
    if "kernels" in data:
        scope["kernels"] = data["kernels"].parse(VersionRange.parse)
    return scope


def _read_threshold(place: _Place, limit: Threshold, data: YamlMapping) -> Threshold:
    measurements = {**reports(place.case), **_of_sections(place)}
    name = data["measurement"].text()
    if name not in measurements:
        data["measurement"].fail(f"{place.name.tool} reports no {name!r} (allowed: {', '.join(sorted(measurements))})")
    kind = measurements[name]
    if name in SECTION_MEASUREMENTS and limit.kind is not LimitKind.MAX:
        data["kind"].fail(f"{name} is a longest length: use max")
    if name in SECTION_MEASUREMENTS and "class" in data:
        data["class"].fail(f"{name} is of the board's only CPU: leave class away")
    if kind in _GUARANTEED and "class" in data:
        data["class"].fail(f"a kernel that works has no {name}, on whatever CPU: leave class away")
    if name not in LENGTHS and "function" in data:
        data["function"].fail(f"{name} is not of a function: leave function away (it goes with {', '.join(LENGTHS)})")
    if name != RAWLOCK and "lock" in data:
        data["lock"].fail(f"{name} is not of a lock: leave lock away (it goes with {RAWLOCK})")
    if (limit.kind is LimitKind.SHARE) != (kind is Reports.TIMES):
        hint = "a histogram: use share" if kind is Reports.TIMES else "a number: share is for histograms"
        data["kind"].fail(f"{name} is {hint}")
    if limit.kind is not LimitKind.SHARE:
        level = _quantity(place, kind, data["limit"])
        # What is worst so far, or a rate, says the same of a shorter run: only a least count is of a whole one.
        duration_s = limit.duration_s if (limit.kind, level.unit) == (LimitKind.MIN, Unit.COUNT) else 0.0
        return replace(limit, measurement=name, limit=level, duration_s=duration_s)
    confidence = data.get("confidence")
    return replace(
        limit,
        measurement=name,
        duration_s=0.0,
        over=_quantity(place, kind, data["over"]),
        share=_between(data["limit"], 0.0, 1.0),
        confidence=_DEFAULT_CONFIDENCE if confidence is None else _between(confidence, 0.5, 1.0),
    )


def _of_sections(place: _Place) -> dict[str, Reports]:
    """Return what following boots adds to what a case measures (`rtgate gate --sections`)."""
    if not (place.virtual and TOOLS[place.name.tool].bounded):
        return {}
    return dict.fromkeys(SECTION_MEASUREMENTS if place.flavour == "preempt_rt" else (*LENGTHS, RAWLOCK), Reports.TIME)


# Others are called like what is reported.
_DIMENSIONS = {Reports.TIMES: "time", Reports.FAILURES: "count", Reports.LATENESS: "count"}
_CLOCKED = {"time": "us", "rate": "MB/s", "frequency": "/s"}  # which a virtual-time board measures with its own clock


def _quantity(place: _Place, kind: Reports, value: Value) -> Quantity:
    quantity = value.parse(Quantity.parse)
    dimension = _DIMENSIONS.get(kind, kind.value)
    if place.virtual and dimension in _CLOCKED:
        dimension = f"virtual {dimension}"
    if quantity.unit.dimension != dimension:
        what = dimension.removeprefix("virtual ")
        example = dimension.removesuffix(what) + _CLOCKED.get(what, what)
        value.fail(
            f"{place.board} measures this as {dimension}, not as {quantity.unit.dimension}: write it in {example}"
        )
    return quantity


def _between(value: Value, low: float, high: float) -> float:
    number = value.number()
    if not low < number < high:
        value.fail(f"{number:g} is out of range (allowed: more than {low:g}, less than {high:g})")
    return number
