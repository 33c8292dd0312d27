# SPDX-License-Identifier: MIT
"""Categories: who must act, by the fixed form in which reports begin a message: `STATUS kind: sentence`."""

from __future__ import annotations

from dataclasses import dataclass

from rtgate.judge.verdict import Kind, Verdict
from rtgate.report.text import plain_text

_BROKEN_KERNEL = "|".join(kind.value for kind in (Kind.MERGE, Kind.BUILD, Kind.BOOT, Kind.FAULT, Kind.HANG))


@dataclass(frozen=True, slots=True)
class Category:
    """A category and the regular expression that a whole message must match.

    The expressions are understood alike by JavaScript (Allure 3), Java (Allure 2) and Python.
    """

    name: str
    message: str


CATEGORIES: tuple[Category, ...] = (
    Category("Kernel: does not merge, build or boot; fault or hang", rf"^FAIL (?:{_BROKEN_KERNEL}): [\s\S]*"),
    Category("Kernel: limit broken, regression or wrong flavour", rf"^FAIL (?!(?:{_BROKEN_KERNEL}): )[\s\S]*"),
    Category("Measurement: invalid, or output nobody understands", r"^ERROR [\s\S]*"),
    Category("Lab: it failed, or nothing reported", r"^MISS [\s\S]*"),
    Category("Not decided: inconclusive, or measured and not judged", r"^(?:DONE|SKIP) [\s\S]*"),
)


def message(verdict: Verdict) -> str:
    """Return a verdict as reports show it; the categories' expressions rely on this form."""
    return f"{verdict.status.value} {verdict.kind.value}: {plain_text(verdict.full_sentence)}"
