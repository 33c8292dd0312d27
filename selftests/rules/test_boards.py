# SPDX-License-Identifier: MIT
"""What belongs to a shipped board is there: a build, a way into a lab, limits; or the page says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgate import site
from rtgate.board import boards
from rtgate.workflow.kernels import find_description
from rtgate.workflow.verdicts import limits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/boards.md").read_text()
BOARDS = site.names("boards")
BUILDS = site.names("kernel-configs")
SECTION = PAGE.partition("## Boards without limits\n")[2].partition("\n## ")[0]
WITHOUT_LIMITS = {
    name for row in re.findall(r"^\|([^|]+)\|", SECTION, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_has_a_build_and_a_way_into_a_lab_or_is_qemu(name: str) -> None:
    board = boards.board(name)
    assert board.build in BUILDS or name == "rk3568-evb1-android"  # which has the vendor's kernel alone
    assert board.virtual or board.lava is not None


def test_the_page_says_what_was_seen_of_every_build() -> None:
    section = PAGE.partition("## Builds\n")[2].partition("\n## ")[0]
    names = re.findall(r"`([\w-]+)`", section)
    patterns = [name.replace("SOC", "(?:rk\\w+|nuc-j3455)").replace("ARCH", "(?:arm64|x86_64)") for name in names]
    assert [build for build in BUILDS if not any(re.fullmatch(pattern, build) for pattern in patterns)] == []


def test_every_board_of_hardware_has_a_build_of_both_flavours() -> None:
    own = {board.build for board in map(boards.board, BOARDS) if not board.build.startswith("virt-")} - {""}
    socs = {build.removesuffix("-preempt_rt").removesuffix("-vendor") for build in own}
    assert socs == {"nuc-j3455", "rk3528", "rk3562", "rk3568", "rk3572", "rk3576", "rk3588", "rk3588s"}
    assert {f"{soc}-{flavour}" for soc in socs for flavour in ("preempt_rt", "generic")} <= set(BUILDS)


def test_a_board_has_limits_of_its_builds_kernels_or_a_reason() -> None:
    limited = {(limit.board, limit.flavour) for limit in limits(None).entries}
    flavours = {name: find_description(boards.board(name).build).flavour for name in BOARDS if boards.board(name).build}
    assert {name for name in BOARDS if (name, flavours.get(name, "preempt_rt")) not in limited} == WITHOUT_LIMITS
