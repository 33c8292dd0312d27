# SPDX-License-Identifier: MIT
"""`rtgate review --forge gitlab` from the job's variables to the note, while GitLab goes away or the job is killed.

Compiler and QEMU are those of `selftests.concurrency`: the merge request's kernel breaks a limit. GitLab is a stand-in.
All between is real: the clone, builds, boots, their cache, records, verdicts, the note.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.concurrency import World
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, GitLabServer, gitlab_server

from rtgate.forge.note_body import MARK

pytestmark = pytest.mark.xdist_group("gitlab")  # their waits are long and cost nothing

AWAY_S = 120.0
WAIT_S = 240.0
POLICY = "screen: [{board: virt-arm64, build: fake, profile: smoke, select: idle}]\n"


@dataclass
class Job:
    """A job of a merge request pipeline: the commit `slow` is to go where `fast` is."""

    world: World
    server: GitLabServer
    child: subprocess.Popen[bytes] | None = None

    @property
    def tree(self) -> Path:
        return self.world.directory / "one"

    @property
    def report(self) -> Path:
        return self.world.directory / "here" / "report"

    @property
    def log(self) -> str:
        return (self.world.directory / "log").read_text(errors="replace")

    @property
    def boots(self) -> set[str]:
        return {path.name for path in (self.world.directory / "cache" / "boots").glob("[!.]*")}

    def commit(self, name: str) -> str:
        return subprocess.run(
            ["git", "-C", self.tree, "rev-parse", name], check=True, capture_output=True, text=True
        ).stdout.strip()

    def start(self, pipeline: int = 500) -> None:
        variables = {
            "CI_SERVER_URL": self.server.url,
            "CI_PROJECT_ID": str(PROJECT),
            "CI_PIPELINE_ID": str(pipeline),
            "CI_COMMIT_SHA": self.commit("slow"),
            "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
            "RTGATE_GITLAB_TOKEN": TOKEN,
        }
        environment = {**self.world.environment, **variables}
        environment.pop("RTGATE_KEEP_BOOTS", None)
        argv = [sys.executable, str(self.world.directory / "gate.py"), "review", "--forge", "gitlab"]
        with (self.world.directory / "log").open("wb") as log:
            self.child = subprocess.Popen(
                [*argv, "--tree", str(self.tree), "-o", "report"],
                stdout=log,
                stderr=log,
                cwd=self.world.directory / "here",
                env=environment,
                start_new_session=True,
            )

    def until(self, text: str) -> None:
        end = time.monotonic() + WAIT_S
        while text not in self.log:
            assert self.child
            assert self.child.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def wait(self) -> int:
        assert self.child
        return self.child.wait(WAIT_S)

    def kill(self) -> None:
        """Kill it and all that it started, as whoever takes the job's container away."""
        assert self.child
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def verdicts(self) -> list[tuple[str, str]]:
        said = json.loads((self.report / "verdict.json").read_text())["verdicts"]
        return [(one["status"], one["kind"]) for one in said if one["status"] == "FAIL"]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    world = World.make(tmp_path / "world")
    (world.directory / "site" / "policy.yaml").write_text(POLICY)
    (world.directory / "site" / "thresholds.yaml").write_text((world.directory / "limits.yaml").read_text())
    with gitlab_server() as server:
        made = Job(world, server)
        for words in (("branch", "-f", "main", "fast"), ("remote", "add", "origin", str(made.tree))):
            subprocess.run(["git", "-C", made.tree, "checkout", "--quiet", "--detach"], check=True)
            subprocess.run(["git", "-C", made.tree, *words], check=True)
        yield made
        if made.child and made.child.poll() is None:
            made.kill()


@pytest.mark.long("GitLab is away for two minutes")
def test_a_gitlab_that_is_away_for_two_minutes_in_the_middle_gets_its_note(job: Job) -> None:
    job.start()
    job.until("seed 1")
    end = time.monotonic() + AWAY_S
    job.server.away = lambda: time.monotonic() < end
    assert job.wait() == 1, job.log
    assert time.monotonic() >= end
    assert "answers HTTP 503" in job.log
    assert "trying again, for 600 s at most" in job.log
    assert f"{job.server.url} answers again" in job.log
    (note,) = job.server.notes
    assert note.body.startswith(f"{MARK} <!-- pipeline 500 -->\n\n**FAIL: the kernel breaks a limit")
    assert job.verdicts() == [("FAIL", "limit")]
    assert job.world.leftovers() == []


@pytest.mark.long("a review of two kernels that is killed and done again")
def test_a_job_that_is_killed_and_started_again_goes_on_where_it_was(job: Job) -> None:
    job.start()
    job.until("seed 1")
    job.kill()
    assert job.server.notes == []
    kept = job.boots
    assert kept
    job.start(501)
    assert job.wait() == 1, job.log
    assert kept <= job.boots
    (note,) = job.server.notes
    assert note.body.startswith(f"{MARK} <!-- pipeline 501 -->\n\n**FAIL: the kernel breaks a limit")
    assert job.verdicts() == [("FAIL", "limit")]
    assert job.world.leftovers() == []
