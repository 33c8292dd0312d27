# SPDX-License-Identifier: MIT
"""The instructions of an arm64 function, ready to be compared."""

from __future__ import annotations

from collections.abc import Hashable

from rtgate.kernel import arm64
from rtgate.kernel.instruction import Instruction, Reader
from rtgate.kernel.jump_labels import JumpLabel, jump_labels
from rtgate.kernel.relocation import Code, Token, target
from rtgate.kernel.vmlinux import Symbol, Vmlinux

_SIZE = 4  # bytes


def reader(kernel: Vmlinux) -> Reader:
    """Return what reads the functions of an arm64 kernel."""

    def read(symbol: Symbol) -> list[Instruction]:
        code = Code(kernel, symbol)
        labels = {label.address: label for label in jump_labels(kernel, symbol)}
        addresses = range(symbol.address, symbol.address + _SIZE * len(code.words), _SIZE)
        return [
            _jump_label(kernel, labels[address]) if address in labels else _instruction(code, number, address)
            for number, address in enumerate(addresses)
        ]

    return read


def _jump_label(kernel: Vmlinux, label: JumpLabel) -> Instruction:
    """Return an instruction that is patched: known by its key."""
    token = ("jump label", target(kernel, label.key), label.flags)
    return Instruction(address=label.address, strict=token, loose=token)


def _instruction(code: Code, number: int, address: int) -> Instruction:
    word, token = code.words[number], code.tokens[number]
    distance = arm64.direct_branch(word)
    return Instruction(
        address=address,
        strict=_strict(word, token),
        loose=_loose(word, token),
        call=_call_target(token) if arm64.calls(word) else None,
        jumps_back=distance is not None and distance < 0 and number + distance >= 0,
    )


def _call_target(token: Token) -> str:
    return str(token[1]) if isinstance(token, tuple) and len(token) > 1 else ""


def _strict(word: int, token: Token) -> Hashable:
    """Return what an instruction does, wherever in the function it jumps to."""
    if isinstance(token, tuple) or arm64.direct_branch(word) is None:
        return token
    if word >> 26 == 0x05:  # b
        return ("b",)
    if word >> 24 & 0x7E == 0x36:  # tbz, tbnz
        return ("branch", word & ~(0x3FFF << 5))
    return ("branch", word & ~(0x7FFFF << 5))


def _loose(word: int, token: Token) -> Hashable:
    """Return the same, whatever registers it uses and wherever on the stack it keeps something."""
    strict = _strict(word, token)
    if isinstance(strict, tuple):
        if strict[0] == "branch":
            return ("branch", word & _of_branch(word))
        if arm64.adr_address(word, 0) is not None or arm64.page_of(word, 0) is not None:
            return (strict[0], *strict[2:])
        if word >> 26 & 31 == 0x05:  # b, bl
            return strict
        return (word & ~0x3FFFFF, *strict[1:])
    return _without_registers(word)


def _of_branch(word: int) -> int:
    """Return the bits of a branch that say on what it depends: the condition, or the number of the bit."""
    if word >> 24 == 0x54:  # b.cond
        return 0xFF00000F
    return 0xFFF80000 if word >> 24 & 0x7E == 0x36 else 0xFF000000


def _without_registers(word: int) -> int:
    """Return an instruction with its registers as zeros, and with its offset if that is one into the stack."""
    on_stack = word >> 5 & 31 == 31
    if word >> 27 & 1 and not word >> 25 & 1:
        return word & _of_memory(word, on_stack=on_stack)
    if word >> 24 & 0x1F == 0x11 and (on_stack or word & 31 == 31):  # add, sub: the stack pointer
        return word & 0xFF000000
    if word >> 25 & 7 == 5:  # of registers
        return word & 0xFFE0FC00
    if word >> 26 & 7 == 4:  # of a number; movz and movk have no other register
        return word & (0xFFFFFFE0 if word >> 23 & 0x3F == 0x25 else 0xFFFFFC00)
    return word


def _of_memory(word: int, *, on_stack: bool) -> int:
    """Return the bits of a load or store that are no register."""
    if word >> 27 & 7 == 5:  # pairs
        return 0xFFC00000 if on_stack else 0xFFFF8000
    if word >> 24 & 0x3B == 0x39:  # at an unsigned offset
        return 0xFFC00000 if on_stack else 0xFFFFFC00
    return 0xFFE00C00 if word >> 21 & 1 else 0xFFFFFC00
