# SPDX-License-Identifier: MIT
"""Where a function of a kernel goes on after it has called another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rtgate.kernel import arm64
from rtgate.kernel.vmlinux import Vmlinux


def return_address(kernel: Vmlinux, function: str, callee: str) -> int | None:
    """Return the address behind a direct call, of several calls behind the last one; None if there is none."""
    symbol = next((symbol for symbol in kernel.symbols if symbol.name == function and symbol.function), None)
    if symbol is None:
        return None
    calls = _CALLS[kernel.arch](kernel.bytes_at(symbol.address, symbol.size), symbol.address)
    callee_address = kernel.address_of(callee)
    return max((behind for behind, target in calls if target == callee_address), default=None)


def _calls_arm64(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the address behind each direct call, and what it calls."""
    for offset in range(0, len(code), 4):
        word = int.from_bytes(code[offset : offset + 4], "little")
        if (distance := arm64.call_distance(word)) is not None:
            yield start + offset + 4, start + offset + 4 * distance


def _calls_x86(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Do the same, and for bytes within instructions that look like a call: those call no function's first byte."""
    for offset in range(len(code) - 4):
        if code[offset] == 0xE8:
            behind = start + offset + 5
            yield behind, behind + int.from_bytes(code[offset + 1 : offset + 5], "little", signed=True)


_CALLS: Mapping[str, Callable[[bytes, int], Iterator[tuple[int, int]]]] = {"arm64": _calls_arm64, "x86_64": _calls_x86}
