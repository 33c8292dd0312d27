# SPDX-License-Identifier: MIT
"""Storing a token where lavacli keeps them, so that both programs have it: `~/.config/lavacli.yaml`.

It is a mapping of identities by name, each with `uri`, `username` and `token` (lavacli 1.2, `lavacli identities add`).
`access` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rtgate import files, strict_yaml
from rtgate.errors import InfrastructureError
from rtgate.lava.client.access import Access, is_of, read_identities


def store(file: Path, access: Access, user: str) -> str:
    """Store a token, in place of the one that this user had for this server; return the identity's name.

    The first identity is `default`, which is used where nobody names a server; others are named by their host.

    Args:
        file: lavacli's; made if it is not there. Afterwards only its owner may read it.
        access: the server, and the token.
        user: whose token it is.

    Raises:
        ConfigError: the file is there and is not one of lavacli's, so that it cannot be added to.
        InfrastructureError: the file cannot be written.
    """
    assert access.token is not None
    identities = read_identities(file)
    name = _name(identities, access.url, user)
    entry = identities.get(name, {})
    identities[name] = {**entry, "uri": f"{access.url}/RPC2", "username": user, "token": access.token.secret()}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(file, strict_yaml.dump(identities), private=True)
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be written: {error.strerror}") from error
    return name


def _name(identities: Mapping[str, Mapping[str, Any]], url: str, user: str) -> str:
    """Return the name under which a server's token is stored: the one that it has, else a new one."""
    for name, entry in identities.items():
        if is_of(entry, url) and entry.get("username") in {user, None}:
            return name
    host = urlsplit(url).netloc
    return next(name for name in ("default", host, f"{user}@{host}") if name not in identities)
