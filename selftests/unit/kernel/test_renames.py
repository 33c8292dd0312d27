# SPDX-License-Identifier: MIT
"""Functions that only have another name in the other kernel do not differ; renamed and changed ones do."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.explain.finders import FINDERS
from rtgate.kernel.alignment import changed_code
from rtgate.kernel.differing import Differences, differing, find_renames
from rtgate.kernel.known_functions import KNOWN
from rtgate.kernel.vmlinux import Section, Symbol, Vmlinux

from .linked import linked

TOP = """
#define own __attribute__((noinline)) static
extern int counter;
int shared(int);
int helper(int x);
own int leaf(int x) { counter ^= x; return x * 37; }
own int wrapper(int x) { return leaf(x) + 1; }
own int recursive(int x) { return x < 2 ? x : recursive(x - 1) * 3 + recursive(x - 2); }
own int odd(int x);
own int even(int x) { if (!x) return 1; counter += 3; return odd(x - 1) + 1; }
own int odd(int x) { if (!x) return 0; counter += 5; return even(x - 1) * 3; }
own int rare(int x) { if (__builtin_expect(x == 7, 0)) return helper(helper(x) + 5) * helper(9); return x * 11; }
int caller(int x) { return wrapper(x) + leaf(x + 1) + recursive(x) + even(x) + rare(x) + shared(x); }
int other(int x) { return shared(x) + 2; }
"""
BOTTOM = """
int helper(int);
int counter = 5;
int helper(int x) { return x * counter; }
int shared(int x) { return x * 3 + counter; }
int (*operations[])(int) = {helper, 0, shared};
"""
PADDING = "int unused[5000] = {7}; int padding(int x) { return x + unused[x]; }"
ARCHES = pytest.mark.parametrize("arch", ["arm64", "x86_64"])


def kernel(arch: str, directory: Path, name: str, **sources: str) -> Vmlinux:
    """Link a kernel whose functions begin with room for ftrace, so that none is too short to be recognised."""
    return Vmlinux(linked(arch, directory, name, "-fpatchable-function-entry=16", **sources))


def renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(f"{old}(", f"{new}(").replace(f"{old},", f"{new},")
    return text


def compared(arch: str, path: Path, names: Mapping[str, str], old: str = "", new: str = "") -> Differences:
    """Compare two kernels, the second with other names of functions, and one text instead of another."""
    top, bottom = (renamed(text, names) for text in (TOP, BOTTOM))
    assert (top + bottom).count(old) or not old
    one = kernel(arch, path, "one", top=TOP, bottom=BOTTOM)
    two = kernel(arch, path, "two", top=top.replace(old, new) if old else top, padding=PADDING, bottom=bottom)
    return differing(one, two)


@ARCHES
@pytest.mark.parametrize(
    "names",
    [
        {"leaf": "blade"},
        {"wrapper": "cover"},
        {"recursive": "repeating"},
        {"even": "straight", "odd": "curved"},
        {"rare": "seldom"},
        {"helper": "assistant"},
        {"caller": "client"},
        {"leaf": "blade", "wrapper": "cover", "helper": "assistant", "caller": "client"},
    ],
    ids=",".join,
)
def test_a_function_with_another_name_and_its_callers_do_not_differ(
    arch: str, names: dict[str, str], tmp_path: Path
) -> None:
    """Its callers call it by the new name, itself included, and tables of functions name it."""
    found = compared(arch, tmp_path, names)
    assert found.renames == names
    assert (found.changed, found.added, found.removed) == ((), ("padding",), ())
    assert found.data == ("unused",)


@ARCHES
@pytest.mark.parametrize(
    ("names", "change", "renames", "changed"),
    [
        ({"leaf": "blade"}, ("x * 37", "x * 38"), {}, {"wrapper", "caller"}),
        ({"leaf": "blade"}, ("counter ^= x", "counter |= x"), {}, {"wrapper", "caller"}),
        ({"wrapper": "cover"}, ("leaf(x) + 1;", "leaf(x) + 2;"), {}, {"caller"}),
        # What it calls was renamed and changed: then it does something else, too.
        ({"leaf": "blade", "wrapper": "cover"}, ("x * 37", "x * 39"), {}, {"caller"}),
        ({"even": "straight", "odd": "curved"}, ("counter += 5", "counter += 6"), {}, {"caller"}),
        # It calls another function that has been there before.
        ({"caller": "client"}, ("+ shared(x); }", "+ other(x); }"), {}, set()),
        # What else changed leaves those that only have another name.
        ({"leaf": "blade"}, ("shared(x) + 2", "shared(x) + 3"), {"leaf": "blade"}, {"other"}),
        ({"leaf": "blade", "rare": "seldom"}, ("x * 37", "x * 38"), {"rare": "seldom"}, {"wrapper", "caller"}),
    ],
)
def test_a_function_that_was_renamed_and_changed_differs(
    arch: str,
    names: dict[str, str],
    change: tuple[str, str],
    renames: dict[str, str],
    changed: set[str],
    tmp_path: Path,
) -> None:
    found = compared(arch, tmp_path, names, *change)
    assert found.renames == renames
    assert set(found.changed) == changed
    assert set(found.added) == {"padding"} | {names[name] for name in names.keys() - renames.keys()}
    assert set(found.removed) == names.keys() - renames.keys()


@ARCHES
def test_a_call_by_a_new_name_is_not_a_changed_instruction(arch: str, tmp_path: Path) -> None:
    """It need not have run while measuring, as calls that are new must."""
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    top = renamed(TOP, {"leaf": "blade"}).replace("blade(x) + 1;", "blade(x) + 2;")
    two = kernel(arch, tmp_path, "two", top=top, bottom=BOTTOM)
    found = differing(one, two)
    assert found.renames == {"leaf": "blade"}
    assert found.functions == frozenset({"wrapper"})
    (code,) = changed_code(one.with_names(found.renames), two, found.functions)
    assert (len(code.places), code.slow) == (1, frozenset())
    (by_old_name,) = changed_code(one, two, found.functions)
    assert by_old_name.slow


@ARCHES
@pytest.mark.parametrize(("before", "after"), [("a", "bc"), ("ab", "c"), ("ab", "cd")])
def test_of_several_with_equal_code_nobody_knows_which_is_which(
    arch: str, before: str, after: str, tmp_path: Path
) -> None:
    one, two = (
        kernel(arch, tmp_path, name, top="".join(f"int {function}(int x) {{ return x * 37; }}" for function in names))
        for name, names in (("one", before), ("two", after))
    )
    found = differing(one, two)
    assert found.renames == {}
    assert (found.removed, found.added) == (tuple(before), tuple(after))


@ARCHES
def test_what_a_wrapper_calls_tells_it_from_another_one(arch: str, tmp_path: Path) -> None:
    source = """
        #define own __attribute__((noinline))
        own int {}(int x) {{ return x * 37; }} own int {}(int x) {{ return x * 38; }}
        int {}(int x) {{ return {}(x) + 1; }} int {}(int x) {{ return {}(x) + 1; }}
    """
    one = kernel(arch, tmp_path, "one", top=source.format("a", "b", "to_a", "a", "to_b", "b"))
    two = kernel(arch, tmp_path, "two", top=source.format("c", "d", "to_d", "d", "to_c", "c"))
    found = differing(one, two)
    assert found.renames == {"a": "c", "b": "d", "to_a": "to_c", "to_b": "to_d"}
    assert found.functions == frozenset()


@ARCHES
@pytest.mark.parametrize(
    "two",
    [
        {"top": "int g(int x) { return x * 37; }", "bottom": "int f = 5;"},  # the old name is one of data now
        {"top": "int g(int x) { return x * 37; } int f(int x) { return x * 38; }"},  # or one of another function
        {"top": "__attribute__((used)) static int g(int x) { return x * 37; }"},  # it was not in this file before
    ],
    ids=lambda two: two["top"],
)
def test_a_name_is_the_other_ones_only_if_each_is_in_one_kernel_alone(
    arch: str, two: dict[str, str], tmp_path: Path
) -> None:
    old = kernel(arch, tmp_path, "one", top="int f(int x) { return x * 37; }")
    new = kernel(arch, tmp_path, "two", **two)
    assert find_renames(old, new) == {}
    assert "g" in differing(old, new).added
    assert find_renames(new, old) == {}


@ARCHES
def test_a_kernel_has_its_new_names_everywhere(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", top=TOP, bottom=BOTTOM)
    two = one.with_names({"rare": "seldom", "leaf": "blade"})
    assert one.with_names({}) is one
    for old, new in (("rare", "seldom"), ("leaf", "blade")):
        (address,) = one.starts_of({old})
        assert two.starts_of({new}) == (address,)
        assert two.starts_of({old}) == ()
        assert (one.function_at(address), two.function_at(address)) == (old, new)
    cold = [symbol.name for symbol in two.symbols if symbol.name.startswith("seldom.")]
    assert all(name.startswith(("seldom.cold", "seldom.part", "seldom.isra", "seldom.constprop")) for name in cold)
    assert [replace(symbol, name="") for symbol in two.symbols] == [replace(symbol, name="") for symbol in one.symbols]
    assert differing(one, two).functions == frozenset()


@ARCHES
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("raw_spin_rq_unlock", "unlock"),
        ("unlock", "raw_spin_rq_unlock"),
        ("_raw_spin_lock_irqsave", "lock"),
        ("handle_irq_event", "handle"),
        ("hrtimer_wakeup", "wakeup"),
        ("write_log", "_printk"),
    ],
)
def test_a_function_that_is_known_by_its_name_has_no_other_one(arch: str, old: str, new: str, tmp_path: Path) -> None:
    one, two = (
        kernel(arch, tmp_path, name, a=f"int {name}(int x) {{ return x * 37 + (x ^ 5); }}") for name in (old, new)
    )
    assert find_renames(one, two) == {}
    assert differing(one, two).functions == frozenset({old, new})


@ARCHES
def test_a_function_among_the_locks_has_no_other_name(arch: str, tmp_path: Path) -> None:
    locks = "int __lock_text_start(void) {{ return 1; }} {} int __lock_text_end(void) {{ return 2; }}"
    sources = [f"int {name}(int x) {{ return x * 37 + (x ^ 5); }}" for name in ("f", "g")]
    one, two = (kernel(arch, tmp_path, str(number), a=locks.format(source)) for number, source in enumerate(sources))
    free, free_too = (
        kernel(arch, tmp_path, f"free{number}", a=source + locks.format("")) for number, source in enumerate(sources)
    )
    assert find_renames(one, two) == {}
    assert find_renames(free, free_too) == {"f": "g"}


def test_every_name_that_marks_an_event_is_known() -> None:
    marks = {name for finder in FINDERS.values() for names in finder.marks.values() for name in names}
    assert marks
    assert marks <= KNOWN


@ARCHES
@pytest.mark.parametrize(
    ("body", "renames"), [("return -95;", {}), ("counter += x * 37; return counter ^ x;", {"f": "g"})]
)
def test_functions_that_do_next_to_nothing_are_equal_by_chance(
    arch: str, body: str, renames: dict[str, str], tmp_path: Path
) -> None:
    one, two = (
        Vmlinux(linked(arch, tmp_path, name, a=f"int counter; int {name}(int x) {{ {body} }}")) for name in ("f", "g")
    )
    assert find_renames(one, two) == renames


@ARCHES
@pytest.mark.parametrize(("old", "new"), [("alpha", "zulu"), ("zulu", "alpha")])
def test_a_function_with_an_alias_is_named_as_the_kernel_with_the_new_name_names_it(
    arch: str, old: str, new: str, tmp_path: Path
) -> None:
    source = 'int %(name)s(int x) { return x * 37; } extern int middle(int) __attribute__((alias("%(name)s")));'
    one, two = (kernel(arch, tmp_path, name, a=source % {"name": name}) for name in (old, new))
    before, after = (vmlinux.function_at(vmlinux.address_of(name) or 0) for vmlinux, name in ((one, old), (two, new)))
    names = one.function_names(find_renames(one, two))
    assert before != after
    assert names.get(before, before) == after
    assert one.function_names({}) == {}


@ARCHES
@pytest.mark.parametrize(
    ("own", "use", "others"),
    [
        (
            (
                "int a; __attribute__((noinline)) static int update(int x) { a += x; return x * 3; }",
                "__attribute__((noinline)) static int update(int x) { while (x < 999) x *= x + 3; return x; }",
            ),
            "int {}(int x) {{ return update(x) + 1; }}",
            "int {0}_other(int x) {{ return update(x) + 7; }}",
        ),
        (
            ("static int count;", "static int count;"),
            "int {}(int x) {{ count += x * 5; return count; }}",
            "int {0}_get(void) {{ return count; }} int {0}_put(void) {{ return count = 7; }}",
        ),
    ],
    ids=["function", "variable"],
)
def test_a_static_name_is_another_one_in_another_file(
    arch: str, own: tuple[str, str], use: str, others: str, tmp_path: Path
) -> None:
    a, b = (text + others.format(file) for text, file in zip(own, "ab", strict=True))
    tick = "int {0}(int); int tick(int x) {{ return {0}(x) + 5; }}"
    one = kernel(arch, tmp_path, "one", a=a + use.format("a_do"), b=b, c=tick.format("a_do"))
    two = kernel(arch, tmp_path, "two", a=a, b=b + use.format("b_do"), c=tick.format("b_do"))
    differences = differing(one, two)
    assert differences.renames == {}
    assert differences.functions == frozenset({"a_do", "b_do", "tick"})
    # In the same file it is the same.
    three = kernel(arch, tmp_path, "three", a=a + use.format("a_new"), b=b, c=tick.format("a_new"))
    assert differing(one, three).renames == {"a_do": "a_new"}
    assert differing(one, three).functions == frozenset()


@dataclass(frozen=True)
class Function:
    """One of a kernel that was made up: its name, a constant, and the functions that it calls, by number."""

    name: str
    constant: int
    calls: tuple[int, ...]


_BASE = {"arm64": 0xFFFF_FFC0_8001_0000, "x86_64": 0xFFFF_FFFF_8100_0000}


def _arm64(function: Function, at: int, starts: Sequence[int]) -> bytes:
    """Three `nop`, `movz w0, CONSTANT`, a `bl` for each call, `ret`."""
    words = [*[0xD503201F] * 3, 0x52800000 | function.constant << 5]
    words += [
        0x94000000 | (starts[callee] - at - 4 * number >> 2 & 0x3FFFFFF)
        for number, callee in enumerate(function.calls, start=4)
    ]
    return struct.pack(f"<{len(words) + 1}I", *words, 0xD65F03C0)


def _x86(function: Function, at: int, starts: Sequence[int]) -> bytes:
    """Ten `nop`, `mov CONSTANT, %eax`, a `call` for each call, `ret`."""
    code = b"\x90" * 10 + b"\xb8" + struct.pack("<I", 0x2000_0000 + (function.constant << 16))
    for callee in function.calls:
        code += b"\xe8" + struct.pack("<i", starts[callee] - at - len(code) - 5)
    return code + b"\xc3"


_CODE: dict[str, Callable[[Function, int, Sequence[int]], bytes]] = {"arm64": _arm64, "x86_64": _x86}


def made(arch: str, functions: Sequence[Function], order: Sequence[int]) -> Vmlinux:
    """Return a kernel of some functions, which lie in some order."""
    sizes = [len(_CODE[arch](function, 0, [0] * len(functions))) for function in functions]
    starts, at = [0] * len(functions), _BASE[arch]
    for number in order:
        starts[number], at = at, at + sizes[number] + -sizes[number] % 16
    code = b"".join(
        _CODE[arch](functions[number], starts[number], starts).ljust(sizes[number] + -sizes[number] % 16, b"\0")
        for number in order
    )
    vmlinux = object.__new__(Vmlinux)
    vmlinux.arch = arch
    vmlinux.sections = {1: Section(".text", _BASE[arch], len(code), code, code=True, writable=False)}
    vmlinux._index(
        Symbol(function.name, starts[number], sizes[number], True, False, False, "", 1)
        for number, function in enumerate(functions)
    )
    return vmlinux


@dataclass(frozen=True)
class Pair:
    """Two kernels that were made up: the same functions, of which some were renamed, and some changed."""

    old: tuple[Function, ...]
    new: tuple[Function, ...]
    orders: tuple[tuple[int, ...], tuple[int, ...]]

    def differences(self, arch: str) -> Differences:
        return differing(made(arch, self.old, self.orders[0]), made(arch, self.new, self.orders[1]))

    @property
    def renamed(self) -> set[int]:
        return {number for number, (a, b) in enumerate(zip(self.old, self.new, strict=True)) if a.name != b.name}

    @property
    def alike(self) -> set[int]:
        """Functions that have the same constant, and call the same functions, by the same names or renamed alike."""
        alike, before = set(range(len(self.old))), set[int]()
        while alike != before:
            before, alike = alike, {number for number in alike if self._is_alike(number, alike)}
        return alike

    def _is_alike(self, number: int, alike: set[int]) -> bool:
        old, new = self.old[number], self.new[number]
        callees = all(callee in alike or callee not in self.renamed for callee in new.calls)
        return old.constant == new.constant and old.calls == new.calls and callees


@st.composite
def pairs(draw: st.DrawFn, *, unique: bool) -> Pair:
    count = draw(st.integers(2, 7))
    numbers = st.integers(0, count - 1)
    calls = st.lists(numbers, max_size=2).map(tuple)
    constants = st.integers(1, 2)
    old = [Function(f"f{number}", number + 1 if unique else draw(constants), draw(calls)) for number in range(count)]
    new = list(old)
    for number in draw(st.sets(numbers)):
        new[number] = replace(new[number], name=f"g{number}")
    for number in draw(st.sets(numbers, max_size=2)):
        new[number] = replace(new[number], constant=new[number].constant + 100)
    for number in draw(st.sets(numbers, max_size=1)):
        new[number] = replace(new[number], calls=draw(calls))
    order = st.permutations(range(count)).map(tuple)
    return Pair(tuple(old), tuple(new), (draw(order), draw(order)))


@ARCHES
@examples(200)
@given(pair=pairs(unique=True))
def test_what_was_renamed_is_found_and_what_changed_differs(arch: str, pair: Pair) -> None:
    found, alike = pair.differences(arch), pair.alike
    both = list(enumerate(zip(pair.old, pair.new, strict=True)))
    assert found.renames == {old.name: new.name for number, (old, new) in both if number in alike & pair.renamed}
    differ = [(old, new) for number, (old, new) in both if number not in alike]
    assert set(found.changed) == {new.name for old, new in differ if old.name == new.name}
    assert set(found.added) == {new.name for old, new in differ if old.name != new.name}
    assert set(found.removed) == {old.name for old, new in differ if old.name != new.name}


@ARCHES
@examples(200)
@given(pair=pairs(unique=False))
def test_no_function_gets_the_name_of_one_that_does_something_else(arch: str, pair: Pair) -> None:
    """Where several have equal code, too."""
    renames = pair.differences(arch).renames
    assert len(set(renames.values())) == len(renames)

    def meaning(function: Function, functions: Sequence[Function], names: Mapping[str, str]) -> tuple[object, ...]:
        callees = [functions[callee].name for callee in function.calls]
        return function.constant, *("itself" if name == function.name else names.get(name, name) for name in callees)

    old = {function.name: meaning(function, pair.old, renames) for function in pair.old}
    new = {function.name: meaning(function, pair.new, {}) for function in pair.new}
    for before, after in renames.items():
        assert old[before] == new[after]
        assert [name for name in old.keys() - new.keys() if old[name] == old[before]] == [before]
        assert [name for name in new.keys() - old.keys() if new[name] == new[after]] == [after]
