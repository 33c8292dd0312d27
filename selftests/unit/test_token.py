# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.token import Token, read_token

SECRET = "s3cr3t-0123456789"


def test_a_token_does_not_show_itself() -> None:
    token = Token(SECRET, "$X")
    assert SECRET not in f"{token} {token!r}"
    assert token.secret() == SECRET


def test_a_token_has_no_characters_that_end_a_header() -> None:
    with pytest.raises(ConfigError, match="a test"):
        Token("abc\r\nX-Header: 1", "a test")


def test_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    assert read_token(path).secret() == SECRET


def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600") as caught:
        read_token(path)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_token(tmp_path / "token")
