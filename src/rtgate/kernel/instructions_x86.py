# SPDX-License-Identifier: MIT
"""The instructions of an x86-64 function, ready to be compared; where they begin says the library Capstone.

Code is read as it was linked. What the kernel patches while it boots (alternatives, static calls, ftrace's calls, lock
prefixes) is linked alike in both kernels. A jump label is known by its key, as a jump over two bytes in one kernel may
be one over five bytes in the other.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from itertools import islice

from capstone import CS_ARCH_X86, CS_GRP_CALL, CS_GRP_JUMP, CS_MODE_64, Cs, CsInsn
from capstone.x86 import (
    X86_INS_ADD,
    X86_INS_AND,
    X86_INS_MOV,
    X86_INS_NOP,
    X86_INS_SUB,
    X86_OP_IMM,
    X86_OP_MEM,
    X86_OP_REG,
    X86_REG_GS,
    X86_REG_INVALID,
    X86_REG_RBP,
    X86_REG_RIP,
    X86_REG_RSP,
    X86Op,
)

from rtgate.kernel.instruction import Instruction, Reader
from rtgate.kernel.jump_labels import jump_labels
from rtgate.kernel.relocation import Meaning, target
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

_KERNEL = 0xFFFF_FFFF_8000_0000  # the kernel's image lies from here on
_WORD = 1 << 64
_PROLOGUE = 8  # instructions within which a function sets up its frame pointer
_RETURN = "__x86_return_thunk"
_THUNK = "__x86_indirect_"  # calls and jumps through a register; the register follows
_REPEATS = re.compile(r"rep\w* (?!ret)")  # `repz ret` is a return, written so for AMD's branch predictor
_SPECIAL = re.compile(r"[cd]r\d+|[c-gs]s|[re]?sp")  # registers that no compiler chooses


def reader(kernel: Vmlinux) -> Reader:
    """Return what reads the functions of an x86-64 kernel."""
    disassembler = Cs(CS_ARCH_X86, CS_MODE_64)
    disassembler.detail = True
    disassembler.skipdata = True  # what it does not know is a byte of data each

    def read(symbol: Symbol) -> list[Instruction]:
        insns = list(disassembler.disasm(kernel.bytes_at(symbol.address, symbol.size), symbol.address))
        function = _Function(kernel, symbol, insns)
        return [function.instruction(insn) for insn in insns]

    return read


class _Function:
    """One function while its instructions are made ready."""

    def __init__(self, kernel: Vmlinux, symbol: Symbol, insns: Sequence[CsInsn]) -> None:
        self._kernel = kernel
        self._symbol = symbol
        self._labels = {label.address: label for label in jump_labels(kernel, symbol)}
        self._stack = {X86_REG_RSP}
        if any(_sets_frame(insn) for insn in islice(insns, _PROLOGUE)):
            self._stack.add(X86_REG_RBP)

    def instruction(self, insn: CsInsn) -> Instruction:
        """Return an instruction, ready to be compared."""
        label = self._labels.get(insn.address)
        if label is not None:
            return _instruction(insn, ("jump label", target(self._kernel, label.key), label.flags))
        if not insn.id:
            return _instruction(insn, ("data", bytes(insn.bytes)))
        if insn.id == X86_INS_NOP or bytes(insn.bytes) == b"\x66\x90":
            # A single byte is written by hand, or room for alternatives; longer ones align loops.
            return Instruction(
                address=insn.address, strict=("nop", insn.size), loose=("nop",) if insn.size == 1 else None
            )
        direct = insn.operands[0].imm if insn.operands and insn.operands[0].type == X86_OP_IMM else None
        if direct is not None and (insn.group(CS_GRP_CALL) or insn.group(CS_GRP_JUMP)):
            return self._direct(insn, direct % _WORD)
        return Instruction(
            address=insn.address,
            strict=(insn.mnemonic, *(self._operand(insn, operand, loose=False) for operand in insn.operands)),
            loose=(insn.mnemonic, *(self._operand(insn, operand, loose=True) for operand in insn.operands)),
            call="" if insn.group(CS_GRP_CALL) else None,
            repeats=bool(_REPEATS.match(insn.mnemonic)),
        )

    def _direct(self, insn: CsInsn, there: int) -> Instruction:
        """Return a call or a jump to a known address."""
        calls = insn.group(CS_GRP_CALL)
        destination = target(self._kernel, there)
        name = str(destination[0])
        if name == _RETURN:
            return _instruction(insn, ("ret",))
        if not calls and name == plain_name(self._symbol.name):
            # Also into a piece of it that stands elsewhere (`f.cold`).
            back = self._symbol.address <= there < insn.address
            return Instruction(address=insn.address, strict=(insn.mnemonic,), loose=(insn.mnemonic,), jumps_back=back)
        if name.startswith(_THUNK):
            loose: Hashable = (insn.mnemonic, _THUNK)
            return Instruction(
                address=insn.address, strict=(insn.mnemonic, name), loose=loose, call="" if calls else None
            )
        token = (insn.mnemonic, destination)
        return Instruction(address=insn.address, strict=token, loose=token, call=name if calls else None)

    def _operand(self, insn: CsInsn, operand: X86Op, *, loose: bool) -> Hashable:
        if operand.type == X86_OP_REG:
            name = insn.reg_name(operand.reg)
            return ("register", operand.size) if loose and not _SPECIAL.fullmatch(name) else name
        if operand.type == X86_OP_MEM:
            return self._memory(insn, operand, loose=loose)
        if loose and insn.id in {X86_INS_ADD, X86_INS_SUB, X86_INS_AND} and insn.operands[0].reg == X86_REG_RSP:
            return "frame"
        return self._symbol_of(operand.imm) or operand.imm

    def _memory(self, insn: CsInsn, operand: X86Op, *, loose: bool) -> Hashable:
        at = operand.mem
        names = tuple(insn.reg_name(number) for number in (at.segment, at.base, at.index) if number != X86_REG_INVALID)
        there: Hashable
        if at.base == X86_REG_RIP:
            there = target(self._kernel, insn.address + insn.size + at.disp)
        elif at.segment == X86_REG_GS and at.base == X86_REG_INVALID:
            there = target(self._kernel, at.disp)
        elif loose and at.base in self._stack:
            return ("stack", operand.size)
        else:
            there = self._symbol_of(at.disp) or at.disp
        if not loose:
            return (names, at.scale, there, operand.size)
        bases = tuple(number != X86_REG_INVALID for number in (at.base, at.index))
        return (at.segment, bases, at.scale, there, operand.size)

    def _symbol_of(self, value: int) -> Meaning | None:
        """Return what a number means that is an address of the kernel; None if it is another number."""
        address = value % _WORD
        if address < _KERNEL or self._kernel.section_at(address) is None:
            return None
        return target(self._kernel, address)


def _instruction(insn: CsInsn, token: Hashable) -> Instruction:
    return Instruction(address=insn.address, strict=token, loose=token)


def _sets_frame(insn: CsInsn) -> bool:
    return bool(insn.id == X86_INS_MOV and [operand.reg for operand in insn.operands] == [X86_REG_RBP, X86_REG_RSP])
