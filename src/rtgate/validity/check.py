# SPDX-License-Identifier: MIT
"""What a validity check is: what it needs, how it judges a record, what its failure takes away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from rtgate.board.boot import TimeBase
from rtgate.board.pcie import Function
from rtgate.board.tuning import Tuning
from rtgate.records.record import Record


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
class Answer:
    """What a check says of one record.

    Attributes:
        invalidates: what this failure takes away, if that is not what the check's failures do.
        follows: the check whose failure explains this one: where it failed too, this one is not applicable.
        unseen: whether it does not apply because a look came too late: other boots of the case must answer instead.
    """

    result: CheckResult
    sentence: str
    invalidates: Invalidates | None = None
    follows: str = ""
    unseen: bool = False


def answer_for(problem: str, fine: str, invalidates: Invalidates | None = None) -> Answer:
    """Return the answer of a check that failed if there is a problem."""
    result = CheckResult.FAILED if problem else CheckResult.OK
    return Answer(result=result, sentence=problem or fine, invalidates=invalidates)


def not_applicable(why: str) -> Answer:
    """Return the answer of a check that does not apply."""
    return Answer(result=CheckResult.NOT_APPLICABLE, sentence=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What decides which files a plan reads for the checks.

    Attributes:
        functions: the PCI functions that are expected in the case, by name.
    """

    time: TimeBase
    tuning: Tuning
    functions: Mapping[str, Function] = field(default_factory=dict)


def _reads_nothing(_: PlanInputs) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityCheck:
    """One validity check.

    Attributes:
        name: as verdicts and the `not_applicable` of boards have it.
        holds: when it holds, for people (Markdown).
        invalidates: what its failure takes away.
        exceptions: when its failure takes away something else, for people.
        judge: says how it came out for a record that was measured.
        reads: files below /proc and /sys that a plan reads before and after measuring, as patterns of the shell.
        readings: patterns of those files that are evidence of this check; the others are settings, which must not
            change. They stand in `Evidence.readings`, by path.
    """

    name: str
    holds: str
    invalidates: Invalidates
    exceptions: str = ""
    judge: Callable[[Record], Answer]
    reads: Callable[[PlanInputs], tuple[str, ...]] = _reads_nothing
    readings: tuple[str, ...] = ()


def unless_virtual(*files: str) -> Callable[[PlanInputs], tuple[str, ...]]:
    """Return that a plan reads files on any board but one on virtual time, where every read moves the histogram."""
    return lambda inputs: () if inputs.time is TimeBase.VIRTUAL else files


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How one check of one record came out."""

    name: str
    result: CheckResult
    invalidates: Invalidates
    sentence: str
    unseen: bool = False

    def failure_in(self, boot: str) -> str:
        """Return the sentence of a check that failed, with the boot that it failed in."""
        return f"invalid measurement in {boot} ({self.name}): {self.sentence}"
