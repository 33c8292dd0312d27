# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.kernel.differing import differing
from rtgate.kernel.pages import page_of, pages_before, update

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
}


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


@pytest.mark.parametrize("name", OTHER)
def test_what_writes_a_register_ends_what_is_known_of_it(name: str) -> None:
    assert 0 not in pages_before([adrp(0, 5), OTHER[name], NOP], START)[2]


@pytest.mark.parametrize("name", SAME)
def test_what_only_reads_it_does_not(name: str) -> None:
    assert pages_before([adrp(0, 5), SAME[name], NOP], START)[2][0] == PAGE


def test_a_call_leaves_the_registers_that_belong_to_the_caller() -> None:
    for call in (BL, BLR):
        assert pages_before([adrp(0, 5), adrp(19, 6), call, NOP], START)[3] == {19: PAGE + 0x1000}


def test_a_page_is_followed_into_another_register_and_onto_the_stack() -> None:
    words = [adrp(21, 5), 0xF90037F5, 0xAA1503E1, adrp(21, 9), 0xF94037E2, NOP]  # str, mov x1, then ldr x2, [sp, #104]
    known = pages_before(words, START)[5]
    assert (known[1], known[2], known[21]) == (PAGE, PAGE, START + 0x9000)


def test_what_all_ways_agree_on_is_known_where_they_meet() -> None:
    # x1 is made before the branch, x0 on both ways, differently; x2 on one of them.
    words = [adrp(1, 5), if_zero(4), adrp(0, 6), adrp(2, 7), branch(2), adrp(0, 8), NOP]
    known = pages_before(words, START)
    assert known[6] == {1: PAGE}
    assert known[5] == {1: PAGE}
    assert known[4] == {1: PAGE, 0: START + 0x6000, 2: START + 0x7000}


def test_a_way_back_counts_too() -> None:
    words = [adrp(0, 5), adrp(1, 5), NOP, adrp(0, 6), if_zero(-2), RET]
    assert pages_before(words, START)[2] == {1: PAGE}


def test_nothing_is_known_where_only_a_table_leads() -> None:
    jump = 0xD61F0120  # br x9
    assert pages_before([adrp(0, 5), jump, NOP, adrp(1, 5), RET, NOP], START)[2:] == [{}, {}, {1: PAGE}, {}]


@given(st.lists(st.one_of(st.integers(0, (1 << 32) - 1), st.integers(0, 31).map(lambda n: adrp(n, n))), max_size=40))
def test_every_page_that_is_known_was_made_by_the_function(words: list[int]) -> None:
    made = {page_of(word, START + 4 * number) for number, word in enumerate(words)}
    for known in pages_before(words, START):
        assert set(known.values()) <= made


@given(st.lists(st.sampled_from([ADRP, adrp(1, 7), *SAME.values(), *OTHER.values()]), max_size=30))
def test_without_a_branch_it_is_what_stands_before(words: list[int]) -> None:
    straight = [word for word in words if word not in {SAME[name] for name in SAME if ".+4" in name}]
    known: dict[int, int] = {}
    for number, found in enumerate(pages_before(straight, START)):
        assert found == known
        update(known, straight[number], START + 4 * number)


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
