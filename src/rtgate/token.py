# SPDX-License-Identifier: MIT
"""A secret for a server: from a variable or a file, never from a command line.

A command line shows in `ps` and in CI logs. No message, log or job ever holds a token: it is a type of its own that
does not show what it holds.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from rtgate.errors import ConfigError

_ALLOWED = re.compile(r"[\x21-\x7e]{8,512}")


class Token:
    """A secret; `secret` is the only way to what it holds.

    Args:
        source: where it came from, for messages.
    """

    __slots__ = ("_secret", "source")

    def __init__(self, secret: str, source: str) -> None:
        if not _ALLOWED.fullmatch(secret):
            raise ConfigError(f"the token from {source} is empty, or has characters that no token has")
        self._secret = secret
        self.source = source

    def secret(self) -> str:
        """Return the token itself, for the header of a request."""
        return self._secret

    def __repr__(self) -> str:
        return f"<token from {self.source}>"


def read_token(path: Path) -> Token:
    """Return the token that a file of its owner holds.

    Raises:
        ConfigError: it is missing, or others may read it.
    """
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(f"{path} holds a token and others may read it: chmod 600 {path}")
        return Token(path.read_text(encoding="ascii").strip(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} holds no token") from None
    except OSError as error:
        raise ConfigError(f"the token's file {path} cannot be read: {error.strerror}") from error
