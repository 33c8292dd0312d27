# SPDX-License-Identifier: MIT
"""Where an x86-64 kernel keeps the preemption count, and where its exceptions begin.

Both the count and the task that runs are variables of the CPU, behind gs (arch/x86/include/asm/preempt.h, current.h).
"""

from __future__ import annotations

from collections.abc import Iterator

from capstone import CS_ARCH_X86, CS_MODE_64, Cs, CsInsn
from capstone.x86 import (
    X86_INS_ADD,
    X86_INS_AND,
    X86_INS_CMP,
    X86_INS_MOV,
    X86_INS_TEST,
    X86_OP_IMM,
    X86_OP_MEM,
    X86_OP_REG,
    X86_REG_GS,
    X86_REG_INVALID,
    X86_REG_RIP,
    X86Op,
)

from rtgate.errors import ConfigError
from rtgate.kernel.preemption_places import Entry, Offsets
from rtgate.kernel.vmlinux import Vmlinux

_HARDIRQ_OFFSET, _SOFTIRQ_MASK = 0x10000, 0xFF00  # include/linux/preempt.h
_WORD = 1 << 64
_POINTER = 8
# Interrupts enter by stubs that only push their number, one for each vector (arch/x86/include/asm/idtentry.h).
_STUBS, _AFTER_STUBS = "irq_entries_start", "asm_exc_divide_error"
_STUB = (b"\x6a", b"\xf3\x0f\x1e\xfa")  # push, or endbr64 before it
_SIZES = (8, 16)  # of a stub: without endbr64, and with it
_EXCEPTION, _INTERRUPT = "asm_exc_", "asm_sysvec_"


def offsets(code: bytes, address: int) -> Offsets:
    """Return the addresses behind gs, and the offset in the task, that the code of `irq_enter_rcu()` shows."""
    disassembler = Cs(CS_ARCH_X86, CS_MODE_64)
    disassembler.detail = True
    current = count = softirq = None
    task, loads = "", dict[str, int]()
    for insn in disassembler.disasm(code, address):
        if len(insn.operands) != 2:
            continue
        into, source = insn.operands
        behind = next((_behind_gs(insn, operand) for operand in (into, source) if operand.type == X86_OP_MEM), None)
        if insn.id == X86_INS_ADD and behind is not None and _number(source) == _HARDIRQ_OFFSET and count is None:
            count = behind
        elif insn.id == X86_INS_MOV and into.type == X86_OP_REG:
            register = _register(insn, into)
            if behind is not None and into.size == _POINTER and current is None:
                current, task = behind, register
            elif source.type == X86_OP_MEM and task and _base(insn, source) == task:
                loads[register] = source.mem.disp
            else:
                loads.pop(register, None)
        elif insn.id == X86_INS_AND and _number(source) == _SOFTIRQ_MASK and into.type == X86_OP_REG:
            softirq = loads.get(_register(insn, into), softirq)
        elif into.type == X86_OP_REG and insn.id not in {X86_INS_CMP, X86_INS_TEST}:
            loads.pop(_register(insn, into), None)
    return Offsets(count=count if current is not None else None, current=current, softirq=softirq)


def _behind_gs(instruction: CsInsn, operand: X86Op) -> int | None:
    """Return the address of an operand behind gs that names no register but the instruction's own."""
    memory = operand.mem
    if memory.segment != X86_REG_GS or memory.index != X86_REG_INVALID:
        return None
    if memory.base == X86_REG_RIP:
        return int(instruction.address + instruction.size + memory.disp) % _WORD
    return int(memory.disp) % _WORD if memory.base == X86_REG_INVALID else None


def _number(operand: X86Op) -> int | None:
    return int(operand.imm) if operand.type == X86_OP_IMM else None


def _register(instruction: CsInsn, operand: X86Op) -> str:
    """Return a register without what tells its width: `eax` and `rax` are one."""
    return str(instruction.reg_name(operand.reg)).lstrip("er").rstrip("d")


def _base(instruction: CsInsn, operand: X86Op) -> str:
    return str(instruction.reg_name(operand.mem.base)).lstrip("er") if operand.mem.base else ""


def entries(kernel: Vmlinux) -> Iterator[Entry]:
    """Yield the stubs of interrupts, and the entries of exceptions and of the kernel's own vectors.

    Raises:
        ConfigError: the stubs are not there, or not as expected.
    """
    yield from _stubs(kernel)
    for symbol in kernel.symbols:
        if symbol.name.startswith((_EXCEPTION, _INTERRUPT)):
            yield Entry(symbol.address, symbol.address + 1, interrupt=symbol.name.startswith(_INTERRUPT))


def _stubs(kernel: Vmlinux) -> Iterator[Entry]:
    first, end = kernel.address_of(_STUBS), kernel.address_of(_AFTER_STUBS)
    code = kernel.bytes_at(first, end - first) if first is not None and end is not None else b""
    size = next((size for size in _SIZES if code[size:].startswith(_STUB)), 0)
    if first is None or not size or not code.startswith(_STUB):
        raise ConfigError(f"the kernel has no stubs of interrupts at {_STUBS}: critical sections cannot be followed")
    for at in range(0, len(code), size):
        if code[at:].startswith(_STUB):
            yield Entry(first + at, first + at + 1, interrupt=True)
