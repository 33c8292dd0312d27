# SPDX-License-Identifier: MIT
"""Room on a disk, before an hour of measuring fills it."""

from __future__ import annotations

import os
from pathlib import Path

from rtgate.errors import InfrastructureError


def has_room(directory: Path, needed_mib: int = 64) -> None:
    """Check that a directory's disk has room before an hour of measuring starts. Raises InfrastructureError."""
    place = directory
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize // (1 << 20)
    if free < needed_mib:
        text = f"{place} has {free} MiB left, records need {needed_mib} MiB: make room or choose another directory"
        raise InfrastructureError(text)
