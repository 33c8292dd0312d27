# SPDX-License-Identifier: MIT
"""Which changed instructions ran: the places of `kernel.alignment` beside the blocks of a trace."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from rtgate.explain.replay import Ran
from rtgate.kernel.alignment import ChangedCode
from rtgate.records.explained import Change


def changes_run(code: Sequence[ChangedCode], ran: Ran) -> tuple[Change, ...]:
    """Return what ran of each changed function; where its places are not known, whether the function ran.

    A block is looked at by the bytes that it covers: what the kernel patched while it booted may consist of other
    instructions than were linked.
    """
    wanted = sorted({address for each in code for address in each.places})
    times = dict.fromkeys(wanted, 0)
    for block, executed in ran.blocks:
        within = wanted[bisect_left(wanted, block.address) : bisect_left(wanted, block.address + block.size)]
        for address in within:
            times[address] += max(1, round(executed / block.instructions))
    return tuple(_change(each, times, ran) for each in code)


def _change(code: ChangedCode, times: dict[int, int], ran: Ran) -> Change:
    if not code.places:
        ran_there = int(ran.functions.get(code.function, 0) > 0)
        return Change(function=code.function, instructions=0, times=ran_there, boots=code.boots)
    return Change(
        function=code.function,
        instructions=len(code.places),
        times=max(times[address] for address in code.places),
        missed=tuple(name for address, name in sorted(code.places.items()) if not times[address]),
        slow=tuple(code.places[address] for address in sorted(code.slow) if not times[address]),
        boots=code.boots,
    )
