# SPDX-License-Identifier: MIT
"""A file that rtgate itself serves to a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtgate.lava.job.file_server import FileServer, serving

DATA = bytes(range(256)) * 1000


@pytest.fixture
def files() -> Iterator[FileServer]:
    with serving("", "http://127.0.0.1:8000") as running:
        yield running


@pytest.fixture
def url(files: FileServer, tmp_path: Path) -> str:
    (tmp_path / "Image").write_bytes(DATA)
    return files.publish(tmp_path / "Image")
