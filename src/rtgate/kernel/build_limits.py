# SPDX-License-Identifier: MIT
"""How long a build may take, and how much of the disk one may fill that nobody has reviewed.

A Makefile can loop for ever, and write until nobody else has room. Who must act when a build is stopped may not be for
the build to decide: what it prints does not count. The room is there before it starts, so what is missing later it has
taken, or somebody else has.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import durations
from rtgate.errors import BuildLimitError, InfrastructureError

MIB, GIB = 1 << 20, 1 << 30
# Whoever waits for another build waits for 4 h (files.LOCK_S): a build that is stopped is stopped before.
TIME_S = 3 * 3600.0
# A shipped build takes 0.2 GiB beside its sources; those of distributions with debug information take 20 and more.
DISK = 4 * GIB
# What others need to end in order; below it the disk counts as full.
RESERVE = 256 * MIB
LOG = 256 * MIB  # what a build may print; an allmodconfig with all its warnings prints 50 MiB
_POLL_S = 1.0
_FULL = "filled the disk"
_POLICY = "policy.yaml of the target branch"
_COUNT_S = 60.0  # `du` of a kernel's sources takes one second, ten with nothing cached


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """What a build may take.

    Attributes:
        time_s: seconds.
        disk: bytes on disk that one in confinement may add; also the size of a file.
    """

    time_s: float = TIME_S
    disk: int = DISK


def require_room(places: Sequence[Path], limits: BuildLimits) -> None:
    """Check that a build may fill what it is allowed to. Raises InfrastructureError, before anything of it runs."""
    for place in places:
        room = free(place)
        if room < limits.disk + RESERVE:
            raise InfrastructureError(
                f"{place} has {_size(room)} free, and an unreviewed build may fill {_size(limits.disk)}: "
                "make room, or set build_disk in policy.yaml to less"
            )


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count // MIB} MiB"


def free(place: Path) -> int:
    """Return the bytes that a user may still write where a directory is."""
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def is_full(places: Sequence[Path]) -> bool:
    """Return whether a disk is full, as the file system itself says."""
    return any(free(place) < RESERVE for place in places)


def disk_usage(places: Sequence[Path]) -> int | None:
    """Return the bytes on disk below directories, None if nobody can count them in a minute, or start a program."""
    try:
        du = subprocess.run(
            ["du", "--summarize", "--total", "--block-size=1", "--one-file-system", "--", *map(str, places)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COUNT_S,
            check=False,  # files vanish while they are counted
        )
    except (OSError, subprocess.TimeoutExpired):  # a build may also start as many processes as its user may have
        return None
    words = du.stdout.rpartition("\ttotal")[0].split("\n")[-1]
    return int(words) if words.isdecimal() else None


@dataclass(slots=True)
class Watch:
    """Stops a build that takes too long, or too much.

    Attributes:
        limits: of the build.
        places: directories that it may fill, of one in confinement; none else.
        stop: ends it.
    """

    limits: BuildLimits
    places: Sequence[Path]
    stop: Callable[[], None]
    _reason: str = ""
    _option: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Watch until `end`; for a thread of its own."""
        deadline = time.monotonic() + self.limits.time_s
        before = disk_usage(self.places) if self.places else None
        while not self._ended.wait(min(_POLL_S, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                option = f"--build-time, or build_time in {_POLICY}"
                self.give_up(f"took longer than {durations.format_s(self.limits.time_s)}", option)
            elif self.places:
                self._look_at_disk(before)
            if self._reason:
                return

    def _look_at_disk(self, before: int | None) -> None:
        now = disk_usage(self.places)
        if before is not None and now is not None and now - before > self.limits.disk:
            self.give_up(f"filled more than {_size(self.limits.disk)} of the disk", f"build_disk in {_POLICY}")
        elif is_full(self.places):
            self.give_up(_FULL)

    def give_up(self, reason: str, option: str = "") -> None:
        """Stop the build for a reason, `took` or `filled` something; `option` is what would allow it more."""
        self._reason, self._option = reason, option
        self.stop()

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def check(self) -> None:
        """Raise where the build was stopped, once nothing of it runs any more.

        Raises:
            BuildLimitError: it was stopped by what it did itself.
            InfrastructureError: the disk is full, also without what it held open.
        """
        if self._reason == _FULL and is_full(self.places):
            raise InfrastructureError(
                f"{self.places[0]} is full, and not by this build: whoever runs this machine must make room"
            )
        if self._reason:
            more = f"; where the kernel does need so much, set {self._option}" if self._option else ""
            raise BuildLimitError(
                f"the build was stopped: it {self._reason}. The author of the change must look at what it does{more}"
            )
