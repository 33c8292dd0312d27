# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.alignment import changed_code
from rtgate.kernel.instruction import Instruction
from rtgate.kernel.instructions_x86 import reader
from rtgate.kernel.vmlinux import Vmlinux

from .linked import kernel

PADDING = "int more(int x) { return x + 1; } int counters[100] = {1};"


def assembled(tmp_path: Path, name: str, body: str, *, first: str = "", rest: str = "") -> Vmlinux:
    """Return a kernel with a function `f` of these instructions; `first` is linked before it."""
    text = f'asm(".globl f; .type f, @function; f: {body}; .size f, . - f; {rest}");'
    data = "int counter = 5; int other = 6;"
    return kernel("x86_64", tmp_path, name, **({"first": first} if first else {}), f=text, data=data)


def instructions(found: Vmlinux, name: str = "f") -> list[Instruction]:
    (symbol,) = (symbol for symbol in found.symbols if symbol.name == name)
    return list(reader(found)(symbol))


def loose(found: Vmlinux) -> list[object]:
    return [one.loose for one in instructions(found) if one.loose is not None]


def strict(found: Vmlinux) -> list[object]:
    return [one.strict for one in instructions(found)]


@pytest.mark.parametrize(
    "body",
    [
        "movl counter(%rip), %eax; ret",
        "movq $counter, %rdi; call g; ret; .globl g; g:",
        "movl counter(,%rax,4), %ecx; ret",
        "movabsq $counter, %rax; ret",
        "jmp more",
    ],
)
def test_an_address_that_moved_is_the_same(tmp_path: Path, body: str) -> None:
    more = 'asm(".globl more; .type more, @function; more: ret; .size more, 1");'
    one = assembled(tmp_path, "one", body, first=more)
    two = assembled(tmp_path, "two", body, first=f"{PADDING.replace('more', 'others')}{more}")
    assert strict(one) == strict(two)
    assert [each.address for each in instructions(one)] != [each.address for each in instructions(two)]


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ("movl counter(%rip), %eax; ret", "movl other(%rip), %eax; ret"),
        ("movq $counter, %rdi; ret", "movq $counter + 1, %rdi; ret"),
        ("je 1f; nop; 1: ret", "jne 1f; nop; 1: ret"),
        ("addq $8, %rdi; ret", "addq $16, %rdi; ret"),
        ("movl 8(%rdi), %eax; ret", "movl 16(%rdi), %eax; ret"),
        ("movl %gs:8(%rip), %eax; ret", "movl 8(%rip), %eax; ret"),
        ("movl %eax, %ecx; ret", "movq %rax, %rcx; ret"),
        ("movq %cr2, %rax; ret", "movq %cr3, %rax; ret"),
        ("nop; ret", "nop; nop; ret"),
        ("cli; ret", "sti; ret"),
    ],
)
def test_another_effect_is_a_difference(tmp_path: Path, body: str, other: str) -> None:
    assert loose(assembled(tmp_path, "one", body)) != loose(assembled(tmp_path, "two", other))


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ("movl 8(%rdi), %eax; ret", "movl 8(%rsi), %ecx; ret"),
        ("movl $3, %edi; ret", "movl $3, %esi; ret"),
        ("movl 8(%rsp), %eax; ret", "movl 24(%rsp), %eax; ret"),
        ("subq $24, %rsp; ret", "subq $200, %rsp; ret"),
        ("movq %rsp, %rbp; movl -8(%rbp), %eax; ret", "movq %rsp, %rbp; movl -24(%rbp), %eax; ret"),
        ("je 1f; nop; 1: ret", "je 1f; nop; .nops 9; 1: ret"),  # only aligned otherwise
        ("jmp 1f; .skip 9, 0x90; 1: ret", "jmp 1f; .skip 9, 0x90; 1: .nops 5; ret"),
        ("call __x86_indirect_thunk_rax; __x86_indirect_thunk_rax: __x86_indirect_thunk_rcx: ret",) * 2,
    ],
)
def test_registers_the_stack_and_alignment_are_the_compilers(tmp_path: Path, body: str, other: str) -> None:
    assert loose(assembled(tmp_path, "one", body)) == loose(assembled(tmp_path, "two", other))


def test_without_a_frame_pointer_rbp_is_a_register_like_others(tmp_path: Path) -> None:
    one = assembled(tmp_path, "one", "movl 8(%rbp), %eax; ret")
    assert loose(one) != loose(assembled(tmp_path, "two", "movl 16(%rbp), %eax; ret"))


def test_a_jump_is_the_same_in_two_bytes_and_in_six(tmp_path: Path) -> None:
    near = assembled(tmp_path, "one", "je 1f; .skip 9, 0x90; 1: ret")
    far = assembled(tmp_path, "two", "je.d32 1f; .skip 9, 0x90; 1: ret")
    assert strict(near) == strict(far)


def test_calls_have_names_and_jumps_back_are_known(tmp_path: Path) -> None:
    body = "1: call g; call *%rax; jne 1b; je 2f; call __x86_indirect_thunk_rax; 2: jmp g"
    found = instructions(assembled(tmp_path, "one", body, rest=".globl g; g: __x86_indirect_thunk_rax: ret"))
    calls = [one.call for one in found]
    assert calls == ["g", "", None, None, calls[4], None]
    assert calls[4] is not None
    assert [one.jumps_back for one in found] == [False, False, True, False, False, False]


def test_a_return_through_a_thunk_is_a_return(tmp_path: Path) -> None:
    thunk = 'asm(".globl __x86_return_thunk; .type __x86_return_thunk, @function; __x86_return_thunk: ret; '
    first = f'{thunk}.size __x86_return_thunk, 1");'
    (one,) = strict(assembled(tmp_path, "one", "jmp __x86_return_thunk", first=first))
    assert one == ("ret",)


def test_a_jump_label_is_known_by_its_key_whatever_its_length(tmp_path: Path) -> None:
    table = (
        ".section .data; .globl __start___jump_table, __stop___jump_table; __start___jump_table: "
        ".long 1b - ., 2f - .; .quad {key} + 1 - .; __stop___jump_table: .text; 2: ret"
    )
    kernels = [
        assembled(tmp_path, name, f"1: {nop}; ret", rest=table.format(key=key))
        for name, nop, key in (
            ("one", ".nops 2", "counter"),
            ("two", ".nops 5", "counter"),
            ("three", ".nops 5", "other"),
        )
    ]
    one, two, three = (loose(each) for each in kernels)
    assert one == two
    assert one != three


def test_bytes_that_are_no_instruction_are_data(tmp_path: Path) -> None:
    found = instructions(assembled(tmp_path, "one", ".byte 0x06; nop; ret"))
    assert [one.strict for one in found] == [("data", b"\x06"), ("nop", 1), ("ret",)]


def test_a_changed_number_is_one_changed_instruction(tmp_path: Path) -> None:
    source = "int f(int x) { return x > 5 ? x * 3 + %s : 1; }"
    one = kernel("x86_64", tmp_path, "one", a=source % 77)
    two = kernel("x86_64", tmp_path, "two", padding=PADDING, a=source % 99)
    (found,) = changed_code(one, two, {"f"})
    assert len(found.places) == 1
    assert not found.slow
