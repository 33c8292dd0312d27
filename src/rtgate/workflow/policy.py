# SPDX-License-Identifier: MIT
"""`.rtgate/policy.yaml` of a kernel repository: what is measured for a merge request, and what its result blocks.

Only the target branch's own file counts: a merge request cannot change what it is judged by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from rtgate import site
from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.kernel.build_limits import DISK, MIB, TIME_S, BuildLimits
from rtgate.measure.profiles import profile, profiles, seconds
from rtgate.strict_yaml import Mapping, Value, load
from rtgate.units import mib
from rtgate.workflow import suites
from rtgate.workflow.budget import DEFAULT, minutes
from rtgate.workflow.kernels import Sources
from rtgate.workflow.sections import unfollowed

FILE = "policy.yaml"
_ALLOW, _BLOCK = "allow", "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A board on virtual time, on which every merge request is gated.

    Attributes:
        build: an entry of kernel-configs/.
        select: the cases that match, as pytest's -k; empty for all of the profile.
        sections: whether critical sections are followed and judged.
    """

    board: str
    build: str
    profile: str = "compare"
    select: str = ""
    sections: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabBoard:
    """A board of a LAVA lab.

    Attributes:
        build: an entry of kernel-configs/.
        suites: empty for all.
        budget: board-minutes for one merge request.
        tags: of LAVA's devices that may run it.
        all_cases: whether it measures every case of the suites, whatever the screen said.
    """

    board: str
    build: str
    profile: str = "mr"
    suites: tuple[str, ...] = ("latency",)
    budget: float = 60.0
    tags: tuple[str, ...] = ()
    all_cases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What happens to a merge request.

    Attributes:
        screens: one after the other, each on another board.
        boards: of the lab, after the screen.
        builds: entries of kernel-configs/ that have to build, and are not booted.
        limits: what a build may take.
        unproven: whether a merge request passes whose comparison found nothing, and could not prove that there is
            nothing.
    """

    screens: tuple[Screen, ...]
    boards: tuple[LabBoard, ...] = ()
    builds: tuple[str, ...] = ()
    limits: BuildLimits = field(default_factory=BuildLimits)
    unproven: bool = False


_BOARD = "virt-arm64"  # where no file names one


def _default() -> tuple[Screen, ...]:
    return (Screen(board=_BOARD, build=boards.board(_BOARD).build),)


def read_policy() -> Policy:
    """Return the policy of the site or of the kernel repository; that of an empty file where neither has one.

    Raises:
        ConfigError: the file is wrong.
        InfrastructureError: this machine is too busy to list cases.
    """
    paths = site.files(FILE)
    return read(paths[0]) if paths else Policy(screens=_default())


def read(path: Path) -> Policy:
    """Read one policy.yaml. Raises as `read_policy`."""
    data = load(path).mapping(optional=("screen", "boards", "builds", "build_time", "build_disk", "unproven"))
    screens = tuple(map(_screen, data["screen"].items())) if "screen" in data else _default()
    if not screens:
        data["screen"].fail("names no board: nothing would be measured")
    in_lab = tuple(map(_lab_board, data["boards"].items())) if "boards" in data else ()
    for name, entries in (("screen", screens), ("boards", in_lab)):
        if len({entry.board for entry in entries}) < len(entries):
            data[name].fail("names a board twice: its boots would be taken for each other's")
    for screen, other in permutations(screens, 2):
        for board in _of_both(screen, other):
            again = f"{other.profile} measures it beside {other.board}"
            data["screen"].fail(
                f"{screen.profile} measures {board} beside {screen.board}, and "
                f"{f'{board} is a screen of its own' if board == other.board else again}: its "
                f"boots would be taken for each other's: leave one out (`select` of {screen.board}, as `cyclictest`)"
            )
    build_names = site.names("kernel-configs")
    return Policy(
        screens=screens,
        boards=in_lab,
        builds=tuple(entry.text(build_names) for entry in data["builds"].items()) if "builds" in data else (),
        limits=_limits(data),
        unproven=data.text("unproven", _BLOCK, (_ALLOW, _BLOCK)) == _ALLOW,
    )


def _of_both(screen: Screen, other: Screen) -> list[str]:
    """Return the boards that a screen measures beside its own, and another one as well.

    Raises:
        InfrastructureError: this machine is too busy to list cases.
    """
    of_other = (other.board, *profile(other.profile).further_boards(other.board))
    overlap = [board for board in profile(screen.profile).further_boards(screen.board) if board in of_other]
    return [board for board in overlap if _has_case(screen, board) and _has_case(other, board)]


def _has_case(screen: Screen, board: str) -> bool:
    """Return whether a screen measures its own board, or has a case for one beside it by `select`.

    A wrong `select` is refused when the screen is measured. To list cases takes seconds.
    """
    if board == screen.board or not screen.select:
        return True
    try:
        return bool(suites.cases((), screen.profile, "default", screen.select, board))
    except ConfigError:
        return False


def _screen(value: Value) -> Screen:
    data = value.mapping(required=("board",), optional=("build", "profile", "select", "sections"))
    return Screen(
        board=_board(data, virtual=True),
        build=_build(data),
        profile=data.text("profile", "compare", profiles()),
        select=data.text("select", ""),
        sections="sections" in data and _sections(data),
    )


def _sections(data: Mapping) -> bool:
    wanted = data["sections"].flag()
    if wanted and (reason := unfollowed(boards.board(data["board"].text()))):
        data["sections"].fail(reason)
    return wanted


def _lab_board(value: Value) -> LabBoard:
    data = value.mapping(required=("board", "build"), optional=("profile", "suites", "budget", "tags", "cases"))
    return LabBoard(
        board=_board(data, virtual=False),
        build=_build(data),
        profile=data.text("profile", "mr", profiles()),
        suites=_suites(data["suites"]) if "suites" in data else ("latency",),
        budget=_minutes(data["budget"]) if "budget" in data else minutes(DEFAULT),
        tags=data.texts("tags"),
        all_cases=data.text("cases", "asked", ("asked", "all")) == "all",
    )


def _suites(value: Value) -> tuple[str, ...]:
    suite_names = suites.names()
    return tuple(item.text(suite_names) for item in value.items())


def _board(data: Mapping, *, virtual: bool) -> str:
    name = data["board"].text(site.names("boards"))
    if boards.board(name).virtual != virtual:
        kind = "not a virtual board: only those can screen" if virtual else "a virtual board: `screen` is for those"
        data["board"].fail(f"{name} is {kind}")
    if not virtual and boards.board(name).lava is None:
        data["board"].fail(f"{name} is in no lab: its file has no `lava`")
    return name


def _build(data: Mapping) -> str:
    board = boards.board(data["board"].text())
    name = data.text("build", board.build)
    try:
        Sources(build=name).description(board)
    except ConfigError as error:
        (data.get("build") or data["board"]).fail(str(error))
    return name


def _limits(data: Mapping) -> BuildLimits:
    time_s = seconds(data["build_time"]) if "build_time" in data else TIME_S
    return BuildLimits(time_s=time_s, disk=data["build_disk"].parse(mib) * MIB if "build_disk" in data else DISK)


def _minutes(value: Value) -> float:
    return seconds(value) / 60
