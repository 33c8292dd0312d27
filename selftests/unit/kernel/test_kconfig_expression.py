# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.kernel.kconfig_expression import symbols, value

CONFIG = {"A": "y", "M": "m", "OFF": "n", "TEXT": '"gcc"', "NUMBER": "8"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A", "y"),
        ("MISSING", "n"),
        ("!OFF", "y"),
        ("!M", "m"),
        ("A && M", "m"),
        ("OFF || M", "m"),
        ("A && (OFF || !OFF)", "y"),
        ("A && OFF || A", "y"),
        ('TEXT = "gcc"', "y"),
        ("TEXT != 'gcc'", "n"),
        ("A=y && M!=n", "y"),
        ("A # a remark", "y"),
        ("y", "y"),
        ("$(cc-option,-mfoo)", None),
        ("NUMBER > 4", None),
        ("A && NUMBER", None),
        ("(A", None),
        ("A A", None),
        ("", None),
    ],
)
def test_value(expression: str, expected: str | None) -> None:
    assert value(expression, CONFIG) == expected


def test_symbols_are_named_once_in_order() -> None:
    assert symbols("SMP && (EXPERT || !SMP) && FOO=y") == ("SMP", "EXPERT", "FOO")


@given(st.text(alphabet='AM!&|()=<>"$ yn', max_size=20))
def test_any_text_has_a_value_or_none(expression: str) -> None:
    assert value(expression, CONFIG) in {"y", "m", "n", None}
