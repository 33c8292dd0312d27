# SPDX-License-Identifier: MIT
"""Needs: what a tool or a load must find on the target, so that a case which cannot run is SKIP with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One need.

    Attributes:
        test: a command of the POSIX shell that succeeds where the need is met.
        reason: what is missing where it is not, for people.
    """

    test: str
    reason: str
