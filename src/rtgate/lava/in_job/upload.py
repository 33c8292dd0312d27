# SPDX-License-Identifier: MIT
"""Records to a storage by HTTP PUT, for labs that have one."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from rtgate.durations import Deadline
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import Http
from rtgate.http.patience import Patience
from rtgate.http.secret import Token, find_token
from rtgate.lava.job.urls import UPLOAD_TOKEN, storage_url

# Less than a test has for its beginning and end (`request._AROUND_S`): else LAVA ends it, and all is measured again.
_LONGEST_S = 120.0


class _Archive(io.BytesIO):
    """What is uploaded, for so long: a storage that takes a little now and then never lets a socket time out."""

    def __init__(self, data: bytes, deadline: Deadline) -> None:
        super().__init__(data)
        self._deadline = deadline

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes. Raises InfrastructureError: the time is over."""
        if self._deadline.expired:
            raise InfrastructureError(f"the records could not be uploaded in {self._deadline.allowed:.0f} s")
        return super().read(size)


def check(url: str, job: str, environ: Mapping[str, str] = os.environ) -> None:
    """Check that a URL is one to upload to, and that the token can be read, before anything is measured.

    `job` is the job's number, as `InJob` has it. Raises ConfigError; the message has no part that may be a secret.
    """
    storage_url(url, "--upload", UPLOAD_TOKEN)
    _token(job, environ)


def put(records: Path, url: str, job: str, name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Upload a directory of records as `URL/job-JOB/NAME.tar.gz` and return the whole URL.

    Outside of a server, where `job` is empty, JOB is `none`.

    Raises:
        ConfigError: as `check`, or the storage refuses it.
        InfrastructureError: the storage did not take it in time.
    """
    check(url, job, environ)
    whole = f"{url.rstrip('/')}/job-{job or 'none'}/{name}.tar.gz"
    archive = _Archive(_packed(records), Deadline.after(_LONGEST_S))
    http = Http(_token(job, environ), "Bearer", Patience(total=_LONGEST_S))
    reply = http.repeat("PUT", whole, data=archive, headers={"Content-Type": "application/gzip"})
    if not 200 <= reply.status < 300:
        raise ConfigError(f"the storage refuses {whole}: HTTP {reply.status}")
    return whole


def _packed(records: Path) -> bytes:
    stream = io.BytesIO()
    try:
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            archive.add(records, arcname="records")
    except OSError as error:
        raise InfrastructureError(f"the records cannot be read: {error}") from error
    return stream.getvalue()


def _token(job: str, environ: Mapping[str, str]) -> Token | None:
    """Return the token: of the environment, of a file, or of the job's secrets, which are lines `NAME=VALUE`.

    Who may read the file is decided by whoever made the container, which this job alone has.
    """
    token = find_token(environ, UPLOAD_TOKEN, f"{UPLOAD_TOKEN}_FILE", private=False)
    if token is not None:
        return token
    try:
        text = Path(f"/lava-{job}/secrets").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(rf"^{UPLOAD_TOKEN}=(.*)$", text, re.MULTILINE)
    value = match[1].strip().strip("'\"") if match else ""
    return Token(value, "the job's secrets") if value else None
