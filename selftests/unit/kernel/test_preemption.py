# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.kernel import preemption as module
from rtgate.kernel.preemption import preemption

from .linked import kernel

# As in Debian's 6.12.117 with PREEMPT_RT.
COUNTS = """
asm(".globl irq_enter_rcu\\n.type irq_enter_rcu, %function\\nirq_enter_rcu:\\n"
    "mrs x0, sp_el0\\nldr w1, [x0, #8]\\nldr w2, [x0, #44]\\nadd w1, w1, #0x10, lsl #12\\nstr w1, [x0, #8]\\n"
    "tbz w2, #1, 1f\\nldr w1, [x0, #8]\\nldr w0, [x0, #1816]\\nand w1, w1, #0xff0000\\nand w0, w0, #0xff00\\n"
    "orr w0, w0, w1\\n1: ret\\n.size irq_enter_rcu, . - irq_enter_rcu");
"""
PLAIN = COUNTS.replace("ldr w0, [x0, #1816]\\nand w1, w1, #0xff0000\\nand w0, w0, #0xff00", "and w1, w1, #0xffff00")
VECTORS = """
asm(".balign 2048\\n.globl vectors\\nvectors: .space 2048\\n.globl __bp_harden_el1_vectors\\n"
    "__bp_harden_el1_vectors: .space 64\\n.globl __entry_text_end\\n__entry_text_end: ret");
"""
LOCKS = """
asm(".globl __lock_text_start\\n__lock_text_start: ret\\nret\\n.globl __lock_text_end\\n__lock_text_end: ret");
void preempt_count_add(int value) { asm volatile("nop"); }
"""
RT = 'void rt_spin_lock(void) { asm volatile("nop"); }'


def test_the_offsets_and_the_places_are_those_of_the_kernel(tmp_path: Path) -> None:
    found = kernel("arm64", tmp_path, "one", a=COUNTS, b=VECTORS, c=LOCKS, d=RT)
    kept = preemption(found)
    assert (kept.count, kept.softirq) == (8, 1816)
    table = found.address_of("vectors")
    assert table is not None
    assert kept.vectors == ((table, table + 2048), (table + 2048, table + 2048 + 64))
    locks = found.address_of("__lock_text_start")
    counts = found.address_of("preempt_count_add")
    assert {start for start, _ in kept.helpers} == {locks, counts}
    assert kept.helpers[0][1] - kept.helpers[0][0] == 8


def test_without_preempt_rt_the_preemption_count_has_the_softirqs(tmp_path: Path) -> None:
    assert preemption(kernel("arm64", tmp_path, "one", a=PLAIN, b=VECTORS)).softirq is None


@pytest.mark.parametrize(
    ("arch", "sources", "message"),
    [
        ("x86_64", "int x;", "arm64 only"),
        ("arm64", VECTORS + "int main_part(void) { return 1; }", "has no function irq_enter_rcu"),
        ("arm64", PLAIN + VECTORS + RT, "does not show where"),
        ("arm64", "int irq_enter_rcu(void) { return 1; }" + VECTORS, "does not show where"),
        ("arm64", COUNTS, "no table of vectors"),
    ],
)
def test_a_kernel_that_is_not_understood_is_refused(tmp_path: Path, arch: str, sources: str, message: str) -> None:
    if arch == "x86_64":
        sources = "int main_part(void) { return 1; }"
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
    assert module._offsets(tuple(words)) == (count, softirq)
    assert module._offsets(tuple(words[1:])) == (None, None)
