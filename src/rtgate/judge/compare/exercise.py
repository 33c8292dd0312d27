# SPDX-License-Identifier: MIT
"""Whether what a change altered ran: all cases of a run together, by instruction.

Code that did not run counts only where it matters: all that is changed of a function, or code that can take long
(it calls, or jumps back, as the function did not before).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rtgate.records.explained import CaseExplanation, Change


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExercise:
    """What ran in the cases of a run.

    Attributes:
        total, ran: changed instructions, and those that ran in any case.
        times: by case, how often the instruction ran that ran most.
        missing: what matters and ran in no case, in words.
        unlocated: functions that ran, in which nobody knows where the change is.
    """

    total: int
    ran: int
    times: Mapping[str, int]
    missing: tuple[str, ...]
    unlocated: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The figures, in words; empty if nothing could be located."""
        each = ", ".join(f"{case} {times}" for case, times in self.times.items())
        figures = (
            f"changed instructions: {self.ran} of {self.total} ran, {sum(self.times.values())} times ({each})"
            if self.total
            else ""
        )
        names = ", ".join(self.unlocated[:3])
        more = f" and {len(self.unlocated) - 3} more" if len(self.unlocated) > 3 else ""
        unknown = f"which instructions changed is not known in {names}{more}" if names else ""
        return "; ".join(filter(None, (figures, unknown)))


def run_exercise(cases: Mapping[str, CaseExplanation]) -> RunExercise:
    """Return what ran in all cases of a run of the same two kernels, by the name of the case."""
    by_function: dict[str, list[Change]] = {}
    for seen in cases.values():
        for change in seen.changes:
            by_function.setdefault(change.function, []).append(change)
    total = ran = 0
    missing: list[str] = []
    needed = [name for name, each in by_function.items() if not each[0].boots] or list(by_function)
    for name in sorted(by_function):
        each = by_function[name]
        missed = set(each[0].missed).intersection(*(one.missed for one in each))
        total += each[0].instructions
        ran += each[0].instructions - len(missed)
        if name not in needed:
            continue
        slow = [place for place in each[0].slow if all(place in one.slow for one in each)]
        if not any(one.times for one in each):
            first = next((place for place in each[0].missed), name)
            missing.append(f"what changed in {name} (from {first})" if first != name else name)
        elif slow:
            missing.append(f"the new code at {slow[0]}")
    return RunExercise(
        total=total,
        ran=ran,
        times={
            case: max((change.times for change in seen.changes if change.instructions), default=0)
            for case, seen in cases.items()
        },
        missing=tuple(missing),
        unlocated=tuple(sorted(name for name, each in by_function.items() if not each[0].instructions)),
    )
