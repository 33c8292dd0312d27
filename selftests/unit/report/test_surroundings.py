# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from rtgate.report.surroundings import properties, surroundings, title

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def _read(text: str) -> dict[str, str]:
    """Read a Java properties file as its definition says (java.util.Properties.load), without line continuation."""
    found = {}
    for line in text.splitlines():
        key, value = re.fullmatch(r"((?:[^\\=]|\\.)*)=(.*)", line).groups()  # type: ignore[union-attr]
        pair = []
        for raw in (key, value):
            units = re.sub(r"\\u([0-9a-f]{4})|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else m[2], raw)
            pair.append(units.encode("utf-16", "surrogatepass").decode("utf-16"))
        found[pair[0]] = pair[1]
    return found


def test_values_that_differ_stand_by_arm(world: World) -> None:
    arms = (("baseline", "6.12.106"), ("candidate", "6.12.107"))
    records = [
        world.record(world.boot(arm=arm, release=release, seed=seed)) for arm, release in arms for seed in (1, 2, 4)
    ]
    found = surroundings(records)
    assert found["board"] == "virt-arm64"
    assert found["kernel release (baseline)"] == "6.12.106"
    assert found["kernel release (candidate)"] == "6.12.107"
    assert "kernel release" not in found
    assert found["boots"] == "seeds 1-2, 4"
    assert found["instruction"] == "8 virtual ns"
    assert "isolated CPUs" not in found


def test_several_boards_are_named(world: World) -> None:
    records = [world.record(world.boot(board=board)) for board in ("virt-arm64", "virt-x86_64")]
    assert surroundings(records)["board (virt-x86_64, candidate)"] == "virt-x86_64"


def test_real_boots_are_counted(world: World) -> None:
    assert surroundings([world.record(world.boot(seed=None))])["boots"] == "1 boot"


def test_the_title_names_board_and_candidate(world: World) -> None:
    arms = (("baseline", "6.12.106"), ("candidate", "6.12.107"))
    records = [world.record(world.boot(arm=arm, release=release)) for arm, release in arms]
    assert title(records) == "rtgate: virt-arm64 6.12.107 aaaaaaaaaaaa"
    built = [replace(one, kernel=replace(one.kernel, source='v6.12-1-g9be34d077e1a "sched"')) for one in records]
    assert title(built) == "rtgate: virt-arm64 6.12.107 9be34d077e1a"
    assert title([]) == "rtgate: nothing measured"


def test_what_the_target_said_is_cleaned(world: World) -> None:
    record = world.record(world.boot(changes={"command_line": "quiet \x1b[31mred\nboard=evil"}))
    assert surroundings([record])["command line"] == "quiet red board=evil"


@settings(deadline=None)  # other programs may hold the CPU
@given(
    st.dictionaries(
        st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1),
        st.text(st.characters(categories=("L", "N", "P", "S"))),
    )
)
def test_properties_can_be_read_back(pairs: dict[str, str]) -> None:
    text = properties(pairs)
    assert text.isascii()
    assert _read(text if pairs else "") == pairs
