# SPDX-License-Identifier: MIT
"""What verdicts say, as people read it: what many boots of many cases say alike stands there once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rtgate.judge.verdict import Kind, Status, Verdict, is_open
from rtgate.report.cases import CaseReport
from rtgate.report.text import plain_text

_HEADINGS = _KERNEL, _INVALID, _LAB, _UNDECIDED, _WAIVED, _SLOWER, _RULED_OUT = (
    "What is wrong with the kernel",
    "What makes a measurement invalid",
    "What went wrong in the lab, or was not measured",
    "What could not be decided",
    "What is waived",
    "Slower for certain, by less than what blocks",
    "What the boots rule out",
)
_Item = TypeVar("_Item")
_BRACKETS = re.compile(r"[()]|; ")


@dataclass(frozen=True, slots=True)
class Answer:
    """One sentence, and whose verdicts say it.

    Attributes:
        verdict: the first of them.
        sentence: without control characters; its further lines are what a target printed.
        owners: the case of each of the verdicts: one several times, if several of its boots say so.
    """

    verdict: Verdict
    sentence: str
    owners: tuple[CaseReport, ...]

    @property
    def cases(self) -> tuple[CaseReport, ...]:
        """Each case once."""
        return tuple({case.place: case for case in self.owners}.values())

    @property
    def count(self) -> str:
        """How often it was said, in words; empty for once."""
        if len(self.owners) == 1:
            return ""
        cases = len(self.cases)
        return f"the same {len(self.owners)} times" + (f", in {cases} cases" if cases > 1 else "")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and the answers below it, never none."""

    heading: str
    answers: tuple[Answer, ...]


def sections(reports: Sequence[CaseReport]) -> tuple[Section, ...]:
    """Return what is to be read: the kernel's part first, then the lab's; not limits that are kept."""
    by_heading: dict[str, list[tuple[CaseReport, Verdict]]] = {}
    for case in reports:
        for verdict in case.causes:
            by_heading.setdefault(_heading(verdict), []).append((case, verdict))
    return tuple(Section(name, _answers(by_heading[name])) for name in _HEADINGS if name in by_heading)


def _answers(verdicts: Sequence[tuple[CaseReport, Verdict]]) -> tuple[Answer, ...]:
    """Return one answer for what several verdicts say; the boot that one names is the first of them."""
    return tuple(
        Answer(owners[0][1], plain_text(owners[0][1].sentence), tuple(case for case, _ in owners))
        for owners in _alike(verdicts, lambda pair: pair[1])
    )


def group_verdicts(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, int]]:
    """Return the first of the verdicts of a case that say the same of several boots, and how many do."""
    return [(group[0], len(group)) for group in _alike(verdicts, lambda verdict: verdict)]


def _alike(items: Sequence[_Item], verdict_of: Callable[[_Item], Verdict]) -> list[list[_Item]]:
    """Return items in groups whose verdicts say the same, but for the boot that they name."""
    groups: dict[tuple[Status, str], list[_Item]] = {}
    for item in items:
        verdict = verdict_of(item)
        words = plain_text(verdict.sentence).removeprefix(f"{verdict.boot}: " if verdict.boot else "")
        groups.setdefault((verdict.status, words), []).append(item)
    return list(groups.values())


def lead(sentence: str) -> tuple[str, str]:
    """Return the first statement of a sentence, and what follows it: `; ` outside of brackets parts statements."""
    depth = 0
    for match in _BRACKETS.finditer(sentence):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "; " and depth <= 0:
            return sentence[: match.start()], sentence[match.end() :]
    return sentence, ""


def _heading(verdict: Verdict) -> str:
    """Return what a verdict is listed below; empty for a limit that is kept, and what else nobody has to read."""
    if verdict.status is Status.FAIL:
        return _KERNEL
    if verdict.status is Status.ERROR:
        return _INVALID
    if verdict.status is Status.MISS:
        return _LAB
    if is_open(verdict):
        return _UNDECIDED
    return {Kind.WAIVED: _WAIVED, Kind.SLOWER: _SLOWER, Kind.NO_WORSE: _RULED_OUT}.get(verdict.kind, "")
