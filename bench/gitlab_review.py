# SPDX-License-Identifier: MIT
"""Reviews in a job of GitLab: gitlab-ci-local runs it, and a stand-in with the rules of GitLab answers."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from selftests import gitlab_ci_local
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, GitLabServer, gitlab_server

from bench import ROOT
from bench.kernel_repository import KernelRepository
from bench.review_cases import Case, Incident
from bench.review_outcome import AWAY_S, MEASURING, Outcome, problems_of, text_of, until
from rtgate import site

_REMOTE = "git@gitlab.example.org:kernel/linux.git"
_OURS = ("build", "report/", ".gitlab-ci-local/", ".rtgate-cache")
_PROGRAM = """\
#!/bin/sh
export RTGATE_CACHE={cache}
{python} -P -m rtgate "$@"
code=$?
[ "$1" != review ] || echo $code > {code}
exit $code
"""
_MARK = "RTGATE_BENCH_JOB"
_SOURCE = ROOT / "src"


@dataclass
class GitLabReviews:
    """Reviews of the changes of a repository, whose work tree is the job's clone."""

    work: Path
    repository: KernelRepository
    pipeline: int = 500

    def __post_init__(self) -> None:
        tree = self.repository.path
        (tree / ".git" / "info" / "exclude").write_text("\n".join(_OURS) + "\n")
        if "origin" not in self.repository.git("remote").split():
            self.repository.git("remote", "add", "origin", _REMOTE)
        self.repository.git("config", f"url.{tree}.insteadOf", _REMOTE)
        # What a job keeps below its clone is shared with the other forge here.
        (self.work / "kernels").mkdir(exist_ok=True)
        if not (tree / "build").is_symlink():
            (tree / "build").symlink_to(self.work / "kernels", target_is_directory=True)
        programs = self.work / "bin"
        programs.mkdir(exist_ok=True)
        program = _PROGRAM.format(
            cache=shlex.quote(str(site.cache().resolve())),
            python=shlex.quote(sys.executable),
            code=shlex.quote(str(self._code)),
        )
        (programs / "rtgate").write_text(program)
        (programs / "rtgate").chmod(0o755)

    @property
    def _code(self) -> Path:
        return self.work / "gitlab.code"

    def review(self, case: Case) -> Outcome:
        """Run the merge request's pipeline, and what happens to it meanwhile."""
        with gitlab_server() as server:
            job = self._job(case, case.branch, server)
            try:
                if case.incident is not Incident.NONE:
                    until(lambda: MEASURING in job.said or job.ended, "the job measures")
                    job = self._disturbed(case, server, job)
                until(lambda: job.ended, "the job ends")
            finally:
                job.signal(signal.SIGKILL)
            return self._outcome(case, server, job)

    def _disturbed(self, case: Case, server: GitLabServer, job: Job) -> Job:
        if case.incident is Incident.AWAY:
            end = time.monotonic() + AWAY_S
            server.away = lambda: time.monotonic() < end
            return job
        if case.incident is Incident.KILLED:
            job.signal(signal.SIGKILL)
        else:
            job.signal(signal.SIGTERM)  # as GitLab does with a job that is interruptible
        assert not server.notes, "a job that was ended wrote a note"
        return self._job(case, case.newer_branch if case.newer else case.branch, server)

    def _job(self, case: Case, branch: str, server: GitLabServer) -> Job:
        self.pipeline += 1
        self._code.unlink(missing_ok=True)
        self.repository.git("checkout", "--quiet", branch)
        server.head = self.repository.git("rev-parse", "HEAD")
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_PIPELINE_ID": str(self.pipeline),
            "CI_PROJECT_DIR": str(self.repository.path),
            "CI_PROJECT_ID": str(PROJECT),
            "CI_SERVER_URL": server.url,
            "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": case.branch,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": case.base,
            "CI_MERGE_REQUEST_TITLE": case.title,
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
            "RTGATE_GITLAB_TOKEN": TOKEN,
        }
        given = [f"--variable={name}={text}" for name, text in variables.items()]
        argv = [*gitlab_ci_local.command(), "--force-shell-executor", "--color=false", "--home", str(self.work), *given]
        log = self.work / f"gitlab-{case.name}-{self.pipeline}.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                argv,
                cwd=self.repository.path,
                env={
                    "PATH": f"{self.work / 'bin'}:{os.environ['PATH']}",
                    "HOME": str(Path.home()),  # Kconfig asks programs that need it, such as rustc
                    "PYTHONPATH": str(_SOURCE),
                    _MARK: str(self.pipeline),
                },
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return Job(child, log, self.pipeline)

    def _outcome(self, case: Case, server: GitLabServer, job: Job) -> Outcome:
        code = int(text_of(self._code) or -1)
        note = server.notes[0].body if len(server.notes) == 1 else ""
        problems = problems_of(case, code, note)
        if len(server.notes) != 1 or f"<!-- pipeline {job.pipeline} -->" not in note:
            problems.append(f"{len(server.notes)} notes, or one of another pipeline")
        result = {0: "PASS", 1: "FAIL", 5: "WARN"}.get(case.code, "FAIL")
        if f" {result}  rtgate-review" not in job.said:
            problems.append(f"the job is not {result}")
        problems += [f"the note does what the title says: {act}" for act in (*server.quick_actions, *server.mentions)]
        if case.incident is Incident.AWAY and "answers again" not in job.said:
            problems.append("nothing was written while GitLab was away: this tried nothing")
        self._keep(case)
        return Outcome(code=code, note=note, problems=tuple(problems))

    def _keep(self, case: Case) -> None:
        place = self.work / "reports" / f"gitlab-{case.name}"
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        report = self.repository.path / "report"
        if report.exists():
            report.rename(place)
        self.repository.git("checkout", "--quiet", "main")


@dataclass
class Job:
    """A job that runs, or did."""

    child: subprocess.Popen[bytes]
    log: Path
    pipeline: int

    @property
    def said(self) -> str:
        """What it printed."""
        return text_of(self.log)

    @property
    def ended(self) -> bool:
        """Whether gitlab-ci-local has ended."""
        return self.child.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that it started, as whoever takes its container away; return when nothing is left."""
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self.child.wait(300)
        until(lambda: not self._processes(), "what the job started has ended")

    def _processes(self) -> list[int]:
        mark, found = f"{_MARK}={self.pipeline}".encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found
