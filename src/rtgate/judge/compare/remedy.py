# SPDX-License-Identifier: MIT
"""What it takes to judge a change that did not run: other loads, boards, or neither."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from rtgate.records.explained import CaseExplanation


def remedy_sentence(explanation: CaseExplanation, missing: Collection[str], *, untraced: bool = False) -> str:
    """Return what reaches a change that ran in no case of a run, in words.

    Args:
        explanation: of one of the cases, with the loads that were tried after it.
        missing: functions whose change did not run; empty where nobody looked by instruction.
        untraced: whether a case of the run was not traced: its load, too, may reach them.
    """
    if missing and {change.function for change in explanation.changes if change.boots}.issuperset(missing):
        return "as it runs while the kernel boots only"
    loads = explanation.other_loads
    deaths = _death_clauses(explanation.failed_loads) if missing else []
    if not loads or not missing:
        return ", ".join([*deaths, "boards or other loads needed"])
    needed = "boards or other loads needed" if explanation.untried_loads or untraced else "boards needed"
    reaches, rest = _reach_clauses(explanation, missing)
    if not reaches:
        return ", ".join([*deaths, f"{'not reached' if deaths else 'nor'} beside {_list(list(loads), 'or')}", needed])
    return ", ".join([*deaths, *reaches, *([f"{needed} for the rest"] if rest else [])])


def _death_clauses(failed_loads: Mapping[str, str]) -> list[str]:
    """Return beside which loads the candidate died or hung, by profile."""
    names = {
        profile: [load for load, name in failed_loads.items() if name == profile] for profile in failed_loads.values()
    }
    return [
        f"the candidate died or hung beside {_list(loads, 'and')} {_hint(profile, loads)}"
        for profile, loads in names.items()
    ]


def _reach_clauses(explanation: CaseExplanation, missing: Collection[str]) -> tuple[list[str], set[str]]:
    """Return which loads reach how much, by profile, those that reach most first; and what none reaches."""
    clauses: list[str] = []
    rest = set(missing)
    profiles = {profile: _functions_of(explanation, profile) for profile in explanation.other_loads.values()}
    while most := max((functions & rest for functions in profiles.values()), key=len):
        profile = next(name for name, functions in profiles.items() if functions & rest == most)
        names = _loads_that_reach(explanation, profile, most)
        what = "it" if most == set(missing) else f"{len(most)} of {len(missing)} functions"
        verb = "reaches" if len(names) == 1 else "reach"
        clauses.append(f"{_list(names, 'and')} {verb} {what} {_hint(profile, names)}")
        rest -= most
    return clauses, rest


def _hint(profile: str, loads: Sequence[str]) -> str:
    """Return how to measure beside some loads of a profile: `-k` matches the names of loads."""
    return f"(gate with --profile {profile} -k {shlex.quote(' or '.join(loads))})"


def _list(names: Sequence[str], word: str) -> str:
    """Return names with a word before the last."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _functions_of(explanation: CaseExplanation, profile: str) -> set[str]:
    """Return the functions that the loads of a profile reach."""
    own = {load for load, name in explanation.other_loads.items() if name == profile}
    return {function for function, loads in explanation.reached_by.items() if own.intersection(loads)}


def _loads_that_reach(explanation: CaseExplanation, profile: str, functions: Collection[str]) -> list[str]:
    """Return the loads of a profile that reach any of some functions."""
    reaching = {load for function in functions for load in explanation.reached_by[function]}
    return [load for load, name in explanation.other_loads.items() if name == profile and load in reaching]
