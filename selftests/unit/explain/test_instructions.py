# SPDX-License-Identifier: MIT
from __future__ import annotations

from rtgate.explain.instructions import changes_run
from rtgate.explain.replay import Ran
from rtgate.explain.trace import Block
from rtgate.kernel.alignment import ChangedCode
from rtgate.records.explained import Change

BASE = 0xFFFF000000000000


def block(address: int, instructions: int, size: int, *, executed: int) -> tuple[Block, int]:
    return Block(address=address, instructions=instructions, last=b"", size=size), executed


def test_a_function_ran_and_its_changed_branch_did_not() -> None:
    places = {BASE + 8: "f+0x8", BASE + 16: "f+0x10", BASE + 20: "f+0x14"}
    code = ChangedCode(function="f", places=places, slow=frozenset({BASE + 20}))
    ran = Ran(functions={"f": 1600}, blocks=(block(BASE, 3, 12, executed=1200), block(BASE + 24, 1, 4, executed=400)))
    assert changes_run([code], ran) == (
        Change(function="f", instructions=3, times=400, missed=("f+0x10", "f+0x14"), slow=("f+0x14",)),
    )


def test_where_the_change_is_not_known_the_function_counts() -> None:
    code = ChangedCode(function="f", places={})
    assert changes_run([code], Ran(functions={"f": 7}))[0].times == 1
    assert changes_run([code], Ran(functions={}))[0].times == 0


def test_instructions_of_any_length_ran_that_a_block_covers() -> None:
    places = {BASE + offset: f"f+{offset:#x}" for offset in (1, 8, 15, 17)}
    code = ChangedCode(function="f", places=places)
    # Three instructions of 1, 7 and 9 bytes: the last of `places` begins where the block ends.
    ran = Ran(functions={"f": 30}, blocks=(block(BASE, 3, 17, executed=30),))
    (change,) = changes_run([code], ran)
    assert (change.times, change.missed) == (10, ("f+0x11",))
