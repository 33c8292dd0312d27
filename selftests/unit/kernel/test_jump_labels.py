# SPDX-License-Identifier: MIT
"""Functions that differ in the keys of their jump labels do not do the same, though their instructions are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rtgate.kernel.alignment import changed_code
from rtgate.kernel.differing import differing

from .linked import kernel

ARCHES = pytest.mark.parametrize("arch", ["arm64", "x86_64"])
NOP = {"arm64": "nop", "x86_64": ".byte 0x0f, 0x1f, 0x44, 0, 0"}
FUNCTION = r"""
    int %(name)s(int x) {
        asm goto("1: %(nop)s; .pushsection __jump_table, \"aw\";"
                 ".long 1b - ., %%l[%(label)s] - .; .quad %(key)s + %(flag)s - .; .popsection" : : : : on, off);
        return x * 37;
        on: return slow(x);
        off: return slow(x + 1);
    }
"""
REST = """
    long key = 0, key_of_debug = 0;
    int slow(int x) { return x ^ 5; }
    int (*user)(int) = %s;
    extern char __start___jump_table[], __stop___jump_table[];
    char *table[] = {__start___jump_table, __stop___jump_table};
"""


def source(arch: str, *, name: str = "f", key: str = "key", flag: int = 0, label: str = "on") -> str:
    function = FUNCTION % {"name": name, "nop": NOP[arch], "label": label, "key": key, "flag": flag}
    declared = f"int slow(int); int {name}(int);"
    return declared + function + REST % name


@ARCHES
@pytest.mark.parametrize("change", [{"key": "key_of_debug"}, {"flag": 1}, {"label": "off"}], ids=str)
def test_another_key_sense_or_destination_is_a_change(arch: str, change: dict[str, Any], tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", a=source(arch))
    moved = kernel(arch, tmp_path, "moved", padding="int padding(int x) { return x; } int pad = 3;", a=source(arch))
    two = kernel(arch, tmp_path, "two", a=source(arch, **change))
    assert differing(one, moved).functions == frozenset({"padding"})
    assert differing(one, two).changed == ("f",)


@ARCHES
@pytest.mark.parametrize("change", [{"key": "key_of_debug"}, {"flag": 1}], ids=str)
def test_it_is_the_instruction_that_changed(arch: str, change: dict[str, Any], tmp_path: Path) -> None:
    one, two = (
        kernel(arch, tmp_path, name, a=source(arch, **options)) for name, options in (("one", {}), ("two", change))
    )
    (code,) = changed_code(one, two, {"f"})
    assert len(code.places) == 1


@ARCHES
def test_a_renamed_function_with_another_key_differs(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", a=source(arch))
    two = kernel(arch, tmp_path, "two", a=source(arch, name="g"))
    three = kernel(arch, tmp_path, "three", a=source(arch, name="g", key="key_of_debug"))
    assert differing(one, two).renames == {"f": "g"}
    assert differing(one, three).renames == {}
    assert differing(one, three).functions == frozenset({"f", "g"})
