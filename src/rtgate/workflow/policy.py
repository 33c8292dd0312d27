# SPDX-License-Identifier: MIT
"""`.rtgate/policy.yaml` of a kernel repository: what is measured for a merge request, and what its result blocks.

Only the target branch's own file counts: a merge request cannot change what it is judged by.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtgate import site
from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.measure.profiles import profiles
from rtgate.strict_yaml import Value, load
from rtgate.tools.registry import TOOLS
from rtgate.workflow.kernels import Sources

FILE = "policy.yaml"
_ALLOW, _BLOCK = "allow", "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A board on virtual time, on which every merge request is gated.

    Attributes:
        build: an entry of kernel-configs/.
        select: the cases that match, as pytest's -k; empty for all of the profile.
    """

    board: str
    build: str
    profile: str = "compare"
    select: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What happens to a merge request.

    Attributes:
        screens: one after the other, each on another board.
        builds: entries of kernel-configs/ that have to build, and are not booted.
        unproven: whether a merge request passes whose comparison found nothing, and could not prove that there is
            nothing.
    """

    screens: tuple[Screen, ...]
    builds: tuple[str, ...] = ()
    unproven: bool = False


_DEFAULT = (Screen(board="virt-arm64", build="virt-arm64-preempt_rt"),)


def read_policy() -> Policy:
    """Return the policy of the site or of the kernel repository; that of an empty file where neither has one.

    Raises:
        ConfigError: the file is wrong.
    """
    found = site.files(FILE)
    return read(found[0]) if found else Policy(screens=_DEFAULT)


def read(path: Path) -> Policy:
    """Read one policy.yaml. Raises ConfigError."""
    data = load(path).mapping(optional=("screen", "builds", "unproven"))
    screens = tuple(map(_screen, data["screen"].items())) if "screen" in data else _DEFAULT
    if not screens:
        data["screen"].fail("names no board: nothing would be measured")
    if len({one.board for one in screens}) < len(screens):
        data["screen"].fail("names a board twice: its boots would be taken for each other's")
    known = site.names("kernel-configs")
    return Policy(
        screens=screens,
        builds=tuple(one.text(known) for one in data["builds"].items()) if "builds" in data else (),
        unproven=data.text("unproven", _BLOCK, (_ALLOW, _BLOCK)) == _ALLOW,
    )


def _screen(value: Value) -> Screen:
    data = value.mapping(required=("board",), optional=("build", "profile", "select"))
    name = data["board"].text(site.names("boards"))
    if not boards.board(name).virtual:
        data["board"].fail(f"{name} is not a virtual board: only those can screen")
    build = data.text("build", boards.board(name).build)
    try:
        Sources(build=build).description(boards.board(name))
    except ConfigError as error:
        (data.get("build") or data["board"]).fail(str(error))
    return Screen(
        board=name,
        build=build,
        profile=data.text("profile", "compare", profiles(TOOLS)),
        select=data.text("select", ""),
    )
