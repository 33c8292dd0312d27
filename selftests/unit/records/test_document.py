# SPDX-License-Identifier: MIT
"""Documents of rtgate's own: whatever is wrong with one is said with its path and the remedy, never by a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rtgate.errors import ChangedError, ConfigError
from rtgate.records.document import read_document


def _number(data: Any) -> int:
    return int(data["number"])


def test_a_document_is_what_its_parser_makes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": 3, "number": 7}')
    assert read_document(path, _number, "remove it") == 7
    assert read_document(path, list, "remove it", supported=3) == ["number"]


@pytest.mark.parametrize("name", ["b.json", "a.json/b.json"])
def test_one_that_is_not_there_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert read_document(tmp_path / name, _number, "remove it") is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "damaged: Expecting value"),
        ("[" * 100_000, "damaged: maximum recursion depth exceeded"),
        ('{"format": 3, "number": 1e999}', "damaged: cannot convert float infinity to integer"),
        ('{"format": 3, "number": "x"}', "damaged: invalid literal"),
        ('{"format": 3, "number": null}', "damaged: int() argument"),
        ('{"format": 3}', "damaged: field `number` is missing"),
        ('{"number": 7}', "damaged: field `format` is missing"),
        ('{"format": 4, "number": 7}', "format 4, this rtgate reads 3"),
        ("null", "damaged: 'NoneType' object"),
        ("[3]", "damaged: list indices"),
    ],
)
def test_damage_is_said_with_the_remedy(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_document(path, _number, "remove it", supported=3)
    assert str(raised.value).startswith(f"{path}: {what}")
    assert str(raised.value).endswith(": remove it")


def test_one_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        read_document(tmp_path, _number, "remove it")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r"loop: cannot be read: Too many levels of symbolic links: remove it"):
        read_document(tmp_path / "loop", _number, "remove it")


def test_what_the_parser_says_itself_stands(tmp_path: Path) -> None:
    def changed(_: Any) -> int:
        raise ChangedError("it was changed")

    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ChangedError, match=r"^it was changed$"):
        read_document(tmp_path / "a.json", changed, "remove it")
