# SPDX-License-Identifier: MIT
"""Which LAVA server, and the token for it: from the environment or a file, never from a command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate import files, strict_yaml
from rtgate.errors import ConfigError
from rtgate.http.secret import Token, find_token, plain_url, read_token

URL = "RTGATE_LAVA_URL"
TOKEN = "RTGATE_LAVA_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "RTGATE_LAVA_TOKEN_FILE"  # noqa: S105
# The lab of ci/lab on this machine; its own page of paths has the same (ci/lab/paths).
LAB_URL = "http://127.0.0.1:28000"
LAB_TOKEN = Path("/var/lib/rtgate-lab/token")


@dataclass(frozen=True, slots=True)
class Access:
    """A server and who we are there.

    Attributes:
        url: the server's own, without a path of its API and without `/` at its end.
    """

    url: str
    token: Token | None


def access(server: str | None = None, environment: Mapping[str, str] | None = None, *, user: str = "") -> Access:
    """Return the server that is meant: the one named, else `RTGATE_LAVA_URL`, else lavacli's identity `default`.

    `server` is a URL, or the name of an identity in `~/.config/lavacli.yaml`. The token is that of the identity, else
    `RTGATE_LAVA_TOKEN`, else the content of the file `RTGATE_LAVA_TOKEN_FILE`, else that of any identity which has the
    URL, and the user if one is named. If nothing says which server, it is the lab that `make lab` has brought up on
    this machine.

    Raises:
        ConfigError: no server is known, the token's file can be read by others, or lavacli's is damaged.
    """
    variables = os.environ if environment is None else environment
    name = server or variables.get(URL) or ""
    if "://" in name:
        return _by_url(base(name), variables, user)
    path = identities_file(variables)
    identities = read_identities(path)
    name = name or ("default" if "default" in identities else "")
    if not name and os.access(LAB_TOKEN, os.R_OK):
        return Access(LAB_URL, read_token(LAB_TOKEN))
    if not name:
        raise ConfigError(f"which LAVA server? Name it with --server URL or {URL}, its token with {TOKEN}_FILE")
    if name in identities:
        return _by_identity(name, identities[name], variables, path)
    names = ", ".join(sorted(identities)) or "none"
    raise ConfigError(f"--server {name} is neither a URL nor an identity of lavacli.yaml (there: {names})")


def is_named(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether anything says which LAVA server is meant, so that `access` has an answer or a mistake to tell."""
    variables = os.environ if environment is None else environment
    names = (URL, TOKEN, TOKEN_FILE)
    return (
        any(map(variables.get, names))
        or "default" in read_identities(identities_file(variables))
        or os.access(LAB_TOKEN, os.R_OK)
    )


def _by_identity(name: str, entry: Mapping[str, Any], variables: Mapping[str, str], path: Path) -> Access:
    try:
        url = base(str(entry.get("uri", "")))
    except ConfigError as error:
        raise ConfigError(f"{path}: identity {name}: {error}") from None
    token = _token_of(entry, path)
    return Access(url, token) if token else _by_url(url, variables, str(entry.get("username", "")))


def _by_url(url: str, variables: Mapping[str, str], user: str) -> Access:
    token = find_token(variables, TOKEN, TOKEN_FILE) or _identity_token(url, variables, user)
    if token is None and url == LAB_URL and os.access(LAB_TOKEN, os.R_OK):
        token = read_token(LAB_TOKEN)
    return Access(url, token)


def base(url: str) -> str:
    """Return a server's URL without the path of an API and with nothing secret in it. Raises ConfigError."""
    server, path = plain_url(url, "the LAVA server", "https://lava.example.org", "a token", f"{TOKEN} or {TOKEN_FILE}")
    return server + re.sub(r"/(RPC2|api(/v0\.\d)?)?/*$", "", path)


def identities_file(variables: Mapping[str, str] | None = None) -> Path:
    """Return where lavacli keeps its identities, which many people have."""
    environment = os.environ if variables is None else variables
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
    return Path(home) / "lavacli.yaml"


def read_identities(file: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of lavacli's file by name; none where there is no file.

    Raises:
        ConfigError: it cannot be read, or is not a file of lavacli's identities.
    """
    try:
        identities = strict_yaml.data(files.read_text(file, files.YAML_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, ConfigError) as error:  # whose words may hold a token
        raise ConfigError(f"{file} cannot be read: {type(error).__name__}: mend it, or move it away") from None
    if identities is None:
        return {}
    if not isinstance(identities, dict) or not all(isinstance(entry, dict) for entry in identities.values()):
        raise ConfigError(f"{file} is not a file of lavacli's identities: mend it, or move it away")
    return {str(name): entry for name, entry in identities.items()}


def is_of(entry: Mapping[str, Any], url: str) -> bool:
    """Return whether an identity is one for a server; what has no URL of a server is for none."""
    try:
        return base(str(entry.get("uri", ""))) == url
    except ConfigError:
        return False


def _identity_token(url: str, variables: Mapping[str, str], user: str) -> Token | None:
    """Return the token that is stored for a server, and for a user if one is named."""
    path = identities_file(variables)
    entries = (entry for entry in read_identities(path).values() if is_of(entry, url))
    matches = (entry for entry in entries if user in {"", str(entry.get("username", ""))})
    return next((_token_of(entry, path) for entry in matches if entry.get("token")), None)


def _token_of(entry: Mapping[str, object], path: Path) -> Token | None:
    return Token(str(entry["token"]), str(path)) if entry.get("token") else None
