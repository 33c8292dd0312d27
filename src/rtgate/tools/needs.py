# SPDX-License-Identifier: MIT
"""Needs: what a tool or a load must find on the target, so that a case which cannot run is SKIP with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One need.

    Attributes:
        test: a command of the POSIX shell that succeeds where the need is met.
        reason: what is missing where it is not, for people.
        cpus: how many CPUs the need is about, so that a board's file tells whether it can be met; 0 for something else.
        file_system: `tracefs` or `debugfs`, which the test looks into; a board's own system may not have mounted it.
    """

    test: str
    reason: str
    cpus: int = 0
    file_system: str = ""

    @property
    def mounting_test(self) -> str:
        """The test, which mounts the file system where it must. Our root filesystems have all mounts by themselves."""
        if not self.file_system:
            return self.test
        mount = f"mount -t {self.file_system} {self.file_system} {_MOUNT_POINTS[self.file_system]}"
        return f"{{ {self.test} || {{ {mount} && {self.test}; }}; }} 2>/dev/null"


_MOUNT_POINTS = {"tracefs": "/sys/kernel/tracing", "debugfs": "/sys/kernel/debug"}


NEVER = "false"
"""The test of a need that no target meets: the board's file, or the tuning, says so before anything boots."""


def unmet_needs(needs: Iterable[Need], cpus: int) -> tuple[str, ...]:
    """Return the reasons that are known before a boot of a board with so many CPUs; empty if it may run the case."""
    return tuple(need.reason for need in needs if need.test == NEVER or need.cpus > cpus)
