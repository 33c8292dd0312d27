# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selftests.lava_log import boot_lines, deploy
from selftests.unit.lava.job.test_request import ORDER
from selftests.unit.lava.results.test_classify import job

from rtgate.lava.client.submission import Attempt
from rtgate.lava.results import log
from rtgate.lava.results.classify import Blame, Ending
from rtgate.workflow.job_results import keep_endpoint
from rtgate.workflow.job_watch import JobWatch


def attempt(number: int, blame: Blame, endpoint: Attempt | None = None) -> Attempt:
    lines = log.parse(deploy(1) + boot_lines(2))
    ending = Ending(blame=blame, sentence="what happened")
    return Attempt(job=replace(job(), number=number), lines=lines, ending=ending, endpoint=endpoint)


def test_the_log_of_an_endpoint_is_kept_if_no_board_became_free_for_the_next_attempt(tmp_path: Path) -> None:
    """Before LAVA has scheduled a job, nobody knows the number of the endpoint's."""
    endpoint = attempt(2, Blame.LAB)
    attempts = [attempt(1, Blame.LAB, endpoint), attempt(3, Blame.QUEUE)]
    assert keep_endpoint(ORDER, attempts, tmp_path, JobWatch()).attempts == ()
    kept = {path.name for path in (tmp_path / "lava").iterdir()}
    assert kept == {"job-2.json", "job-2.log", "job-2.yaml"}
    assert log.parse((tmp_path / "lava/job-2.log").read_text()) == endpoint.lines
