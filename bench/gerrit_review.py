# SPDX-License-Identifier: MIT
"""Reviews before a real Gerrit server: changes are pushed, and `rtgate gerrit` reviews and votes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selftests.forge.gerrit_jars import why_not
from selftests.forge.gerrit_server import PASSWORDS, PROJECT, Author, GerritServer

from bench.kernel_repository import KernelRepository
from bench.review_cases import BOTH_FLAVOURS, MAIN, Case, Incident
from bench.review_outcome import AWAY_S, MEASURING, Outcome, problems_of, text_of, until


@dataclass
class GerritReviews:
    """The server, an author's clone, and the service in a process of its own."""

    work: Path
    repository: KernelRepository
    server: GerritServer
    author: Author
    output: Path
    child: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def running(cls, work: Path, repository: KernelRepository) -> Iterator[GerritReviews]:
        """Yield a server that has the repository's target branches, with the service before it."""
        assert not why_not(), why_not()
        place = work / "gerrit"  # stays until the next run, for its logs
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        server = GerritServer(place)
        reviews = None
        try:
            server.prepare()
            _fill(server, repository)
            output = place / "reviews"
            output.mkdir()
            reviews = cls(work, repository, server, _author(server, repository), output)
            reviews._start()
            yield reviews
        finally:
            if reviews and reviews.child:
                reviews.child.terminate()
                reviews.child.wait(300)
            server.stop()

    def review(self, case: Case) -> Outcome:
        """Push the change and wait for its vote, with what happens meanwhile."""
        change, patch_set = self._push(case, case.branch), 1
        name = f"change {change}, patch set"
        if case.incident is not Incident.NONE:
            review_log = self.output / f"{change}-1.log"
            until(lambda: MEASURING in text_of(review_log), "the review measures")
            patch_set = self._disturbed(case)
        until(lambda: f"{name} {patch_set}: review ended with exit code" in self._said, "the review ends")
        code = int(self._said.rpartition(f"{name} {patch_set}: review ended with exit code ")[2].split()[0])
        return self._outcome(case, change, patch_set, code)

    def _disturbed(self, case: Case) -> int:
        """Return which patch set is answered."""
        if case.incident is Incident.REPLACED:
            self._push(case, case.newer_branch)
            return 2
        if case.incident is Incident.AWAY:
            self.server.stop()
            time.sleep(AWAY_S)
            self.server.start()
            return 1
        assert self.child
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self._start()
        return 1

    def _outcome(self, case: Case, change: int, patch_set: int, code: int) -> Outcome:
        messages = self.server.messages(change)
        note = messages[0]["message"] if messages else ""
        problems = problems_of(case, code, note)
        if [one["_revision_number"] for one in messages] != [patch_set]:
            problems.append(f"{len(messages)} messages, or one of another patch set")
        votes = self.server.votes(change)
        if votes != case.vote:
            problems.append(f"votes {votes}, not {case.vote}")
        return Outcome(code=code, note=note, votes=votes, problems=tuple(problems))

    def _push(self, case: Case, branch: str) -> int:
        self.author.branch = case.base
        commit = self.repository.git("rev-parse", f"refs/heads/{branch}")
        self.author.git("update-ref", "--no-deref", "HEAD", commit)
        return self.author.push()

    def _start(self) -> None:
        password = self.server.directory / "password"
        password.write_text(PASSWORDS["bot"])
        password.chmod(0o600)
        clone = self.server.directory / "clone"
        if not clone.exists():
            argv = ["git", "clone", "--quiet", "--shared", "--no-checkout", "--branch", MAIN]
            subprocess.run([*argv, self.repository.path, clone], check=True)
        argv = [sys.executable, "-P", "-m", "rtgate", "gerrit", "--project", PROJECT, "--tree", str(clone)]
        argv += ["-o", str(self.output), "--ssh", f"127.0.0.1:{self.server.ssh_port}"]
        argv += ["--ssh-config", str(self.server.ssh_config), "--", "--kernels", str(self.work / "kernels")]
        own = {"RTGATE_GERRIT_URL": self.server.url, "RTGATE_GERRIT_USER": "bot"}
        with self._log.open("ab") as log:
            self.child = subprocess.Popen(
                argv,
                env={**os.environ, **own, "RTGATE_GERRIT_PASSWORD_FILE": str(password)},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.server.directory / "service.log"

    @property
    def _said(self) -> str:
        return text_of(self._log)


def _fill(server: GerritServer, repository: KernelRepository) -> None:
    """Give the server's repository the target branches; a start tells the server where their objects are."""
    server.stop()
    bare = server.directory / "site" / "git" / f"{PROJECT}.git"
    (bare / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (bare / "objects" / "info" / "alternates").write_text(f"{repository.path}/.git/objects\n")
    for branch in (MAIN, BOTH_FLAVOURS):
        commit = repository.git("rev-parse", f"refs/heads/{branch}")
        subprocess.run(["git", "-C", bare, "update-ref", f"refs/heads/{branch}", commit], check=True)
    server.start()


def _author(server: GerritServer, repository: KernelRepository) -> Author:
    author = Author(server, server.directory / "author", PROJECT, MAIN)
    alternates = author.clone / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{repository.path}/.git/objects\n")
    return author
