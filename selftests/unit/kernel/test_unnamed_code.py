# SPDX-License-Identifier: MIT
"""Code that no symbol has: where it alone differs, something differs of which nobody knows whether it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.differing import differing
from rtgate.kernel.unnamed_code import unnamed_code

from .linked import kernel

ARCHES = pytest.mark.parametrize("arch", ["arm64", "x86_64"])
CALL = {"arm64": "bl", "x86_64": "call"}
SOURCE = """
    int {name}(int x) {{
        asm volatile(".pushsection .altinstr_replacement, \\"ax\\"; {code}; .popsection");
        return x * 37;
    }}
    int helper(int x) {{ return x * 5; }}
    int other(int x) {{ return x * 7; }}
    asm(".text; .balign 16; {code}; .balign 16");
"""
PADDING = "int padding(int x) { return x + 2; }"
NAMES = ("code without a name in .altinstr_replacement", "code without a name in .text")


def source(code: str, name: str = "f") -> str:
    return SOURCE.format(code=code, name=name)


@ARCHES
def test_other_code_without_a_name_is_said_where_no_function_differs(arch: str, tmp_path: Path) -> None:
    helper, other = (f"nop; {CALL[arch]} {name}" for name in ("helper", "other"))
    one = kernel(arch, tmp_path, "one", a=source(helper))
    same, another_call, longer = (
        kernel(arch, tmp_path, str(number), a=source(code))
        for number, code in enumerate((helper, other, f"{helper}; {helper}"))
    )
    assert differing(one, same).data == ()
    for two in (another_call, longer):
        differences = differing(one, two)
        assert differences.functions == frozenset()
        assert differences.data == NAMES


@ARCHES
def test_it_is_the_same_where_it_moved(arch: str, tmp_path: Path) -> None:
    calls = f"nop; {CALL[arch]} helper"
    one = kernel(arch, tmp_path, "one", a=source(calls), z=PADDING)
    moved = kernel(arch, tmp_path, "moved", z=PADDING, a=source(calls))
    assert (differing(one, moved).functions, differing(one, moved).data) == (frozenset(), ())


@ARCHES
def test_where_a_function_differs_that_is_said(arch: str, tmp_path: Path) -> None:
    one = kernel(arch, tmp_path, "one", a=source("nop; ret"))
    two = kernel(arch, tmp_path, "two", a=source("ret"), z=PADDING)
    assert differing(one, two).functions == frozenset({"padding"})
    assert differing(one, two).data == ()


@ARCHES
def test_what_aligns_code_is_none(arch: str, tmp_path: Path) -> None:
    functions = 'int f(int x) { return x; } asm(".text; .balign 256"); int g(int x) { return x * 3; }'
    one = kernel(arch, tmp_path, "one", a=functions, b=PADDING)
    assert list(unnamed_code(one)) == []
    (piece,) = unnamed_code(kernel(arch, tmp_path, "two", a=functions, b='asm(".text; nop; ret");'))
    assert (piece.name, piece.size) == (".text", {"arm64": 4, "x86_64": 1}[arch])
