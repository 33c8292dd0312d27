# SPDX-License-Identifier: MIT
"""Tokens of servers: from the environment or a file, never from a command line, which shows in `ps` and in CI logs.

No message, log or job ever holds a token: it is a type of its own that does not show what it holds.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from rtgate import files
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
            raise ConfigError(
                f"{source} holds no token or password: rtgate takes 8 to 512 letters, digits and signs of ASCII"
            )
        self._secret = secret
        self.source = source

    def secret(self) -> str:
        """Return the token itself, for the header of a request."""
        return self._secret

    def __repr__(self) -> str:
        return f"<token from {self.source}>"


def read_token(path: Path, name: str = "", *, private: bool = True) -> Token:
    """Return the token that a file holds.

    Args:
        path: the file.
        name: of the variable or option that names it. What it holds is in no message: it may be the token itself.
        private: refuse it where others may read it. A CI system that writes the file itself decides about its mode.

    Raises:
        ConfigError: it is missing, no regular file, holds no token, or others may read it.
    """
    try:
        if private and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(f"{path} holds a token and others may read it: chmod 600 {path}")
        return Token(files.read_bytes(path, files.YAML_LIMIT).decode("ascii").strip(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} holds no token") from None
    except OSError as error:
        if not name:
            raise ConfigError(f"the token's file {path} cannot be read: {error.strerror}") from error
        raise ConfigError(
            f"{name} does not name a file that can be read ({error.strerror}): it takes a path, not the secret itself "
            "(a CI variable is then of type File)"
        ) from None


def find_token(variables: Mapping[str, str], name: str, file: str, *, private: bool = True) -> Token | None:
    """Return the token of a variable, or of the file that another one names; None where neither is set.

    Args:
        variables: the environment.
        name: of the variable that holds the token.
        file: of the one that names a file.
        private: refuse a file that others may read.

    Raises:
        ConfigError: it is not a token, or the file is missing.
    """
    if variables.get(name):
        return Token(variables[name].strip(), f"${name}")
    return read_token(Path(variables[file]), file, private=private) if variables.get(file) else None


def take_token(variables: MutableMapping[str, str], name: str, file: str, *, private: bool = True) -> Token | None:
    """Return the token as `find_token`, and take both variables out of the environment.

    What is started later, such as the Makefiles of a proposed kernel, does not get it.
    """
    return find_token({key: variables.pop(key, "") for key in (name, file)}, name, file, private=private)


def plain_url(url: str, server: str, example: str, secret: str, place: str) -> tuple[str, str]:
    """Return a server's URL with nothing secret in it: scheme, host and port, and the path.

    Args:
        url: as somebody wrote it.
        server: what is there, for messages.
        example: a URL that is right.
        secret: which one people put into such a URL: `a token`.
        place: where it goes instead.

    Raises:
        ConfigError: it is not a URL, or holds a user or a password.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise ConfigError(f"the URL of {server} cannot be read: {error}") from None
    if parts.username or parts.password:
        raise ConfigError(f"a URL is not the place of {secret}, it shows in lists of processes: use {place}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"the URL of {server} is not one (expected {example})")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}", parts.path
