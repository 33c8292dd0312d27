# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.kernel.arm64 import page_of
from rtgate.kernel.differing import differing
from rtgate.kernel.pages import PageRegister, pages_before, update

from .linked import kernel

START = 0xFFFF_FFC0_8010_0000
PAGE = START + 0x5000
# As `aarch64-linux-gnu-as` makes them.
ADRP = 0x90000000 | 1 << 29 | 1 << 5  # adrp x0, . + 0x5000
RET, NOP, BL, BLR = 0xD65F03C0, 0xD503201F, 0x94000010, 0xD63F0020  # blr x1
OTHER = {
    "movz x0, #1": 0xD2800020,
    "ldr x0, [x1]": 0xF9400020,
    "ldp x1, x0, [sp]": 0xA94003E1,
    "ldp x1, x2, [x0], #16": 0xA8C10801,
    "ldr x1, [x0], #8": 0xF8408401,
    "ldr x1, [x0, #8]!": 0xF8408C01,
    "add x0, x0, #8": 0x91002000,
    "bl": BL,
    "blr x1": BLR,
    "mov x0, x1": 0xAA0103E0,
    "ldr x0, [sp, #8]": 0xF94007E0,
}
SAME = {
    "nop": NOP,
    "str x0, [x1]": 0xF9000020,
    "ldr x1, [x0, #8]": 0xF9400401,
    "cbz x0, .+4": 0xB4000020,
    "tbz w0, #0, .+4": 0x36000020,
    "b.eq .+4": 0x54000020,
    "cmp w0, w1": 0x6B01001F,
    "str x1, [sp, #8]": 0xF90007E1,
    "stp x1, x2, [sp]": 0xA9000BE1,
    "ldr x1, [x0, x2]": 0xF8626801,
    "ldur x1, [x0, #-8]": 0xF85F8001,
}
# As `aarch64-linux-gnu-as -march=armv8.5-a+lse+memtag` (binutils 2.40) makes them, and the registers that they write.
WRITTEN = {
    "ldp x1,x2,[x3]": (0xA9400861, {1, 2}),
    "ldp x1,x2,[x3],#16": (0xA8C10861, {1, 2, 3}),
    "ldp x1,x2,[x3,#16]!": (0xA9C10861, {1, 2, 3}),
    "ldpsw x1,x2,[x3]": (0x69400861, {1, 2}),
    "ldpsw x1,x2,[x3],#8": (0x68C10861, {1, 2, 3}),
    "ldpsw x1,x2,[x3,#8]!": (0x69C10861, {1, 2, 3}),
    "ldnp x1,x2,[x3]": (0xA8400861, {1, 2}),
    "stp x1,x2,[x3],#16": (0xA8810861, {3}),
    "stp x1,x2,[x3,#16]!": (0xA9810861, {3}),
    "stp q1,q2,[x3],#32": (0xAC810861, {3}),
    "stp q1,q2,[x3,#32]!": (0xAD810861, {3}),
    "ldp q1,q2,[x3],#32": (0xACC10861, {3}),
    "ldp q1,q2,[x3,#32]!": (0xADC10861, {3}),
    "ldp d1,d2,[x3],#32": (0x6CC20861, {3}),
    "ldr q1,[x3],#16": (0x3CC10461, {3}),
    "ldr q1,[x3,#16]!": (0x3CC10C61, {3}),
    "str q1,[x3],#16": (0x3C810461, {3}),
    "str q1,[x3,#16]!": (0x3C810C61, {3}),
    "ldr b1,[x3],#1": (0x3C401461, {3}),
    "str x1,[x3],#8": (0xF8008461, {3}),
    "str x1,[x3,#8]!": (0xF8008C61, {3}),
    "ldr x1,[x3],#8": (0xF8408461, {1, 3}),
    "ldrsw x1,[x3],#8": (0xB8808461, {1, 3}),
    "ldrsw x1,[x3,#8]": (0xB9800861, {1}),
    "ldrsb w1,[x3,#8]": (0x39C02061, {1}),
    "ldrsb x1,[x3,#8]": (0x39802061, {1}),
    "ldrsh w1,[x3,#8]": (0x79C01061, {1}),
    "ldrb w1,[x3,#8]": (0x39402061, {1}),
    "ldrh w1,[x3,#8]": (0x79401061, {1}),
    "ldr x1,[x3,x4]": (0xF8646861, {1}),
    "ldr x1,[x3,x4,lsl #3]": (0xF8647861, {1}),
    "ldr x1, .+8": (0x58000041, {1}),
    "ldrsw x1, .+8": (0x98000041, {1}),
    "ldraa x1,[x3]": (0xF8200461, {1}),
    "ldraa x1,[x3,#8]!": (0xF8201C61, {1, 3}),
    "ldrab x1,[x3,#8]!": (0xF8A01C61, {1, 3}),
    "ldxr x1,[x3]": (0xC85F7C61, {1}),
    "ldaxr x1,[x3]": (0xC85FFC61, {1}),
    "ldxp x1,x2,[x3]": (0xC87F0861, {1, 2}),
    "ldaxp x1,x2,[x3]": (0xC87F8861, {1, 2}),
    "stxr w1,x2,[x3]": (0xC8017C62, {1}),
    "stlxr w1,x2,[x3]": (0xC801FC62, {1}),
    "stxp w1,x2,x4,[x3]": (0xC8211062, {1}),
    "stlxp w1,x2,x4,[x3]": (0xC8219062, {1}),
    "ldar x1,[x3]": (0xC8DFFC61, {1}),
    "ldapr x1,[x3]": (0xF8BFC061, {1}),
    "ldapur x1,[x3,#8]": (0xD9408061, {1}),
    "cas x1,x2,[x3]": (0xC8A17C62, {1}),
    "casal w1,w2,[x3]": (0x88E1FC62, {1}),
    "casb w1,w2,[x3]": (0x08A17C62, {1}),
    "casp x2,x3,x4,x5,[x6]": (0x48227CC4, {2, 3}),
    "caspal w2,w3,w4,w5,[x6]": (0x0862FCC4, {2, 3}),
    "swp x1,x2,[x3]": (0xF8218062, {2}),
    "swpal w1,w2,[x3]": (0xB8E18062, {2}),
    "swpb w1,w2,[x3]": (0x38218062, {2}),
    "ldadd x1,x2,[x3]": (0xF8210062, {2}),
    "ldaddal w1,w2,[x3]": (0xB8E10062, {2}),
    "ldclr x1,x2,[x3]": (0xF8211062, {2}),
    "ldset x1,x2,[x3]": (0xF8213062, {2}),
    "ldeor x1,x2,[x3]": (0xF8212062, {2}),
    "ldsmax x1,x2,[x3]": (0xF8214062, {2}),
    "ldumin x1,x2,[x3]": (0xF8217062, {2}),
    "stadd x1,[x3]": (0xF821007F, set()),
    "csel x1,x2,x3,eq": (0x9A830041, {1}),
    "csinc x1,x2,x3,eq": (0x9A830441, {1}),
    "csinv x1,x2,x3,eq": (0xDA830041, {1}),
    "csneg x1,x2,x3,eq": (0xDA830441, {1}),
    "madd x1,x2,x3,x4": (0x9B031041, {1}),
    "smaddl x1,w2,w3,x4": (0x9B231041, {1}),
    "umulh x1,x2,x3": (0x9BC37C41, {1}),
    "udiv x1,x2,x3": (0x9AC30841, {1}),
    "msr tpidr_el1,x1": (0xD518D081, set()),
    "mrs x1,tpidr_el1": (0xD538D081, {1}),
    "ld1 {v1.16b},[x3],#16": (0x4CDF7061, {3}),
    "ld1 {v1.16b},[x3],x4": (0x4CC47061, {3}),
    "st1 {v1.16b},[x3],#16": (0x4C9F7061, {3}),
    "ld4 {v1.16b-v4.16b},[x3],#64": (0x4CDF0061, {3}),
    "ld1 {v1.b}[0],[x3],#1": (0x0DDF0061, {3}),
    "ld1 {v1.b}[0],[x3],x4": (0x0DC40061, {3}),
    "st1 {v1.d}[1],[x3],#8": (0x4D9F8461, {3}),
    "ld1r {v1.16b},[x3],#1": (0x4DDFC061, {3}),
    "umov w1,v2.b[0]": (0x0E013C41, {1}),
    "fmov x1,d2": (0x9E660041, {1}),
    "fcvtzs x1,d2": (0x9E780041, {1}),
    "smov x1,v2.b[0]": (0x4E012C41, {1}),
    "add x1,x2,x3": (0x8B030041, {1}),
    "add x1,x2,#8": (0x91002041, {1}),
    "subs x1,x2,#8": (0xF1002041, {1}),
    "sub x1,x2,w3,uxtw": (0xCB234041, {1}),
    "and x1,x2,#0xff": (0x92401C41, {1}),
    "orr x1,xzr,#0xff": (0xB2401FE1, {1}),
    "orr x1,x2,x3": (0xAA030041, {1}),
    "orr x1,xzr,x3,lsl #3": (0xAA030FE1, {1}),
    "mov x1,sp": (0x910003E1, {1}),
    "mov w1,w3": (0x2A0303E1, {1}),
    "ubfx x1,x2,#3,#4": (0xD3431841, {1}),
    "bfi x1,x2,#3,#4": (0xB37D0C41, {1}),
    "extr x1,x2,x3,#4": (0x93C31041, {1}),
    "movk x1,#3,lsl #16": (0xF2A00061, {1}),
    "movz x1,#3": (0xD2800061, {1}),
    "movn x1,#3": (0x92800061, {1}),
    "adr x1,.+16": (0x10000081, {1}),
    "rbit x1,x2": (0xDAC00041, {1}),
    "clz x1,x2": (0xDAC01041, {1}),
    "rev x1,x2": (0xDAC00C41, {1}),
    "lslv x1,x2,x3": (0x9AC32041, {1}),
    "crc32b w1,w2,w3": (0x1AC34041, {1}),
    "adc x1,x2,x3": (0x9A030041, {1}),
    "ccmp x1,x2,#0,eq": (0xFA420020, set()),
    "cset x1,eq": (0x9A9F17E1, {1}),
    "hvc #0": (0xD4000002, {0, 1, 2, 3}),
    "smc #0": (0xD4000003, {0, 1, 2, 3}),
    "svc #0": (0xD4000001, {0}),
    "prfm pldl1keep,[x3]": (0xF9800060, set()),
    "ldtr x1,[x3]": (0xF8400861, {1}),
    "sttr x1,[x3]": (0xF8000861, set()),
    "ldur x1,[x3,#1]": (0xF8401061, {1}),
    "stur x1,[x3,#1]": (0xF8001061, set()),
    "ldtrsw x1,[x3]": (0xB8800861, {1}),
}
WRITTEN["ldp x1,x2,[sp],#16"] = (0xA8C10BE1, {1, 2})
ALL = {register: PageRegister(PAGE, 0) for register in (*range(31), *range(32, 64))}


