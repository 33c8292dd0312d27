# SPDX-License-Identifier: MIT
"""What it takes to judge a change that did not run: other loads, boards, or neither."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rtgate.records.explained import CaseExplanation


def remedy(explanation: CaseExplanation, missing: Collection[str]) -> str:
    """Return what reaches a change that ran in no case of a run, in words.

    Args:
        explanation: of one of the cases, with the loads that were tried after it.
        missing: functions whose change did not run; empty where nobody looked by instruction.
    """
    if missing and {change.function for change in explanation.changes if change.boots}.issuperset(missing):
        return "as it runs while the kernel boots only"
    loads = explanation.other_loads
    if not loads or not missing:
        return "boards or other loads needed"
    clauses: list[str] = []
    rest = set(missing)
    profiles = {profile: _reached(explanation, profile) for profile in loads.values()}
    while reached := max((functions & rest for functions in profiles.values()), key=len):
        profile = next(name for name, functions in profiles.items() if functions & rest == reached)
        names = _loads_that_reach(explanation, profile, reached)
        what = "it" if reached == set(missing) else f"{len(reached)} of {len(missing)} functions"
        clauses.append(
            f"{_list(names, 'and')} {'reaches' if len(names) == 1 else 'reach'} {what} (gate with --profile {profile})"
        )
        rest -= reached
    if not clauses:
        return f"nor beside {_list(list(loads), 'or')}, boards needed"
    return ", ".join([*clauses, *(["boards needed for the rest"] if rest else [])])


def _list(names: Sequence[str], word: str) -> str:
    """Return names with a word before the last."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _reached(explanation: CaseExplanation, profile: str) -> set[str]:
    """Return the functions that the loads of a profile reach."""
    own = {load for load, name in explanation.other_loads.items() if name == profile}
    return {function for function, loads in explanation.reached_by.items() if own.intersection(loads)}


def _loads_that_reach(explanation: CaseExplanation, profile: str, functions: Collection[str]) -> list[str]:
    """Return the loads of a profile that reach any of some functions."""
    reaching = {load for function in functions for load in explanation.reached_by[function]}
    return [load for load, name in explanation.other_loads.items() if name == profile and load in reaching]
