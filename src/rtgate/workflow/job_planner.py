# SPDX-License-Identifier: MIT
"""Which jobs a comparison in a lab takes: the first look, and more of what is open, as far as the budget goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rtgate.judge.compare.procedures import Procedure
from rtgate.lava.job.request import MeasurementRequest, in_turns
from rtgate.workflow.budget import Budget, boot_minutes
from rtgate.workflow.job_results import JobAttempts
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.sequential import PairQueue


@dataclass(slots=True, kw_only=True)
class JobPlanner:
    """The jobs of one comparison.

    Attributes:
        whole: what was asked for: all cases, both kernels, the boots of the first look.
        queue: what the records of its jobs leave open.
        procedure: of pairs of boots; None where nobody looks before all are measured.
    """

    whole: MeasurementRequest
    queue: PairQueue
    budget: Budget
    watch: JobWatch
    procedure: Procedure | None = None

    def first(self) -> MeasurementRequest:
        """Return the first job: what was asked for, or boots of the candidate for the screen."""
        if not self.procedure or not self.procedure.screen:
            return self.whole
        kernels = {"candidate": self.whole.kernels["candidate"]}
        return replace(self.whole, kernels=kernels, boots=in_turns(("candidate",), self.procedure.screen), screen=True)

    def order(self) -> MeasurementRequest | None:
        """Return what is to be measured next; None if all is clear, nothing helps, or the budget is spent.

        Raises:
            ConfigError: as `PairQueue.next`.
        """
        measure = self.queue.next()
        if measure is None:
            return None
        cases = tuple(case for case in self.whole.cases if case.name in measure.cases)
        order = replace(
            self.whole,
            cases=cases,
            suites=tuple(dict.fromkeys(case.suite for case in cases)),
            boots=in_turns(tuple(self.whole.kernels), measure.pairs),
            before=max(self.queue.stored.count_pair_numbers(case.name) for case in cases),
            is_part=True,  # also the first pairs after a screen, before which there are none
        )
        what = measure.sentence
        refusal = self.budget.refusal(_minutes(order), what)
        self.watch.say(refusal or f"measuring on: {what}")
        return None if refusal else order

    def spend(self, jobs: Sequence[JobAttempts]) -> None:
        """Take what jobs cost from the budget: by the server's clock, or as long as such boots usually take."""
        for job in jobs:
            for attempt in job.attempts:
                start, end = _time(attempt.job.started), _time(attempt.job.ended)
                minutes = (end - start).total_seconds() / 60 if start and end else _minutes(job.order)
                self.budget.spent += max(0.0, minutes)


def _minutes(order: MeasurementRequest) -> float:
    return len(order.boots) * boot_minutes(order.usual_s)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
