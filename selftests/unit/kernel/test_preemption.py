# SPDX-License-Identifier: MIT
from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel import preemption as module
from rtgate.kernel.preemption import preemption
from rtgate.kernel.preemption_arm64 import offsets
from rtgate.kernel.preemption_places import Entry, Offsets

from .linked import kernel

# As in Debian's 6.12.117 with PREEMPT_RT.
COUNTS = """
asm(".globl irq_enter_rcu\\n.type irq_enter_rcu, %function\\nirq_enter_rcu:\\n"
    "mrs x0, sp_el0\\nldr w1, [x0, #8]\\nldr w2, [x0, #44]\\nadd w1, w1, #0x10, lsl #12\\nstr w1, [x0, #8]\\n"
    "tbz w2, #1, 1f\\nldr w1, [x0, #8]\\nldr w0, [x0, #1816]\\nand w1, w1, #0xff0000\\nand w0, w0, #0xff00\\n"
    "orr w0, w0, w1\\n1: ret\\n.size irq_enter_rcu, . - irq_enter_rcu");
"""
PLAIN = COUNTS.replace("ldr w0, [x0, #1816]\\nand w1, w1, #0xff0000\\nand w0, w0, #0xff00", "and w1, w1, #0xffff00")
TRACED = COUNTS.replace(
    "add w1, w1, #0x10, lsl #12\\nstr w1, [x0, #8]", "mov x3, x30\\nbl preempt_count_add\\nmov x30, x3\\nmrs x0, sp_el0"
)
VECTORS = """
asm(".balign 2048\\n.globl vectors\\nvectors: .space 2048\\n.globl __bp_harden_el1_vectors\\n"
    "__bp_harden_el1_vectors: .space 64\\n.globl __entry_text_end\\n__entry_text_end: ret");
"""
LOCKS = """
asm(".type _raw_spin_lock, %function\\n.globl __lock_text_start\\n__lock_text_start:\\n_raw_spin_lock: ret\\nret\\n"
    ".size _raw_spin_lock, . - _raw_spin_lock\\n.globl __lock_text_end\\n__lock_text_end: ret");
void preempt_count_add(int value) { asm volatile("nop"); }
"""
RT = 'void rt_spin_lock(void) { asm volatile("nop"); }'


def test_the_offsets_and_the_places_are_those_of_the_kernel(tmp_path: Path) -> None:
    found = kernel("arm64", tmp_path, "one", a=COUNTS, b=VECTORS, c=LOCKS, d=RT)
    kept = preemption(found)
    assert (kept.count, kept.current, kept.softirq) == (8, None, 1816)
    table = found.address_of("vectors")
    assert table is not None
    assert len(kept.entries) == 17  # a table of sixteen, and what is there of another one
    assert kept.entries[5] == Entry(table + 0x280, table + 0x284, True, "el1h_64_irq")
    assert kept.entries[8] == Entry(table + 0x400, table + 0x404, False, "el0t_64_sync")
    assert kept.entries[16] == Entry(table + 2048, table + 2052, False, "el1t_64_sync")
    locks = found.address_of("__lock_text_start")
    counts = found.address_of("preempt_count_add")
    assert {start for start, _ in kept.helpers} == {locks, counts}


def test_without_preempt_rt_the_preemption_count_has_the_softirqs(tmp_path: Path) -> None:
    assert preemption(kernel("arm64", tmp_path, "one", a=PLAIN, b=VECTORS)).softirq is None


def test_a_kernel_that_traces_preemption_counts_in_a_function_of_its_own(tmp_path: Path) -> None:
    kept = preemption(kernel("arm64", tmp_path, "one", a=TRACED, b=VECTORS, c=LOCKS, d=RT))
    assert (kept.count, kept.softirq) == (8, 1816)


@pytest.mark.parametrize(
    ("arch", "sources", "message"),
    [
        ("x86_64", "int main_part(void) { return 1; }", "has no function irq_enter_rcu"),
        ("arm64", VECTORS + "int main_part(void) { return 1; }", "has no function irq_enter_rcu"),
        ("arm64", PLAIN + VECTORS + RT, "does not show where"),
        ("arm64", "int irq_enter_rcu(void) { return 1; }" + VECTORS, "does not show where"),
        ("arm64", COUNTS, "no table of vectors"),
    ],
)
def test_a_kernel_that_is_not_understood_is_refused(tmp_path: Path, arch: str, sources: str, message: str) -> None:
    found = kernel(arch, tmp_path, "one", a=sources)
    with pytest.raises(ConfigError, match=message):
        preemption(found)


