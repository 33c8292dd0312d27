# SPDX-License-Identifier: MIT
"""Measuring a comparison in looks: a first batch of boots, and more of what is open, as far as the budget goes.

On virtual time what is open gets as many seeds again, once. On a clock pairs of boots are measured in planned looks
(`judge.looks`): a clear verdict ends its case, an open one is measured on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import files
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.compare.comparing import comparable_on_boards
from rtgate.judge.compare.on_boards import next_measurement
from rtgate.judge.compare.procedures import Measure, Procedure
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.measure import run
from rtgate.measure.profiles import LARGEST_SEED
from rtgate.records import planned
from rtgate.records.record import Place
from rtgate.records.schedule import Steps
from rtgate.report.notices import say, step
from rtgate.workflow.budget import Budget
from rtgate.workflow.judging import Criteria, Judging, JudgingRequest, judge_cases
from rtgate.workflow.procedure import Comparison, choose
from rtgate.workflow.suite_process import Batch, Suites
from rtgate.workflow.suites import cases as list_cases
from rtgate.workflow.verdicts import grounds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredComparison:
    """Where the boots of a comparison on a board lie, and what it is judged by."""

    records: Path
    board: str
    criteria: Criteria = field(default_factory=Criteria)

    def missing_pairs(self, empty_cases: Collection[str] = ()) -> Measure | None:
        """Return which cases need more pairs, and how many; None if every verdict is clear, or the last look was made.

        A case that fails whatever the pairs say needs none, nor does one whose pairs come to nothing (`empty_cases`).

        Raises:
            ConfigError: records, limits or planned.json cannot be read.
            InfrastructureError: the history does not answer.
        """
        judging = judge_cases(JudgingRequest(records=self.records, board=self.board, criteria=self.criteria))
        subjects = [subject for subject in judging.subjects if subject.records]
        failed_cases = {verdict.case for verdict in judging.verdicts if verdict.status is Status.FAIL}
        complete_cases = failed_cases | set(empty_cases)
        with grounds(self.criteria.history) as rests:
            return next_measurement(comparable_on_boards(subjects), rests.history, self.criteria.boards, complete_cases)

    def pairs(self, case: str) -> int:
        """Return how many pairs of a case were planned so far. Raises ConfigError."""
        return planned.read(self.place("baseline", case)).boots

    def count_pair_numbers(self, case: str) -> int:
        """Return how many numbers of pairs a case has used: a pair that was left out has had one. Raises as `pairs`."""
        there = run.records_by_case(self.records, self.board).get(case, ())
        return max([self.pairs(case), *(record.pair or 0 for record in there)])

    def place(self, arm: str, case: str) -> Place:
        """Return where a case's boots lie."""
        return Place(records=self.records, board=self.board, arm=arm, case=case)

    def minutes(self, cases: Iterable[str]) -> float:
        """Return what a pair of boots of these cases took this board, on an average."""
        by_case = run.records_by_case(self.records, self.board)
        total = 0.0
        for case in cases:
            seconds = [record.seconds["total"] for record in by_case.get(case, []) if "total" in record.seconds]
            total += 2 * sum(seconds) / len(seconds) / 60 if seconds else 0.0
        return total


@dataclass(slots=True)
class PairQueue:
    """What to measure next of a comparison, look after look; a case whose pairs came to nothing is not waited for."""

    stored: StoredComparison
    _last: Measure | None = None
    _empty_cases: frozenset[str] = frozenset()

    def next(self) -> Measure | None:
        """Return what to measure next; None if nothing more is to be measured, or the history does not answer.

        Raises:
            ConfigError: as `missing_pairs`.
        """
        try:
            return self._next()
        except InfrastructureError as error:  # what is measured already is judged, and that says what is missing
            say(f"not measured on: {error}")
            return None

    def _next(self) -> Measure | None:
        measure = self.stored.missing_pairs(self._empty_cases)
        if measure is not None and measure == self._last:
            self._empty_cases |= set(measure.cases)
            measure = self.stored.missing_pairs(self._empty_cases)
        self._last, last = measure, self._last
        return None if measure == last else measure


@dataclass(frozen=True, slots=True)
class ComparisonOutcome:
    """What a comparison came to: whether every boot was carried out, and what was judged last."""

    whole: bool
    judging: Judging


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """How far a comparison is measured.

    Attributes:
        extend: whether more boots are measured where it stays open.
        budget: what it may take of a board on a clock.
        first: what is measured first on virtual time; more boots are of the same cases.
    """

    budget: Budget
    extend: bool = True
    first: Batch = field(default_factory=Batch)


def run_comparison(suites: Suites, options: ComparisonOptions) -> ComparisonOutcome:
    """Measure and judge as far as it has to go.

    Raises:
        ConfigError, InfrastructureError: as `Suites.measure`; records are kept, for `rtgate judge`.
    """
    if _in_pairs(suites):
        return _pairs(suites, options)
    with step("measuring"):
        whole = suites.measure(options.first)
    judging = _judge(suites)
    batches = _open_seeds(suites, judging.verdicts) if options.extend else ()
    for more in batches:
        with step(f"measuring again what is open: {', '.join(more.cases)}"):
            whole &= _measure_more(suites, more)
    return ComparisonOutcome(whole, _judge(suites) if batches else judging)


