# SPDX-License-Identifier: MIT
from __future__ import annotations

from rtgate.explain.instructions import changes_run
from rtgate.explain.replay import Ran
from rtgate.kernel.aligned import ChangedCode
from rtgate.records.explained import Change

BASE = 0xFFFF000000000000


def test_a_function_ran_and_its_changed_branch_did_not() -> None:
    places = {BASE + 8: "f+0x8", BASE + 16: "f+0x10", BASE + 20: "f+0x14"}
    code = ChangedCode(function="f", places=places, slow=frozenset({BASE + 20}))
    ran = Ran(functions={"f": 1600}, blocks=((BASE, 3, 1200), (BASE + 24, 1, 400)))
    assert changes_run([code], ran) == (
        Change(function="f", instructions=3, times=400, missed=("f+0x10", "f+0x14"), slow=("f+0x14",)),
    )


def test_where_the_change_is_not_known_the_function_counts() -> None:
    code = ChangedCode(function="f", places={})
    assert changes_run([code], Ran(functions={"f": 7}))[0].times == 1
    assert changes_run([code], Ran(functions={}))[0].times == 0