def adrp(register: int, pages: int) -> int:
    return 0x90000000 | (pages & 3) << 29 | pages >> 2 << 5 | register


def branch(distance: int) -> int:
    return 0x14000000 | distance & 0x3FFFFFF


def if_zero(distance: int) -> int:
    return 0xB4000000 | (distance & 0x7FFFF) << 5 | 9  # cbz x9


def test_the_page_of_an_adrp_is_relative_to_its_own() -> None:
    assert page_of(ADRP, START + 0x123C) == PAGE + 0x1000
    assert page_of(adrp(0, 5), START) == PAGE
    assert page_of(0xF0FFFFE0, START) == START - 0x1000
    assert page_of(0x10000000, START) is None  # adr


@pytest.mark.parametrize("name", WRITTEN)
def test_nothing_stays_in_a_register_that_was_written(name: str) -> None:
    word, written = WRITTEN[name]
    held = dict(ALL)
    update(held, word, (5, START))
    assert not written & held.keys()


@pytest.mark.parametrize(
    ("word", "lost"),
    [
        (0xA9060BE1, {12, 13}),  # stp x1,x2,[sp,#96]
        (0xA9BF0BE1, set(range(32))),  # stp x1,x2,[sp,#-16]!
        (0xA9410BE1, set()),  # ldp x1,x2,[sp,#16]
        (0xA8C10BE1, set(range(32))),  # ldp x1,x2,[sp],#16
        (0xB9000FE1, {1}),  # str w1,[sp,#12]
        (0x390027E3, {1}),  # strb w3,[sp,#9]
        (0x3D800BE1, set(range(32))),  # str q1,[sp,#32]
        (0xF90003BF, set(range(32))),  # str xzr,[x29]
        (0xF90003FF, {0}),  # str xzr,[sp]
        (0xD10043FF, set(range(32))),  # sub sp,sp,#16
        (0x8B2163FF, set(range(32))),  # add sp,sp,x1
        (0x910003BF, set(range(32))),  # mov sp,x29
        (0xF9000020, set()),  # str x0,[x1]
    ],
)
def test_nothing_stays_on_the_stack_where_it_was_written(word: int, lost: set[int]) -> None:
    held = {register: one for register, one in ALL.items() if register != 31}
    update(held, word, (5, START))
    assert {place - 32 for place in ALL.keys() - held.keys() if place >= 32} == lost


