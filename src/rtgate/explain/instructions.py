# SPDX-License-Identifier: MIT
"""Which changed instructions ran: the places of `kernel.aligned` beside the blocks of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.explain.replay import Ran
from rtgate.kernel.aligned import ChangedCode
from rtgate.records.explained import Change

_SIZE = 4  # bytes of an arm64 instruction


def changes_run(code: Sequence[ChangedCode], ran: Ran) -> tuple[Change, ...]:
    """Return what ran of each changed function; where its places are not known, whether the function ran."""
    wanted = {address for each in code for address in each.places}
    times = dict.fromkeys(wanted, 0)
    for start, instructions, executed in ran.blocks:
        for address in range(start, start + _SIZE * instructions, _SIZE):
            if address in wanted:
                times[address] += max(1, round(executed / instructions))
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
