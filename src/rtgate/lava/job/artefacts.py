# SPDX-License-Identifier: MIT
"""How kernel, ramdisk and device tree get to a lab's worker: by a file server of our own, a storage, or given URLs.

A directory that somebody uploads is a storage, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.client import AccessRefused, Http, Reply
from rtgate.lava.job.urls import published_name


class Store(Protocol):
    """Makes a file of this machine available to a lab's workers."""

    def publish(self, path: Path) -> str:
        """Return the URL of a file from now on."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The lab's own storage, which takes files by HTTP PUT below a URL; equal files get equal names."""

    url: str
    http: Http

    def publish(self, path: Path) -> str:
        """Upload a file, unless it is there, and return its URL.

        Raises:
            ConfigError: the file cannot be read, or the storage refuses it.
            InfrastructureError: the storage does not answer.
        """
        try:
            with path.open("rb") as file:
                where = f"{self.url.rstrip('/')}/{_content_name(path, file)}"
                there = _head(where, self.http)
                size = there.headers.get("content-length") if there is not None and there.status == 200 else None
                if size == str(path.stat().st_size):
                    return where
                reply = self.http.repeat("PUT", where, data=file)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        if reply.status not in {200, 201, 204}:
            raise ConfigError(f"the storage refuses {where}: HTTP {reply.status}")
        return where


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory whose content somebody uploads, so that it is below a URL; equal files get equal names."""

    path: Path
    url: str

    def publish(self, path: Path) -> str:
        """Copy a file into the directory, unless it is there, and return the URL that it will have.

        Raises:
            ConfigError: the file cannot be read.
            InfrastructureError: the directory cannot be written.
        """
        try:
            with path.open("rb") as file:
                name = _content_name(path, file)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        copy = self.path / name
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                files.copy(path, copy)
        except OSError as error:
            raise InfrastructureError(f"{copy} cannot be written: {error.strerror}") from error
        return f"{self.url.rstrip('/')}/{name}"


def _content_name(path: Path, file: BufferedReader) -> str:
    """Return what a file is called in a storage, by what it holds; `file` is read to its end. Raises OSError."""
    return f"{hashlib.file_digest(file, 'sha256').hexdigest()}/{published_name(path)}"


def check(urls: Iterable[str], http: Http) -> None:
    """Check that what a job is going to fetch is there; what only a worker can see is left to it.

    Raises:
        ConfigError: a file is not there, or empty.
        InfrastructureError: a server does not answer.
    """
    for url in dict.fromkeys(urls):
        if not url.startswith(("http://", "https://")):
            continue
        reply = _head(url, http)
        if reply is None or reply.status != 200:
            reply = http.repeat("GET", url, follow=True, headers={"Range": "bytes=0-0"})
        if reply.status not in {200, 206}:
            raise ConfigError(f"{url}: HTTP {reply.status}: the lab could not fetch it either")
        if reply.headers.get("content-length") == "0":
            raise ConfigError(f"{url}: the file is empty")


def _head(url: str, http: Http) -> Reply | None:
    """Return the answer to HEAD; None where it is refused.

    As for a URL that was signed for GET, or for a file that is not there, where nobody may list what is.
    """
    try:
        return http.repeat("HEAD", url, follow=True)
    except AccessRefused:
        return None
