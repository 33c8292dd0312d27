# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.kernel import alignment
from rtgate.kernel.alignment import READERS, changed_code, differences

from .linked import COMPILERS, kernel

TOP = """
extern int counter; int helper(int); void slow(void);
int first(int x) { if (x > 5) x += counter; return helper(x) + counter; }
int second(int x) { return x * 3; }
"""
BOTTOM = "int counter = 5; int helper(int x) { return x * counter; } void slow(void) { counter++; }"
WORDS = st.lists(st.integers(0, 3), max_size=40)


@given(WORDS)
def test_a_sequence_does_not_differ_from_itself(words: list[int]) -> None:
    assert differences(words, words) == ([], [], [])


@given(WORDS, WORDS, st.integers(1, 9))
def test_what_was_put_in_is_found_exactly(before: list[int], after: list[int], count: int) -> None:
    new = [*before, *[9] * count, *after]
    found = differences([*before, *after], new)
    assert found == (list(range(len(before), len(before) + count)), [], [])
    taken = differences(new, [*before, *after])
    assert taken is not None
    assert taken[:2] == ([], list(range(len(before), len(before) + count)))


@pytest.mark.parametrize("arch", COMPILERS)
def test_a_branch_that_was_put_in_is_found_in_a_function_that_moved(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    changed = TOP.replace("return helper(x)", "if (x == 77) slow(); return helper(x)")
    two = kernel(arch, tmp_path, "two", bottom=BOTTOM, padding="int more(int x) { return x + 1; }", top=changed)
    (found,) = changed_code(one, two, {"first"})
    assert found.function == "first"
    read = READERS[arch](two)
    (symbol,) = (symbol for symbol in two.symbols if symbol.name == "first")
    instructions = {each.address: each for each in read(symbol)}
    assert 0 < len(found.places) < len(instructions)
    assert found.places.keys() <= instructions.keys()
    assert "slow" in {instructions[address].call for address in found.slow}
    assert found.slow <= found.places.keys()
    assert all(name.startswith("first+0x") for name in found.places.values())


@pytest.mark.parametrize("arch", COMPILERS)
def test_all_of_a_new_function_is_new_and_nothing_of_one_that_moved(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    two = kernel(arch, tmp_path, "two", bottom=BOTTOM, more="int more(int x) { return x + 1; }", top=TOP)
    first, more = changed_code(one, two, {"first", "more"})
    assert (first.function, first.places) == ("first", {})
    assert len(more.places) == 2
    assert next(iter(more.places.values())) == "more+0x0"


@pytest.mark.parametrize(
    ("more", "slow"),
    [("rep stosq", True), ("rep movsb", True), ("stosq", False), ("pause", False), ("repz ret", False)],
)
def test_an_instruction_that_repeats_itself_can_take_long(more: str, tmp_path: Path, *, slow: bool) -> None:
    """GCC and the kernel's memset and copies write long areas so: without a call, and without a jump back."""
    source = 'asm(".globl f; .type f, @function; f: movl $1, %eax; {}; ret; .size f, . - f");'
    one, two = (
        kernel("x86_64", tmp_path, name, a=source.format(code))
        for name, code in (("one", "nop"), ("two", f"nop; {more}"))
    )
    (change,) = changed_code(one, two, {"f"})
    assert len(change.places) == 1
    assert list(change.slow) == (list(change.places) if slow else [])


def test_a_change_that_is_everywhere_is_not_located(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(alignment, "_FUNCTIONS", 0)
    one = kernel("arm64", tmp_path, "one", top=TOP, bottom=BOTTOM)
    two = kernel("arm64", tmp_path, "two", top=TOP.replace("x * 3", "x * 5"), bottom=BOTTOM)
    (found,) = changed_code(one, two, {"second"})
    assert found.places == {}