@pytest.mark.parametrize("name", OTHER)
def test_what_writes_a_register_ends_what_is_known_of_it(name: str) -> None:
    assert 0 not in pages_before([adrp(0, 5), OTHER[name], NOP], START)[2]


@pytest.mark.parametrize("name", SAME)
def test_what_only_reads_it_does_not(name: str) -> None:
    assert pages_before([adrp(0, 5), SAME[name], NOP], START)[2][0] == PageRegister(PAGE, 0)


def test_a_call_leaves_the_registers_that_belong_to_the_caller() -> None:
    for call in (BL, BLR):
        assert pages_before([adrp(0, 5), adrp(19, 6), call, NOP], START)[3] == {19: PageRegister(PAGE + 0x1000, 1)}


def test_a_page_is_followed_into_another_register_and_onto_the_stack() -> None:
    words = [adrp(21, 5), 0xF90037F5, 0xAA1503E1, adrp(21, 9), 0xF94037E2, NOP]  # str, mov x1, then ldr x2, [sp, #104]
    known = pages_before(words, START)[5]
    assert (known[1], known[2], known[21]) == (
        PageRegister(PAGE, 0),
        PageRegister(PAGE, 0),
        PageRegister(START + 0x9000, 3),
    )


def test_what_all_ways_agree_on_is_known_where_they_meet() -> None:
    # x1 is made before the branch, x0 on both ways, differently; x2 on one of them.
    words = [adrp(1, 5), if_zero(4), adrp(0, 6), adrp(2, 7), branch(2), adrp(0, 8), NOP]
    known = pages_before(words, START)
    assert known[6] == known[5] == {1: PageRegister(PAGE, 0)}
    assert known[4] == {
        1: PageRegister(PAGE, 0),
        0: PageRegister(START + 0x6000, 2),
        2: PageRegister(START + 0x7000, 3),
    }


