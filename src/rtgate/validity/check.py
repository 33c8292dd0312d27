# SPDX-License-Identifier: MIT
"""A validity check of a record: how it came out, and what it takes away."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckResult(Enum):
    """How a check came out."""

    OK = "ok"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class Invalidates(Enum):
    """What a failed check takes away."""

    EVERYTHING = "everything"
    FIGURES = "figures"  # what a tool found broken stands
    GOOD_NEWS = "good news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One validity check of one record."""

    name: str
    held: CheckResult
    spoils: Invalidates
    sentence: str


def judged(name: str, spoils: Invalidates, problem: str, fine: str) -> Check:
    """Return a check that failed if there is a problem."""
    return Check(
        name=name, held=CheckResult.FAILED if problem else CheckResult.OK, spoils=spoils, sentence=problem or fine
    )


def not_applicable(name: str, spoils: Invalidates, why: str) -> Check:
    """Return a check that does not apply."""
    return Check(name=name, held=CheckResult.NOT_APPLICABLE, spoils=spoils, sentence=why)
