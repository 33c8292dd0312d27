# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.errors import ConfigError
from rtgate.http.secret import Token, read_token, take_token

SECRET = "s3cr3t-0123456789"


def test_no_representation_of_a_token_shows_it() -> None:
    token = Token(SECRET, "$X")
    assert token.secret() == SECRET
    for text in (repr(token), str(token), f"{token}", repr([token])):
        assert "<token from $X>" in text
        assert SECRET not in text


@pytest.mark.parametrize("text", ["", "short", "s3cr3t 0123456789", "s3cr3t\r\nX-Header: 1", "s3cr3t-\xa30123"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"\$X holds no token or password: rtgate takes 8 to 512 letters, digits and signs of ASCII"
    ) as error:
        Token(text, "$X")
    assert not text or text not in str(error.value)


def test_a_file_that_others_may_read_is_refused_unless_somebody_else_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it: chmod 600"):
        read_token(path)
    assert read_token(path, private=False).secret() == SECRET
    path.chmod(0o600)
    assert read_token(path).secret() == SECRET


def test_a_token_is_taken_out_of_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    for variables in ({"X": f" {SECRET}\n"}, {"X_FILE": str(path)}, {"X": SECRET, "X_FILE": str(path)}):
        environment = {"HOME": "/root", **variables}
        token = take_token(environment, "X", "X_FILE")
        assert token is not None
        assert token.secret() == SECRET
        assert environment == {"HOME": "/root"}
    assert take_token({"X": "", "X_FILE": ""}, "X", "X_FILE") is None
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it"):
        take_token({"X_FILE": str(path)}, "X", "X_FILE")


def test_a_token_where_a_file_is_to_be_named_is_not_shown() -> None:
    """As a GitLab variable of type Variable: the job's log is public."""
    with pytest.raises(ConfigError) as error:
        take_token({"X_FILE": SECRET}, "X", "X_FILE")
    assert SECRET not in str(error.value)
    assert str(error.value).startswith("X_FILE does not name a file that can be read (No such file or directory): ")
    assert "a CI variable is then of type File" in str(error.value)
    assert error.value.__cause__ is None
