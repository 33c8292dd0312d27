# SPDX-License-Identifier: MIT
"""Whether what a change altered ran: all cases of a run together, by instruction.

Code that did not run counts only where it matters: all that is changed of a function, or code that can take long
(it calls, or jumps back, as the function did not before).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtgate.records.explained import CaseExplanation, Change


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExercise:
    """What ran in the cases of a run.

    Attributes:
        total, ran: changed instructions, and those that ran in any case.
        times: by case, how often the instruction ran that ran most.
        missing: by function, what matters and ran in no case, in words.
        unlocated: functions that ran, in which nobody knows where the change is.
        untraced: cases of the run of which nobody knows what ran in them.
    """

    total: int
    ran: int
    times: Mapping[str, int]
    missing: Mapping[str, str]
    unlocated: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()

    @property
    def gap_sentence(self) -> str:
        """What matters and ran in no case that was traced, in words; empty if all of it ran."""
        if not self.missing:
            return ""
        unknown = f"; what ran in {_first(self.untraced)} is not known" if self.untraced else ""
        return f"in no traced case ran {_first(list(self.missing.values()))}{unknown}"

    @property
    def summary(self) -> str:
        """The figures, in words; empty if nothing could be located."""
        counts = ", ".join(f"{case} {times}" for case, times in self.times.items())
        figures = (
            f"changed instructions: {self.ran} of {self.total} ran, {sum(self.times.values())} times ({counts})"
            if self.total
            else ""
        )
        remark = f"which instructions changed is not known in {_first(self.unlocated)}" if self.unlocated else ""
        return "; ".join(filter(None, (figures, remark)))


def _first(names: Sequence[str]) -> str:
    """Return the first three of some names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def run_exercise(cases: Mapping[str, CaseExplanation]) -> RunExercise:
    """Return what ran in all cases of a run of the same two kernels, by the name of the case."""
    by_function: dict[str, list[Change]] = {}
    for explanation in cases.values():
        for change in explanation.changes:
            by_function.setdefault(change.function, []).append(change)
    total = count = 0
    gaps: dict[str, str] = {}
    functions = [name for name, changes in by_function.items() if not changes[0].boots] or list(by_function)
    for name in sorted(by_function):
        changes = by_function[name]
        missed_places = set(changes[0].missed).intersection(*(change.missed for change in changes))
        total += changes[0].instructions
        count += changes[0].instructions - len(missed_places)
        if name not in functions:
            continue
        slow = [place for place in changes[0].slow if all(place in change.slow for change in changes)]
        if not any(change.times for change in changes):
            first = next((place for place in changes[0].missed), name)
            gaps[name] = f"what changed in {name} (from {first})" if first != name else name
        elif slow:
            gaps[name] = f"the new code at {slow[0]}"
    return RunExercise(
        total=total,
        ran=count,
        times={
            case: max((change.times for change in explanation.changes if change.instructions), default=0)
            for case, explanation in cases.items()
        },
        missing=gaps,
        unlocated=tuple(sorted(name for name, changes in by_function.items() if not changes[0].instructions)),
    )
