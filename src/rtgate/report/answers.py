# SPDX-License-Identifier: MIT
"""What verdicts say, as people read it: what many boots of many cases say alike stands there once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.judge.verdict import Kind, Status, Verdict, is_open
from rtgate.report.cases import CaseReport
from rtgate.report.text import plain

_HEADINGS = _KERNEL, _LAB, _UNDECIDED, _WAIVED, _SLOWER, _RULED_OUT = (
    "What is wrong with the kernel",
    "What went wrong in the lab, or in a measurement",
    "What could not be decided",
    "What is waived",
    "Slower for certain, by less than what blocks",
    "What the boots rule out",
)
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
        return tuple({one.place: one for one in self.owners}.values())

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


def sections(found: Sequence[CaseReport]) -> tuple[Section, ...]:
    """Return what is to be read: the kernel's part first, then the lab's; not limits that are kept."""
    by_heading: dict[str, list[tuple[CaseReport, Verdict]]] = {}
    for case in found:
        for one in case.causes:
            by_heading.setdefault(_heading(one), []).append((case, one))
    return tuple(Section(name, _alike(by_heading[name])) for name in _HEADINGS if name in by_heading)


def _alike(verdicts: Sequence[tuple[CaseReport, Verdict]]) -> tuple[Answer, ...]:
    """Return one answer for what several verdicts say; the boot that one names is the first of them."""
    alike: dict[tuple[Status, str], list[tuple[CaseReport, Verdict]]] = {}
    for case, one in verdicts:
        sentence = plain(one.sentence).removeprefix(f"{one.boot}: " if one.boot else "")
        alike.setdefault((one.status, sentence), []).append((case, one))
    return tuple(
        Answer(owners[0][1], plain(owners[0][1].sentence), tuple(case for case, _ in owners))
        for owners in alike.values()
    )


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
    if verdict.status in {Status.MISS, Status.ERROR}:
        return _LAB
    if is_open(verdict):
        return _UNDECIDED
    return {Kind.WAIVED: _WAIVED, Kind.SLOWER: _SLOWER, Kind.NO_WORSE: _RULED_OUT}.get(verdict.kind, "")