def test_a_way_back_counts_too() -> None:
    words = [adrp(0, 5), adrp(1, 5), NOP, adrp(0, 6), if_zero(-2), RET]
    assert pages_before(words, START)[2] == {1: PageRegister(PAGE, 1)}


def test_nothing_is_known_where_only_a_table_leads() -> None:
    jump = 0xD61F0120  # br x9
    assert pages_before([adrp(0, 5), jump, NOP, adrp(1, 8), RET, NOP], START)[2:] == [
        {},
        {},
        {1: PageRegister(START + 0x8000, 3)},
        {},
    ]


@given(st.lists(st.one_of(st.integers(0, (1 << 32) - 1), st.integers(0, 31).map(lambda n: adrp(n, n))), max_size=40))
def test_every_page_that_is_known_was_made_by_the_function(words: list[int]) -> None:
    for known in pages_before(words, START):
        assert all(page_of(words[made], START + 4 * made) == page for page, made in known.values())


@given(st.lists(st.sampled_from([ADRP, adrp(1, 7), *SAME.values(), *OTHER.values()]), max_size=30))
def test_without_a_branch_it_is_what_stands_before(words: list[int]) -> None:
    straight = [word for word in words if word not in {SAME[name] for name in SAME if ".+4" in name}]
    known: dict[int, PageRegister] = {}
    for number, found in enumerate(pages_before(straight, START)):
        assert found == known
        update(known, straight[number], (number, START + 4 * number))


