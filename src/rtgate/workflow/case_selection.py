# SPDX-License-Identifier: MIT
"""Which cases a board in a lab measures after a gate on virtual time, and what they take of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rtgate.board.boards import Board
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError
from rtgate.judge.compare.triage import Choice, Reason, SelectableCase, choose, without_tuning
from rtgate.judge.verdict import Verdict
from rtgate.lava.job.request import usual_test_s
from rtgate.lava.results.expected import Expected
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import plan
from rtgate.measure.profiles import Profile, profile
from rtgate.tools.case_name import CaseName
from rtgate.tools.needs import unmet_needs
from rtgate.workflow import suites
from rtgate.workflow.arms import unknown_kernel
from rtgate.workflow.budget import boot_minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a board may measure.

    Attributes:
        flavour: of the kernels; empty where nobody knows.
        suites: empty for all.
        pairs: boots of each kernel.
        budget: board-minutes.
        minimum: cases that are always measured; None for the profile's.
    """

    board: Board
    flavour: str
    profile: str
    budget: float
    pairs: int
    tuning: str = "default"
    suites: tuple[str, ...] = ()
    minimum: tuple[str, ...] | None = None

    @property
    def booting(self) -> float:
        """Board-minutes that the boots take, whatever is measured in them."""
        return self.minutes()

    def minutes(self, *lengths_s: float) -> float:
        """Return the board-minutes of the boots of both kernels, with measurements that are so long."""
        return 2 * self.pairs * boot_minutes(usual_test_s(lengths_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a board measures.

    Attributes:
        choices: every case that is a matter for the board, the most urgent first.
        cases: those within the budget.
        minutes: of the board, with its boots.
        excluded: why the board, its kernel or its profile cannot measure other cases, by case; they take nothing of the
            budget.
        unanswered: those of `excluded` that the gate flagged or left open.
    """

    choices: tuple[Choice, ...]
    cases: tuple[Case, ...]
    minutes: float
    excluded: Mapping[str, str]
    unanswered: tuple[Choice, ...] = ()

    @property
    def short(self) -> tuple[Choice, ...]:
        """The choices that do not fit the budget and may not be passed over; what was not exercised may wait."""
        return tuple(choice for choice in self.choices if not choice.within and choice.reason is not Reason.UNSEEN)


def select_cases(verdicts: Sequence[Verdict], wish: Wish) -> Selection:
    """Return what a board measures after a gate on virtual time had these verdicts.

    Raises:
        ConfigError: the boots alone are more than the budget, or profile, suites or cases are not there.
        InfrastructureError: this machine is too busy.
    """
    if wish.budget <= wish.booting:
        raise ConfigError(
            f"{wish.pairs} pairs of boots alone take {wish.booting:.0f} board-minutes (--pairs, --budget)"
        )
    lengths = profile(wish.profile, wish.board.name)
    every_case = suites.cases(wish.suites, wish.profile, wish.tuning, board=wish.board.name)
    excluded = _excluded(every_case, _arm(wish, lengths))
    cases = [case for case in every_case if case.name not in excluded]
    entries = [
        SelectableCase(
            case=case.name,
            minutes=wish.minutes(lengths.of(case.tool.name, case.suite, case.load).duration_s) - wish.booting,
        )
        for case in cases
    ]
    minimum = _minimum(wish, lengths.minimum, every_case, excluded)
    choices = choose(verdicts, entries, minimum, wish.budget - wish.booting)
    unlisted = _unlisted(verdicts, every_case, wish)
    unanswered = _unanswered(verdicts, {**excluded, **unlisted})
    within = {choice.case: choice.minutes for choice in choices if choice.within}
    return Selection(
        choices=choices,
        cases=tuple(case for case in cases if case.name in within),
        minutes=sum(within.values()) + wish.booting,
        excluded=excluded | {choice.case: unlisted[choice.case] for choice in unanswered if choice.case in unlisted},
        unanswered=unanswered,
    )


def _arm(wish: Wish, board_profile: Profile) -> Arm:
    """Return an arm of a kernel that is not built yet."""
    kernel = unknown_kernel(wish.flavour)
    if wish.flavour:  # said by a report or a build, not guessed
        kernel = replace(kernel, provenance="rtgate")
    return Expected(
        board=wish.board,
        profile=board_profile,
        tuning=wish.tuning,
        cases=(),
        boots=(ArmName.CANDIDATE,),
        kernels={ArmName.CANDIDATE: kernel},
    ).arm(1)


def _excluded(cases: Sequence[Case], arm: Arm) -> dict[str, str]:
    """Return why a case cannot run there, as far as the board's file and the kernel's flavour tell, by the case."""
    reasons = {case.name: unmet_needs(plan(case, arm, 1).needs, arm.board.cpus) for case in cases}
    return {name: "; ".join(unmet) for name, unmet in reasons.items() if unmet}


def _unlisted(verdicts: Sequence[Verdict], cases: Sequence[Case], wish: Wish) -> dict[str, str]:
    """Return why cases of the gate are not among the board's, by case, but for those of suites that nobody wants."""
    listed_cases = {without_tuning(case.name) for case in cases}
    names = {without_tuning(verdict.case) for verdict in verdicts} - {""} - listed_cases
    why = f"the profile {wish.profile} does not measure it: choose one that does"
    return {name: why for name in sorted(names) if not wish.suites or CaseName.parse(name).suite in wish.suites}


def _unanswered(verdicts: Sequence[Verdict], excluded: Mapping[str, str]) -> tuple[Choice, ...]:
    cases = [SelectableCase(case=name, minutes=0.0) for name in excluded]
    return tuple(
        choice for choice in choose(verdicts, cases, (), 0.0) if choice.reason in {Reason.FLAGGED, Reason.OPEN}
    )


def _minimum(wish: Wish, usual: Sequence[str], cases: Sequence[Case], excluded: Mapping[str, str]) -> Sequence[str]:
    if wish.minimum is None:
        return [case if wish.tuning == "default" else f"{case}+{wish.tuning}" for case in usual]
    unknown_cases = sorted(set(wish.minimum) - {case.name for case in cases})
    if unknown_cases:
        raise ConfigError(f"--minimum {', '.join(unknown_cases)}: no such case in the profile {wish.profile}")
    impossible = [f"{name}: {excluded[name]}" for name in wish.minimum if name in excluded]
    if impossible:
        raise ConfigError(f"--minimum {', '.join(impossible)}")
    return wish.minimum
