# SPDX-License-Identifier: MIT
"""Which changed instructions ran: the places of `kernel.alignment` beside the blocks of a trace."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from rtgate.explain.replay import Ran
from rtgate.kernel.alignment import ChangedCode
from rtgate.records.explained import Change


def changes_run(code: Sequence[ChangedCode], run: Ran) -> tuple[Change, ...]:
    """Return what ran of each changed function; where its places are not known, whether the function ran.

    A block is looked at by the bytes that it covers: what the kernel patched while it booted may consist of other
    instructions than were linked.
    """
    addresses = sorted({address for function in code for address in function.places})
    times = dict.fromkeys(addresses, 0)
    for block, count in run.blocks:
        within = addresses[bisect_left(addresses, block.address) : bisect_left(addresses, block.address + block.size)]
        for address in within:
            times[address] += max(1, round(count / block.instructions))
    return tuple(_change(function, times, run) for function in code)


def _change(code: ChangedCode, times: dict[int, int], run: Ran) -> Change:
    if not code.places:
        count = int(run.functions.get(code.function, 0) > 0)
        return Change(function=code.function, instructions=0, times=count, boots=code.boots)
    return Change(
        function=code.function,
        instructions=len(code.places),
        times=max(times[address] for address in code.places),
        missed=tuple(name for address, name in sorted(code.places.items()) if not times[address]),
        slow=tuple(code.places[address] for address in sorted(code.slow) if not times[address]),
        boots=code.boots,
    )
