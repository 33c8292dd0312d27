# SPDX-License-Identifier: MIT
"""The table of interrupts' handlers of `rtgate sections`."""

from __future__ import annotations

from collections.abc import Sequence

from rtgate.explain.handler_lengths import InterruptHandler
from rtgate.explain.trace import INSTRUCTION_NS
from rtgate.report.listing import show_listing


def show_handlers(handlers: Sequence[InterruptHandler], baseline: Sequence[InterruptHandler] = ()) -> None:
    """Print how long handlers ran, the longest first; with a baseline, how long they did there."""
    if not handlers:
        return
    before = {(handler.function, handler.context): handler.longest for handler in baseline}
    numbers = ("times", "mean", *(("baseline",) if baseline else ()), "longest", "virtual us")
    rows = []
    for handler in sorted(handlers, key=lambda handler: -handler.longest):
        old = before.get((handler.function, handler.context))
        rows.append(
            (
                handler.function,
                handler.context,
                f"{handler.count:,}",
                f"{handler.total / handler.count:,.0f}",
                *(("-" if old is None else f"{old:,}",) if baseline else ()),
                f"{handler.longest:,}",
                f"{handler.longest * INSTRUCTION_NS / 1000:.1f}",
            )
        )
    print()
    show_listing(("interrupt handler", "context", *numbers), rows, right=numbers)
