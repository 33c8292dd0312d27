# SPDX-License-Identifier: MIT
"""After a comparison in which a change did not run: which loads that the run did not have reach it.

The candidate boots once beside each of them, briefly. That decides nothing: it says what to measure next.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rtgate.errors import ConfigError, TargetError
from rtgate.explain.comparing import ComparedKernels, ExerciseOutcome, Pair, Side, exercise_candidate
from rtgate.explain.explanation import Exercise
from rtgate.judge.compare.exercise import run_exercise
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile, profiles
from rtgate.records.explained import CaseExplanation
from rtgate.report.notices import say, step
from rtgate.report.text import plain_text
from rtgate.workflow.suites import cases

_SHORT = "smoke"  # the profile whose length is that of these boots


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A run of two kernels, of which is known what ran.

    Attributes:
        case: one of its cases, beside whose tool other loads are tried.
        loads: beside which this tool was measured.
        profile: that was measured.
        candidate: the side that is booted.
        kernels: what differs.
        explanations: of all its cases, by the directory of their boots.
    """

    case: Case
    loads: Collection[str]
    profile: str
    candidate: Side
    kernels: ComparedKernels
    explanations: Mapping[Path, CaseExplanation]

    @classmethod
    def of(
        cls,
        pairs: Sequence[Pair],
        profile_name: str,
        kernels: ComparedKernels,
        explanations: Mapping[Path, CaseExplanation],
    ) -> TracedRun:
        """Return the run of these cases; loads are tried beside the tool of the first, on its board."""
        first = pairs[0]
        return cls(
            case=first.case,
            loads=[pair.case.load for pair in pairs if _tool(pair) == _tool(first)],
            profile=profile_name,
            candidate=first.candidate,
            kernels=kernels,
            explanations=explanations,
        )

    def missing(self, *more: CaseExplanation) -> frozenset[str]:
        """Return the functions whose change did not run, also counting more boots; not those of booting alone."""
        every = [*self.explanations.values(), *more]
        booting = {change.function for explanation in every for change in explanation.changes if change.boots}
        numbered = {str(number): explanation for number, explanation in enumerate(every)}
        return frozenset(run_exercise(numbered).missing.keys() - booting)

    def beside(self, exercise: Exercise) -> CaseExplanation:
        """Return the explanation of a further case of the same kernels, in which this ran."""
        example = next(iter(self.explanations.values()))
        return replace(example, executed=exercise.executed, changes=exercise.changes)


def with_other_loads(run: TracedRun, stop: threading.Event) -> dict[Path, CaseExplanation]:
    """Return the explanations of a run, with the loads that reach what did not run in it; empty if nothing is tried.

    What cannot be tried is said.

    Raises:
        ConfigError, InfrastructureError: nothing can be tried on this machine.
        Interrupted: Ctrl-C.
    """
    missing = run.missing()
    loads, unlisted_loads = _other_loads(run) if missing else ({}, frozenset[str]())
    if not loads:
        return {}
    with step(f"looking for a load that reaches what did not run: {', '.join(loads)}"):
        outcomes = _boot(run, loads, stop)
    exercises = {load: outcome for load, outcome in outcomes.items() if isinstance(outcome, Exercise)}
    failed_loads = {load: loads[load] for load, outcome in outcomes.items() if isinstance(outcome, TargetError)}
    untried_loads = tuple(sorted({*loads, *unlisted_loads} - {*exercises, *failed_loads}))
    functions = {load: missing - run.missing(run.beside(exercise)) for load, exercise in exercises.items()}
    return {
        directory: replace(
            explanation,
            other_loads={load: loads[load] for load in exercises},
            reached_by={name: tuple(load for load in functions if name in functions[load]) for name in sorted(missing)},
            failed_loads=failed_loads,
            untried_loads=untried_loads,
        )
        for directory, explanation in run.explanations.items()
    }


def _tool(pair: Pair) -> tuple[str, str, str]:
    return pair.candidate.arm.board.name, pair.case.suite, pair.case.tool.name


def _other_loads(run: TracedRun) -> tuple[dict[str, str], frozenset[str]]:
    """Return the loads beside which a gate can measure the tool and this run did not, each with a profile.

    The second are loads that a profile names whose cases cannot be listed.
    That is the profile of the run, of which cases may have been left out, or one that names loads and makes several
    boots, as a comparison takes.
    """
    board, case = run.candidate.arm.board.name, run.case
    all_profiles = profiles()
    of_loads = [
        name
        for name, entry in all_profiles.items()
        if name != run.profile
        and len(entry.of(case.tool.name, case.suite).seeds) > 1
        and any(entry.on(board).has(case.suite, case.tool.name, load, named=True) for load in entry.on(board).loads)
    ]
    loads: dict[str, str] = {}
    unlisted_loads: set[str] = set()
    for name in (run.profile, *of_loads):
        try:
            offers = cases((), name, case.tuning, board=board)
        except ConfigError as error:
            say(f"loads of the profile {name} are not tried: {plain_text(str(error))}")
            unlisted_loads |= all_profiles[name].on(board).loads.keys() - set(run.loads)
            continue
        for offer in offers:
            if (offer.suite, offer.tool.name) == (case.suite, case.tool.name) and offer.load not in run.loads:
                loads.setdefault(offer.load, name)
    return loads, frozenset(unlisted_loads)


def _boot(run: TracedRun, loads: Mapping[str, str], stop: threading.Event) -> dict[str, ExerciseOutcome]:
    """Boot the candidate beside each load, and return what ran there, or why nobody can say."""
    boots = [(_short_side(run.candidate, name), replace(run.case, load=load)) for load, name in loads.items()]
    outcomes = dict(zip(loads, exercise_candidate(run.kernels, boots, stop), strict=True))
    for load, outcome in outcomes.items():
        if isinstance(outcome, TargetError):  # of a boot without a record only that the kernel died or hung
            say(f"the candidate died or hung beside {load}: {plain_text(str(outcome))}")
        elif not isinstance(outcome, Exercise):
            say(f"whether {load} reaches it is not known: {plain_text(str(outcome))}")
    return outcomes


def _short_side(candidate: Side, profile_name: str) -> Side:
    """Return the side for short boots that nobody made before, with the options that a profile gives its loads."""
    board = candidate.arm.board.name
    short = replace(profile(_SHORT, board), loads=profile(profile_name, board).loads)
    return replace(candidate, record=None, arm=replace(candidate.arm, profile=short))
