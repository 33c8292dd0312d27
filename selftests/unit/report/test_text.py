# SPDX-License-Identifier: MIT
from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtgate.report.text import last_lines, plain_text, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;32mok\x1b[0m", "ok"),
        ("\x1b]0;title\x07prompt", "prompt"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("one\r\ntwo\r\r\nthree\rfour", "one\ntwo\nthree\nfour"),
        ("bell\x07 null\x00 del\x7f", "bell\ufffd null\ufffd del\ufffd"),
        ("tab\tstays", "tab\tstays"),
        ("reordered \u202egnp.exe", "reordered \ufffdgnp.exe"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("größer als 60 µs", "größer als 60 µs"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert plain_text(text) == expected


def _controls(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\t\n"}


@settings(deadline=None)  # other programs may hold the CPU
@given(st.text(st.characters()))
def test_plain_leaves_no_control_character_and_changes_nothing_twice(text: str) -> None:
    cleaned = plain_text(text)
    assert not _controls(cleaned)
    assert plain_text(cleaned) == cleaned
    cleaned.encode("utf-8")


@settings(deadline=None)  # other programs may hold the CPU
@given(st.binary())
def test_visible_is_text_without_control_characters(data: bytes) -> None:
    assert not _controls(visible(data).decode("utf-8"))


@settings(deadline=None)  # other programs may hold the CPU
@given(st.text(st.characters(categories=("L", "N", "P", "Zs"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert plain_text(text) == text
    assert visible(text.encode()).decode() == text


def test_visible_shows_what_the_board_sent() -> None:
    assert visible(b"\x1b[31mred\x07\r\n").decode() == "\u241b[31mred\u2407\n"


def test_last_lines_pass_over_empty_ones() -> None:
    assert last_lines(b"a\r\nb\r\n\r\n\x1b[0mc\r\n\r\n", 2) == "b\nc"
