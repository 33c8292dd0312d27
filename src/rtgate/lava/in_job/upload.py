# SPDX-License-Identifier: MIT
"""Records to a storage by HTTP PUT, for labs that have one."""

from __future__ import annotations

import io
import os
import re
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rtgate.errors import ConfigError, InfrastructureError

TOKEN = "RTGATE_UPLOAD_TOKEN"  # noqa: S105 - the name of a variable
_ATTEMPTS = 3
_WAIT_S = 2.0  # doubled after each attempt
_TIMEOUT_S = 60.0


def check(url: str, environ: Mapping[str, str] = os.environ) -> None:
    """Check that a URL is one to upload to, and that the token can be read, before anything is measured.

    Raises ConfigError; the message has no part that may be a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("--upload needs a URL of http or https")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(f"--upload: no user, password or query may stand in a URL; a token comes from {TOKEN}")
    _token(environ)


def put(records: Path, url: str, name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Upload a directory of records as `URL/job-JOB/NAME.tar.gz` and return the whole URL.

    Raises:
        ConfigError: as `check`.
        InfrastructureError: the storage did not take it, after three attempts.
    """
    check(url, environ)
    job = environ.get("LAVA_JOB_ID", "")
    whole = f"{url.rstrip('/')}/job-{job if job.isdecimal() else 'none'}/{name}.tar.gz"
    data = _archive(records)
    headers = {"Content-Type": "application/gzip"}
    token = _token(environ)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_WAIT_S * 2 ** (attempt - 1))
        why = _put(urllib.request.Request(whole, data=data, method="PUT", headers=headers))  # noqa: S310 - see `check`
        if not why:
            return whole
    raise InfrastructureError(f"the records could not be uploaded to {whole}: {why}")


def _put(request: urllib.request.Request) -> str:
    """Return why a request failed, empty if it did not. urllib does not follow redirections of a PUT."""
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see `check`
            return "" if 200 <= answer.status < 300 else f"the storage answered {answer.status}"
    except urllib.error.HTTPError as error:
        with error:
            return f"the storage answered {error.code}"
    except (OSError, ValueError) as error:
        return f"no connection: {error}"


def _archive(records: Path) -> bytes:
    stream = io.BytesIO()
    try:
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            archive.add(records, arcname="records")
    except OSError as error:
        raise InfrastructureError(f"the records cannot be read: {error}") from error
    return stream.getvalue()


def _token(environ: Mapping[str, str]) -> str:
    """Return the token: of the environment, of a file, or of the job's secrets, which are lines `NAME=VALUE`."""
    if environ.get(TOKEN):
        return environ[TOKEN].strip()
    path = environ.get(f"{TOKEN}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:  # whose text holds the path, which may be the token itself
            raise ConfigError(f"the file that {TOKEN}_FILE names cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"the file that {TOKEN}_FILE names holds no token") from None
    try:
        secrets = Path(f"/lava-{environ.get('LAVA_JOB_ID', '')}/secrets")
        match = re.search(rf"^{TOKEN}=(.*)$", secrets.read_text(encoding="utf-8"), re.MULTILINE)
        return match[1].strip().strip("'\"") if match else ""
    except (OSError, UnicodeDecodeError):
        return ""
