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
    """

    test: str
    reason: str
    cpus: int = 0


NEVER = "false"
"""The test of a need that no target meets: the board's file, or the tuning, says so before anything boots."""


def unmet_needs(needs: Iterable[Need], cpus: int) -> tuple[str, ...]:
    """Return the reasons that are known before a boot of a board with so many CPUs; empty if it may run the case."""
    return tuple(need.reason for need in needs if need.test == NEVER or need.cpus > cpus)
