# SPDX-License-Identifier: MIT
"""Whether the boots of a job that the lab broke hold a failure of the kernel that is judged.

Measuring again, or leaving boots out, could only hide it. Whatever the limits or the policy of kernel faults call a
failure is one here, too; what the baseline shows as well is none, and neither is a death of the baseline.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.judge.verdict import Status
from rtgate.lava.client.submission import Attempt
from rtgate.lava.job.request import MeasurementRequest
from rtgate.lava.results.fetch import fetch
from rtgate.workflow.judging import Criteria, JudgingRequest, judge_cases


def in_attempt(order: MeasurementRequest, attempt: Attempt, thresholds: Path | None) -> str:
    """Return why what an attempt measured is a failure; empty if it is none. As `in_records`."""
    try:
        with tempfile.TemporaryDirectory(prefix="rtgate-") as name:
            fetch(order.expected(), attempt, Path(name))
            return in_records(order, Path(name), thresholds)
    except (ConfigError, InfrastructureError) as error:
        return _cannot(error)


def in_records(order: MeasurementRequest, records: Path, thresholds: Path | None) -> str:
    """Return why records of a job are a failure of the kernel that is judged; empty if they are none.

    What cannot be judged counts as one: whoever judges it in the end says what is wrong, and has all of it.

    Args:
        order: what the job was to measure.
        records: what it has measured, and nothing of other jobs.
        thresholds: limits, instead of those of the site and of rtgate.
    """
    try:
        return _failure(order, records, thresholds)
    except ConfigError as error:
        return _cannot(error)


def _cannot(error: Exception) -> str:
    return f"what was measured cannot be judged: {error}"


def _failure(order: MeasurementRequest, records: Path, thresholds: Path | None) -> str:
    request = JudgingRequest(
        records=records,
        criteria=Criteria(thresholds=thresholds),
        board=order.board,
        arms={order.board: set(order.kernels)},
    )
    failures = (verdict for verdict in judge_cases(request).verdicts if verdict.status is Status.FAIL)
    return next((f"{verdict.case}: {verdict.sentence}" for verdict in failures), "")
