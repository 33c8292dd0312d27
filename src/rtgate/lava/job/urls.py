# SPDX-License-Identifier: MIT
"""URLs that stand in a job: all who may read it may read them, and LAVA hands parts of them to boot loaders and shells.

So no secret is in them, and no letter that a boot loader or a shell reads more in.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from rtgate.errors import ConfigError

PUT_TOKEN = "RTGATE_PUT_TOKEN"  # noqa: S105 - the name of a variable
UPLOAD_TOKEN = "RTGATE_UPLOAD_TOKEN"  # noqa: S105
_SECRET = re.compile(r"token|passw|secret", re.IGNORECASE)  # a signature that expires is another matter
# Those that LAVA fetches (`lava_dispatcher/actions/deploy/download.py`); for scp, the worker has the user's key.
# The first letter after the slashes keeps ssh from taking a host for an option.
_URL = re.compile(r"(?:https?|file|scp)://[A-Za-z0-9_/\[][A-Za-z0-9._~:/?&=%@+,\[\]-]*")
_LONGEST = 2000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def is_url(text: str) -> bool:
    """Return whether a word on the command line means a URL."""
    return "://" in text


def file_url(text: str, what: str = "a file") -> str:
    """Return the URL of a file that LAVA fetches, if it may stand in a job.

    Raises:
        ConfigError: it may not; the message repeats no secret and begins with `what` the file is.
    """
    name = _checked(text, what).path.rpartition("/")[2]
    if not _FILE_NAME.fullmatch(name):
        raise ConfigError(
            f"the URL of {what} does not end in a plain file name, and a boot loader gets it: {text[:200]!r} (allowed: "
            "letters, digits, '._+-')"
        )
    return text


def storage_url(text: str, option: str, token: str) -> str:
    """Return the URL of a storage that files are uploaded to.

    Args:
        text: as somebody wrote it.
        option: that names it.
        token: the variable in which a token belongs.

    Raises:
        ConfigError: it is not a URL of http or https alone; the message repeats no secret.
    """
    parts = _split(text, option)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{option} needs a URL of http or https")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"{option}: no user, password or query may stand in the URL, which others can read: a token comes from "
            f"{token}"
        )
    _checked(text, option)
    return text


def directory_url(text: str) -> str:
    """Return the URL below which a directory's files will be, or raise ConfigError; the message repeats no secret."""
    if _checked(text, "--artefacts-url").query:
        raise ConfigError("--artefacts-url: names of files are added to it, so it has no query and no fragment")
    return text


def suffix(url: str) -> str:
    """Return the last suffix of the file that a URL names, without its dot; a query is not part of it."""
    return urlsplit(url).path.rpartition(".")[2]


def published_name(path: Path) -> str:
    """Return a file's name as it may stand in a URL and on U-Boot's command line."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.name)[-80:].lstrip(".-") or "file"


def _split(text: str, what: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        raise ConfigError(f"the URL of {what} cannot be read") from None


def _checked(text: str, what: str) -> SplitResult:
    """Return the parts of a URL without a secret and without letters of another meaning. Raises ConfigError."""
    parts = _split(text, what)
    if parts.password or ("@" in parts.netloc and parts.scheme != "scp"):
        raise ConfigError(
            f"the URL of {what} holds a user's name or password, and a job is public: {parts.scheme}://...@"
            f"{parts.hostname}"
        )
    secret = next((key for key, _ in parse_qsl(parts.query, keep_blank_values=True) if _SECRET.search(key)), "")
    if secret:
        raise ConfigError(
            f"a URL in a job is public, and {secret!r} in that of {what} looks like a secret: the lab must be able to "
            "fetch the file without it"
        )
    if len(text) > _LONGEST or not _URL.fullmatch(text):
        raise ConfigError(
            f"{text[:80]!r} is not a URL for {what} (allowed: http, https, file, scp; without spaces and '#')"
        )
    return parts
