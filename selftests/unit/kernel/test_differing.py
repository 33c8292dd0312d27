# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.kernel.differing import differing, options

from .linked import kernel

TOP = """
extern int counter, table[64];
int helper(int);
static const char text[] = "wake up";
static int seen[3];
int first(int x) { seen[1] += x; return helper(x) + counter; }
int second(int x) { return text[x & 7] + table[x & 63] + seen[1]; }
"""
BOTTOM = """
int counter = 5;
int table[64] = {1, 2, 3};
int (*pointer)(int);
int helper(int x) { return x * counter; }
int (*operations[])(int) = {helper, 0, helper};
"""
ARCHES = pytest.mark.parametrize("arch", ["arm64", "x86_64"])


@ARCHES
def test_code_that_only_moved_is_the_same(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    padding = "int unused[5000] = {7}; int padding(int x) { return x + unused[x]; } int more_1(void) { return 1; }"
    two = kernel(arch, tmp_path, "two", bottom=BOTTOM, padding=padding, top=TOP)
    found = differing(one, two)
    assert found.changed == ()
    assert found.added == ("more_1", "padding")
    assert found.data == ("unused",)
    assert differing(two, one).removed == ("more_1", "padding")


@ARCHES
def test_an_address_in_a_packed_structure_may_move(arch: str, tmp_path: Path) -> None:
    """As x86's idt_descr."""
    source = "int counter = 5; struct __attribute__((packed)) { short size; int *at; } descriptor = {4, &counter};"
    one = kernel(arch, tmp_path, "one", top=source)
    two = kernel(arch, tmp_path, "two", padding="int unused[5000] = {7};", top=source)
    assert differing(one, two).data == ("unused",)


@ARCHES
def test_a_kernel_does_not_differ_from_itself(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    found = differing(one, one)
    assert not found.functions
    assert not found.data


@ARCHES
@pytest.mark.parametrize(
    ("old", "new", "changed", "data"),
    [
        ("x * counter", "x * counter + 1", ("helper",), ()),
        ("x * counter", "x * table[2]", ("helper",), ()),
        ("return helper(x) + counter", "return helper(x) + table[0]", ("first",), ()),
        ("table[x & 63]", "table[x & 31]", ("second",), ()),
        ("seen[1] += x", "seen[2] += x", ("first",), ()),
        ('"wake up"', '"woke up"', (), ("text",)),
        ("counter = 5", "counter = 6", (), ("counter",)),
        ("{helper, 0, helper}", "{helper, helper, helper}", (), ("operations",)),
    ],
)
def test_what_differs_is_named(
    arch: str, old: str, new: str, changed: tuple[str, ...], data: tuple[str, ...], tmp_path: Path
) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    two = kernel(arch, tmp_path, "two", top=TOP.replace(old, new), bottom=BOTTOM.replace(old, new))
    found = differing(one, two)
    assert found.changed == changed
    assert found.data == data
    assert found.functions == frozenset(changed)


@ARCHES
@pytest.mark.parametrize(("old", "new"), [("1UL << 24", "1UL << 25"), ("-4096L", "-8192L"), ("16", "80")])
def test_a_number_that_changed_is_a_difference_wherever_it_would_lead(
    arch: str, old: str, new: str, tmp_path: Path
) -> None:
    """Read as a distance or an address it may lead twice to nothing, or twice into what has no name."""
    space = 'asm(".data\\n.balign 8\\n.space 256\\n.text");'
    one, two = (
        kernel(arch, tmp_path, f"k{number}", top=f"unsigned long limit = {value};", bottom=space)
        for number, value in enumerate((old, new))
    )
    assert differing(one, two).data == ("limit",)


@ARCHES
def test_another_callee_is_a_difference_even_where_the_distance_is_the_same(arch: str, tmp_path: Path) -> None:
    source = "int a(void); int b(void); int caller(void) {{ return {0}() + 1; }}"
    callees = "int {0}(void) {{ return 1; }} int {1}(void) {{ return 1; }}"
    one = kernel(arch, tmp_path, "one", top=source.format("a"), bottom=callees.format("a", "b"))
    two = kernel(arch, tmp_path, "two", top=source.format("b"), bottom=callees.format("b", "a"))
    assert differing(one, two).changed == ("caller",)


@ARCHES
def test_the_end_of_a_table_that_grew_is_the_same_end(arch: str, tmp_path: Path) -> None:
    """As with `orc_unwind` of x86: its end is the begin of the next table in one kernel, in a gap in the other."""
    source = """
        __attribute__((section("its_lookup"), aligned(4))) const int lookup[4] = {{1}};
        __attribute__((section("its_entries"))) const char entries[{}] = {{1}};
        extern const char __stop_its_entries[];
        long within(const char *at) {{ return at < __stop_its_entries; }}
        int look(int at) {{ return lookup[at & 3]; }}
    """
    one, two = (kernel(arch, tmp_path, f"k{size}", top=source.format(size)) for size in (40, 50))
    assert [each.address_of("__stop_its_entries") == each.address_of("lookup") for each in (one, two)] == [True, False]
    assert differing(one, two).changed == ()


@ARCHES
def test_another_name_of_one_function_is_another_callee_once_they_are_two(arch: str, tmp_path: Path) -> None:
    same = 'int b(void) { return 1; } int a(void) __attribute__((alias("b")));'
    two = "int a(void) { return 1; } int b(void) { return 1; }"
    caller = "int {0}(void); int caller(void) {{ return {0}() + 1; }}"
    one = kernel(arch, tmp_path, "one", top=caller.format("a"), bottom=same)
    other = kernel(arch, tmp_path, "two", top=caller.format("b"), bottom=two)
    assert "caller" in differing(one, other).changed


def test_kernels_of_two_architectures_are_refused(tmp_path: Path) -> None:
    one = kernel("arm64", tmp_path, "one", bottom=BOTTOM)
    two = kernel("x86_64", tmp_path, "two", bottom=BOTTOM)
    with pytest.raises(ConfigError, match="no function in common"):
        differing(one, two)


def test_options_that_differ_are_told(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text('# a comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x"\n')
    two.write_text("CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n")
    assert options(one) == {"CONFIG_A": "y", "CONFIG_C": '"x"'}
    kernels = kernel("x86_64", tmp_path, "k", bottom=BOTTOM)
    found = differing(kernels, kernels, (one, two))
    assert found.options == {"CONFIG_B": ("", "m"), "CONFIG_C": ('"x"', "")}
    with pytest.raises(ConfigError, match="cannot be read"):
        options(tmp_path / "none")
