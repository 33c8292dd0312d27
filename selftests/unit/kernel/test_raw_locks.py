# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.raw_locks import LockFunctions, lock_functions, lock_name

from .linked import kernel

SOURCE = """
void _raw_spin_lock(void *lock) { asm volatile("nop"); }
void _raw_spin_lock_irqsave(void *lock) { asm volatile("nop // 2"); }
int _raw_spin_trylock(void *lock) { asm volatile("nop // 3"); return 1; }
void rt_spin_lock(void *lock) { asm volatile("nop // 4"); }
unsigned long __per_cpu_offset[4] = {1};
static struct { long other; int lock; } timekeeper_lock = {1, 2};
asm(".section .data\\n.globl __per_cpu_start, __per_cpu_end\\n__per_cpu_start:\\n"
    ".globl runqueues\\n.type runqueues, %object\\n.size runqueues, 64\\nrunqueues: .space 64, 3\\n"
    "__per_cpu_end: .space 4096, 3\\n"
    ".globl behind\\n.type behind, %object\\n.size behind, 64\\nbehind: .space 64, 3\\n.text");
const long constant[4] = {1, 2, 3, 4};
void *first(void) { return &timekeeper_lock; }
"""


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_functions_that_lock_are_found_and_those_that_try_are_not(tmp_path: Path, arch: str) -> None:
    linked = kernel(arch, tmp_path, "one", a=SOURCE.replace("//", "#" if arch == "x86_64" else "//"))
    functions = lock_functions(linked)
    names = {linked.function_at(address) for address in functions.locks}
    assert names == {"_raw_spin_lock", "_raw_spin_lock_irqsave"}
    assert functions.offsets == (linked.address_of("__per_cpu_offset"), 4)


def test_a_lock_has_the_name_of_its_variable(tmp_path: Path) -> None:
    linked = kernel("arm64", tmp_path, "one", a=SOURCE)
    lock, queue, behind, constant, function = (
        linked.address_of(name) or 0 for name in ("timekeeper_lock", "runqueues", "behind", "constant", "rt_spin_lock")
    )
    first, second = 0xFFFFFF8010000000 - queue, 0xFFFFFF8010001000 - queue + 64  # where CPUs have their own
    offsets = (first % (1 << 64), second % (1 << 64))
    assert lock_name(linked, lock + 8, offsets) == "timekeeper_lock"
    assert lock_name(linked, queue + first + 20, offsets) == "runqueues"
    assert lock_name(linked, queue + second + 20, offsets) == "runqueues"
    # The second CPU's is as far from the first one's as `behind` is from the image's copy.
    assert behind + first == queue + second
    assert lock_name(linked, queue, offsets) == ""  # the copy
    assert lock_name(linked, 0xFFFFFF8000123450, offsets) == ""
    assert (lock_name(linked, function, ()), lock_name(linked, constant, ())) == ("", "")


def test_a_kernel_for_one_cpu_has_neither(tmp_path: Path) -> None:
    assert lock_functions(kernel("arm64", tmp_path, "one", a="int first(void) { return 1; }")) == LockFunctions()
