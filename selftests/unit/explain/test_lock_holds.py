# SPDX-License-Identifier: MIT
from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtgate.explain.lock_holds import HOLD, RawLock, merge_locks, raw_locks
from rtgate.kernel.vmlinux import Symbol


class Kernel:
    """Two variables, of which each CPU has the second, and functions of 16 bytes."""

    sections: ClassVar[dict[int, object]] = {1: SimpleNamespace(writable=True)}

    @staticmethod
    def address_of(name: str) -> int | None:
        return {"__per_cpu_start": 0x2000, "__per_cpu_end": 0x3000}.get(name)

    @staticmethod
    def resolve(address: int) -> tuple[Symbol, int] | None:
        names = {0x1000: "timekeeper_lock", 0x2000: "runqueues"}
        start = address & ~0xFFF
        return (Symbol(names[start], start, 64, False, True, True, "", 1), 0) if start in names else None

    @staticmethod
    def function_at(address: int) -> str:
        return f"f{address >> 4:x}"


def holds(*records: tuple[int, int, int, int, int, int]) -> Any:
    return np.array([(*record, 0) for record in records], HOLD)


OFFSETS = np.array([(0x70000,), (0x80000,)], [("offset", "<u8")])
kernel: Any = Kernel()


def test_holds_of_the_slices_are_added_up_by_name() -> None:
    found = raw_locks(
        holds(
            (0x1000, 0x14, 1, 5, 5, 0),  # before
            (0x1000, 0x14, 2, 30, 20, 1),
            (0x1008, 0x24, 3, 60, 40, 2),  # in the same variable
            (0x72000, 0x34, 4, 400, 100, 1),  # of the first CPU
            (0x82000, 0x44, 1, 300, 300, 2),  # and of the second
            (0x99000, 0x54, 2, 8, 4, 1),
            (0x99800, 0x54, 1, 6, 6, 2),  # another one, locked by the same function
            (0x99000, 0x64, 1, 5, 5, 2),  # the first one, locked by another function
            (0x99000, 0x54, 9, 9, 1, 3),  # afterwards
        ),
        OFFSETS,
        range(1, 3),
        kernel,
        7,
    )
    assert found == (
        RawLock("", "f5", 3, 14, 6, 7),
        RawLock("", "f6", 1, 5, 5, 7),
        RawLock("runqueues", "f4", 5, 700, 300, 7),
        RawLock("timekeeper_lock", "f2", 5, 90, 40, 7),
    )
    assert [str(lock) for lock in found] == [
        "allocated, locked by f5",
        "allocated, locked by f6",
        "runqueues",
        "timekeeper_lock",
    ]


LOCKS = st.lists(
    st.builds(
        RawLock,
        st.sampled_from(["", "runqueues", "tasklist_lock"]),
        st.sampled_from(["f", "g"]),
        st.integers(1, 99),
        st.integers(1, 9999),
        st.integers(1, 999),
        st.integers(1, 4),
    ),
    max_size=12,
)


@given(LOCKS, LOCKS)
def test_boots_are_added_up(first: list[RawLock], second: list[RawLock]) -> None:
    merged = merge_locks([*merge_locks(first), *merge_locks(second)])
    assert {str(lock) for lock in merged} == {str(lock) for lock in [*first, *second]}
    assert sum(lock.count for lock in merged) == sum(lock.count for lock in [*first, *second])
    assert sum(lock.total for lock in merged) == sum(lock.total for lock in [*first, *second])
    for lock in merged:
        assert lock.longest == max(other.longest for other in [*first, *second] if str(other) == str(lock))


def test_nothing_was_locked() -> None:
    assert raw_locks(holds(), OFFSETS, range(9), kernel, 1) == ()
