# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.handler_lengths import (
    HANDLER_SUM,
    HandlerContext,
    InterruptHandler,
    interrupt_handlers,
    merge_handlers,
)

from .conftest import DATA, unpacked

HARDIRQ, THREAD = HandlerContext
CAPTURED = "arm64-nvme-fio-randread"
MEASURED = range(189, 302)
"""The slices of that boot in which it measured."""


def kernel(names: dict[int, str]) -> Any:
    return SimpleNamespace(function_at=names.__getitem__)


def captured(slices: range) -> dict[tuple[str, HandlerContext], InterruptHandler]:
    names = json.loads((DATA / f"{CAPTURED}.names.json").read_text())
    by_address = {int(address, 16): name for address, name in names.items()}
    sums = np.frombuffer(unpacked(f"{CAPTURED}.handlers"), HANDLER_SUM)
    return {
        (handler.function, handler.context): handler
        for handler in interrupt_handlers(sums, slices, kernel(by_address), 1)
    }


def test_handlers_of_the_slices_are_added_up_by_name_and_context() -> None:
    sums = np.array(
        [
            (0x10, 1, 5, 5, 0, 0),  # before
            (0x10, 2, 30, 20, 1, 0),
            (0x10, 3, 60, 40, 2, 0),
            (0x20, 1, 7, 7, 2, 1),
            (0x30, 4, 50, 20, 2, 1),  # of the same name
            (0x20, 1, 2, 2, 2, 0),
            (0x10, 9, 90, 90, 3, 0),  # afterwards
        ],
        HANDLER_SUM,
    )
    assert interrupt_handlers(sums, range(1, 3), kernel({0x10: "timer", 0x20: "disk", 0x30: "disk"}), 7) == (
        InterruptHandler("disk", HARDIRQ, 1, 2, 2, 7),
        InterruptHandler("disk", THREAD, 5, 57, 20, 7),
        InterruptHandler("timer", HARDIRQ, 5, 90, 40, 7),
    )


HANDLERS = st.lists(
    st.builds(
        InterruptHandler,
        st.sampled_from(["timer", "disk"]),
        st.sampled_from(HandlerContext),
        st.integers(1, 99),
        st.integers(1, 9999),
        st.integers(1, 999),
        st.integers(1, 4),
    ),
    max_size=12,
)


@given(HANDLERS, HANDLERS)
def test_boots_are_added_up(first: list[InterruptHandler], second: list[InterruptHandler]) -> None:
    merged = merge_handlers([*merge_handlers(first), *merge_handlers(second)])
    both = [*first, *second]
    assert len({(handler.function, handler.context) for handler in merged}) == len(merged)
    assert sum(handler.count for handler in merged) == sum(handler.count for handler in both)
    assert sum(handler.total for handler in merged) == sum(handler.total for handler in both)
    for handler in merged:
        assert handler.longest == max(
            other.longest for other in both if (other.function, other.context) == (handler.function, handler.context)
        )


def test_handlers_of_a_real_boot_have_names_and_lengths() -> None:
    handlers = captured(MEASURED)
    assert {name: (each.count, each.longest) for name, each in handlers.items()} == {
        ("arch_timer_handler_virt", HARDIRQ): (4329, 3969),
        ("ipi_handler", HARDIRQ): (341, 101),
        ("irq_default_primary_handler", HARDIRQ): (6473, 2),
        ("nvme_irq", THREAD): (6449, 109_974),
    }
    for function in ("ipi_handler", "irq_default_primary_handler"):  # which did the same each time
        handler = handlers[function, HARDIRQ]
        assert handler.total == handler.count * handler.longest
    whole = captured(range(1 << 31))
    assert whole.keys() - handlers.keys() == {("aer_irq", THREAD), ("pciehp_isr", THREAD)}
    assert all(whole[name].count > handler.count for name, handler in handlers.items())


def test_nothing_was_called() -> None:
    assert interrupt_handlers(np.array([], HANDLER_SUM), range(9), kernel({}), 1) == ()