REGISTERS = st.integers(0, 30)
OFFSETS = st.integers(0, 0xFFF).map(lambda number: 4 * number)


@given(current=REGISTERS, value=REGISTERS, other=REGISTERS, count=OFFSETS, softirq=OFFSETS)
def test_any_registers_and_offsets_are_read(current: int, value: int, other: int, count: int, softirq: int) -> None:
    assume(len({current, value, other}) == 3)
    assume(count != softirq)
    words = [
        0xD5384100 | current,
        0xB9400000 | count << 8 | current << 5 | value,
        0x11404000 | value << 5 | value,
        0xB9000000 | softirq << 8 | other << 5 | value,  # a store elsewhere
        0xB9000000 | count << 8 | current << 5 | value,
        0xB9400000 | softirq << 8 | current << 5 | other,
        0x12181C00 | other << 5 | other,
    ]
    code = struct.pack("<7I", *words)
    assert offsets(code, 0) == Offsets(count=count, softirq=softirq)
    assert offsets(code[4:], 0) == Offsets()


# As in Debian's 6.12.117 with PREEMPT_RT.
X86 = """
asm(".globl irq_enter_rcu\\n.type irq_enter_rcu, @function\\nirq_enter_rcu:\\n"
    "mov %gs:pcpu_hot(%rip), %rax\\naddl $0x10000, %gs:pcpu_hot+8(%rip)\\ntestb $2, 0x2c(%rax)\\nje 1f\\n"
    "mov 0x770(%rax), %eax\\nmov %gs:pcpu_hot+8(%rip), %edx\\nand $0xff00, %eax\\nand $0xff0000, %edx\\n"
    "or %edx, %eax\\n1: ret\\n.size irq_enter_rcu, . - irq_enter_rcu");
"""
HOT = """
asm(".globl pcpu_hot\\n.set pcpu_hot, 0x2a500");
"""
STUBS = """
asm(".globl irq_entries_start\\nirq_entries_start: .byte 0x6a, 0x20\\nnop\\n.balign 8, 0xcc\\n.byte 0x6a, 0x21\\n"
    ".balign 16, 0x90\\n"
    ".globl asm_exc_divide_error\\nasm_exc_divide_error: ret\\n"
    ".globl asm_common_interrupt\\nasm_common_interrupt: ret\\n"
    ".globl asm_sysvec_irq_work\\nasm_sysvec_irq_work: ret");
"""


@pytest.mark.parametrize(
    ("code", "softirq"),
    [
        (X86, 0x770),
        (X86.replace("%rax", "%r12").replace("%eax", "%r12d"), 0x770),
        (X86.replace("%gs:pcpu_hot(%rip)", "%gs:pcpu_hot").replace("%gs:pcpu_hot+8(%rip)", "%gs:pcpu_hot+8"), 0x770),
        # Without PREEMPT_RT.
        (X86.replace("mov 0x770(%rax), %eax\\n", "").replace("and $0xff00, %eax\\n", ""), None),
    ],
)
def test_x86_keeps_both_behind_gs(tmp_path: Path, code: str, softirq: int | None) -> None:
    found = kernel("x86_64", tmp_path, "one", a=code, b=STUBS, c=HOT)
    kept = preemption(found)
    assert (kept.count, kept.current, kept.softirq) == (0x2A508, 0x2A500, softirq)
    stubs, divide, work = (
        found.address_of(name) for name in ("irq_entries_start", "asm_exc_divide_error", "asm_sysvec_irq_work")
    )
    assert stubs is not None
    assert divide is not None
    assert work is not None
    # Each of two stubs, not what is behind them; what they jump to is not an entry.
    assert kept.entries == (
        Entry(stubs, stubs + 1, True),
        Entry(stubs + 8, stubs + 9, True),
        Entry(divide, divide + 1, False),
        Entry(work, work + 1, True),
    )


def test_an_x86_kernel_that_counts_otherwise_is_refused(tmp_path: Path) -> None:
    otherwise = X86.replace("addl $0x10000", "addl $0x20000")
    with pytest.raises(ConfigError, match="does not show where"):
        preemption(kernel("x86_64", tmp_path, "one", a=otherwise, b=STUBS, c=HOT))
    with pytest.raises(ConfigError, match="no stubs of interrupts at irq_entries_start"):
        preemption(kernel("x86_64", tmp_path, "two", a=X86, c=HOT))


def test_sections_are_followed_on_each_architecture_whose_code_is_read() -> None:
    arches = {name for name, arch in ARCHES.items() if arch.code}
    assert module._OFFSETS.keys() == module._ENTRIES.keys() == arches
