# SPDX-License-Identifier: MIT
"""Jobs of a lab that rtgate submitted: finding them by their metadata, and ending them."""

from __future__ import annotations

from collections.abc import Mapping

from rtgate.errors import ConfigError
from rtgate.lava.client.server import Job, Lava
from rtgate.lava.job import request as orders
from rtgate.report.notices import say

REVIEW = "review"  # the key in a job's metadata that names the merge request
_LATEST = 200


def select_jobs(lava: Lava, metadata: Mapping[str, str], *, active: bool, everybody: bool = False) -> list[Job]:
    """Return the jobs that fit, newest first: of those that have ended the latest.

    Args:
        lava: the server.
        metadata: what of it they must have.
        active: only those that have not ended.
        everybody: also jobs that rtgate did not submit.
    """
    return [
        job
        for job in (lava.active_jobs() if active else lava.jobs(_LATEST))
        if (everybody or orders.NONCE in job.definition.text)
        and not (active and job.finished)
        and (not metadata or metadata.items() <= job.definition.metadata.items())
    ]


def cancel_job(lava: Lava, number: int) -> str:
    """Cancel a job and return what became of it. Raises ConfigError: there is none, or it goes on."""
    before = lava.job(number)
    if before.finished:
        return f"has ended already: {before.health}"
    lava.cancel(number)
    # LAVA says that it did so also to those who may not.
    now = lava.job(number)
    if now.state not in {"Canceling", "Finished"}:
        raise ConfigError(f"job {number} is still {now.state}: it is {now.submitter or 'somebody'}'s, not ours")
    return "is cancelled"


def cancel_former(lava: Lava, merge_request: str) -> None:
    """Cancel what former reviews of a merge request have left in the lab: they were killed, or are out of date."""
    for job in select_jobs(lava, {REVIEW: merge_request}, active=True):
        try:
            say(f"job {job.number} of a former review {cancel_job(lava, job.number)}")
        except ConfigError as error:
            say(str(error))  # somebody else's: the board comes free without us