HOISTED = """
extern char near[], far[];
asm(".globl f, near, far\\n .text\\n"
    "f: adrp x1, near\\n cbz x0, 1f\\n adrp x1, far\\n str x2, [x1, #:lo12:far]\\n ret\\n"
    "1: str x2, [x1, #:lo12:%s]\\n ret\\n .type f, %%function\\n .size f, . - f\\n"
    ".data\\n .balign 8\\n .type near, %%object\\n .size near, 8\\n near: .quad 1\\n"
    " .type gap, %%object\\n .size gap, 14000\\n gap: .skip 14000\\n"
    " .type far, %%object\\n .size far, 8\\n far: .quad 2\\n");
"""


@pytest.mark.parametrize("words", [70, 400, 700, 1000])
def test_a_page_that_is_made_before_a_branch_is_the_right_one_behind_it(words: int, tmp_path: Path) -> None:
    one = kernel("arm64", tmp_path, "one", top=HOISTED % "near")
    padding = f"int unused[{words}] = {{7}};"
    moved = kernel("arm64", tmp_path, "moved", padding=padding, top=HOISTED % "near")
    assert differing(one, moved).changed == ()
    other = kernel("arm64", tmp_path, "other", padding=padding, top=HOISTED % "far")
    assert differing(one, other).changed == ("f",)


DATA = """
asm(".data\\n .balign 4096\\n .type near, %object\\n .size near, 4096\\n near: .skip 4096\\n"
    " .type far, %object\\n .size far, 4096\\n far: .skip 4096\\n .section .rodata\\n .balign 8\\n table: .skip 64\\n");
"""
FUNCTION = 'asm(".text\\n .globl f\\n f: {0}\\n ret\\n .type f, %function\\n .size f, . - f\\n");'


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # Only a table leads to where the page is used.
        ("adrp x1, {0}; adr x2, 1f; br x2; 1: ldr x0, [x1, #:lo12:{0}]", "near", "far"),
        # On two ways two pages, of which one is another.
        ("cbz x9, 1f; adrp x1, {0}; b 2f; 1: adrp x1, near; 2: ldr x0, [x1, #8]", "near", "far"),
        # A page that is kept on the stack, and a stack pointer that moved.
        ("adrp x9, near; str x9, [sp, #8]; sub sp, sp, #16; ldr x10, [sp, #8]; ldr x0, [x10, #{0}]", "8", "16"),
        # A structure, in a register that holds a page elsewhere.
        ("cbz x9, 1f; adrp x1, table; ldr x0, [x1, #:lo12:table]; ret; 1: mov x1, x2; ldr x0, [x1, #{0}]", "8", "16"),
        # A branch that is always taken lies between.
        ("cbz x9, 1f; adrp x1, table; b 2f; 1: ldr x0, [x1, #{0}]; 2: nop", "8", "16"),
    ],
)
def test_an_address_whose_page_is_not_known_is_not_taken_for_the_same(
    text: str, old: str, new: str, tmp_path: Path
) -> None:
    one = kernel("arm64", tmp_path, "one", top=FUNCTION.format(text.format(old)) + DATA)
    same = kernel("arm64", tmp_path, "same", top=FUNCTION.format(text.format(old)) + DATA)
    assert differing(one, same).changed == ()
    other = kernel("arm64", tmp_path, "other", top=FUNCTION.format(text.format(new)) + DATA)
    assert differing(one, other).changed == ("f",)