def _in_pairs(suites: Suites) -> bool:
    """Return whether pairs of boots are measured in looks: who names their number wants one look at all of them."""
    options = suites.options
    virtual = options.console in {"", "virtual"}
    return set(suites.kernels) == {"baseline", "candidate"} and not options.boots and not virtual


def _judge(suites: Suites) -> Judging:
    files.require_free_space(suites.output, needed_mib=1)  # what is measured stays
    with step("judging"):
        return suites.judge()


def _pairs(suites: Suites, options: ComparisonOptions) -> ComparisonOutcome:
    """Measure pairs look after look."""
    procedure = _procedure(suites)
    budget, looks = options.budget, procedure.looks.steps
    comparison = StoredComparison(records=suites.records, board=suites.options.board, criteria=suites.criteria)
    batch, name = Batch(boots=f"1-{looks[0][0]}", looks=looks), f"measuring {looks[0][0]} pairs of boots"
    if procedure.screen:
        batch, name = Batch(boots=f"1-{procedure.screen}", screen=True, looks=looks), "screening against the history"
    start = time.monotonic()
    with step(name):
        whole = suites.measure(batch)
    budget.spent += (time.monotonic() - start) / 60
    queue = PairQueue(comparison)
    while True:
        judging = _judge(suites)
        measure = queue.next() if options.extend else None
        if measure is None:
            return ComparisonOutcome(whole, judging)
        refusal = budget.refusal(measure.pairs * comparison.minutes(measure.cases), measure.sentence)
        if refusal:
            say(refusal)
            return ComparisonOutcome(whole, judging)
        start = time.monotonic()
        with step(measure.sentence):
            for batch in _batches(measure, comparison, looks):
                whole &= _measure_more(suites, batch)
        budget.spent += (time.monotonic() - start) / 60


def _procedure(suites: Suites) -> Procedure:
    """Return how the kernels are compared, and say it; the cases are listed only where there is a history."""
    options, history = suites.options, suites.criteria.history
    cases = list_cases((), options.profile, options.tuning, options.select, options.board) if history else ()
    comparison = Comparison(
        board=options.board,
        flavour=next((arm.kernel.flavour for arm in suites.arms if arm.name is ArmName.CANDIDATE), ""),
        cases=[case.name for case in cases],
        profile=options.profile,
    )
    choice = choose(history, comparison)
    say(choice.sentence)
    return choice.procedure


def _batches(measure: Measure, comparison: StoredComparison, looks: Steps) -> Iterable[Batch]:
    """Yield the boots of more pairs; those of cases that have as many so far are measured together."""
    by_count: dict[int, list[str]] = {}
    for case in measure.cases:
        by_count.setdefault(comparison.pairs(case), []).append(case)
    for count, cases in sorted(by_count.items()):
        yield Batch(cases=tuple(cases), boots=f"{count + 1}-{count + measure.pairs}", looks=looks)


def _open_seeds(suites: Suites, verdicts: Sequence[Verdict]) -> tuple[Batch, ...]:
    """Return what has to be measured so that every open comparison on virtual time has twice as many boots.

    After a regression the gate's answer is known, and nothing is measured for what it left open.
    """
    by_seeds: dict[tuple[str, str], list[str]] = {}
    failures = {(verdict.board, verdict.case) for verdict in verdicts if verdict.status is Status.FAIL}
    # A tail limit that is open has a limit; its samples are not looked at twice.
    undecided_cases = {
        (verdict.board, verdict.case)
        for verdict in verdicts
        if verdict.kind is Kind.INCONCLUSIVE and not verdict.limit and verdict.board in suites.boards
    }
    open_cases = sorted(undecided_cases - failures)
    if open_cases and any(verdict.kind is Kind.REGRESSION for verdict in verdicts):
        cases = ", ".join(case for _, case in open_cases)
        say(f"not measured again, as there is a regression: {cases}")
        return ()
    for board, case in open_cases:
        place = Place(records=suites.records, board=board, arm="baseline", case=case)
        seeds = planned.read(place).seeds
        if seeds and max(seeds) + len(seeds) > LARGEST_SEED:
            say(f"{case} is not measured again, as seeds end at {LARGEST_SEED}: name lower ones with --seeds")
        elif seeds:
            by_seeds.setdefault((board, f"{max(seeds) + 1}-{max(seeds) + len(seeds)}"), []).append(case)
    return tuple(Batch(board=board, cases=tuple(cases), seeds=numbers) for (board, numbers), cases in by_seeds.items())


def _measure_more(suites: Suites, more: Batch) -> bool:
    """Measure more boots, if it can be done: those that are there are judged all the same."""
    try:
        return suites.measure(more)
    except (ConfigError, InfrastructureError) as error:
        say(str(error))
        return False
