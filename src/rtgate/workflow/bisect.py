# SPDX-License-Identifier: MIT
"""Which commit of a merge request fails first: fewer gates than commits, of the one case that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate.errors import BuildError, ChangedError, ConfigError, InfrastructureError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.merge import Commits, merged, series, subject_of
from rtgate.report.notices import say, step
from rtgate.workflow.kernels import CommitBuilds
from rtgate.workflow.policy import Policy, Screen
from rtgate.workflow.suite_process import Batch, SuiteOptions, prepared

MOST_COMMITS = 32  # five further gates at most
DIRECTORY = "bisect"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBad:
    """The first commit that fails.

    Attributes:
        number, count: which of how many commits of the merge request.
        gates: how many it took to find it.
    """

    commit: str
    subject: str
    number: int
    count: int
    gates: int

    @property
    def sentence(self) -> str:
        """What was found, in one line; the subject may hold anything."""
        gates = f"{self.gates} further gate{'s' * (self.gates != 1)}"
        return f"{self.commit[:12]} {self.subject} (commit {self.number} of {self.count}, found by {gates})"


def first_bad(count: int, is_bad: Callable[[int], bool]) -> tuple[int, int]:
    """Return which of `count` commits is the first bad one, from 0, and how many were tried; the last one is bad.

    Which of several changes for the worse it is where a series has more than one is left to chance.
    """
    good, bad, tried = -1, count - 1, 0
    while bad - good > 1:
        middle = (good + bad) // 2
        tried += 1
        good, bad = (good, middle) if is_bad(middle) else (middle, bad)
    return bad, tried


def bisect(
    builds: CommitBuilds, commits: Commits, policy: Policy, verdicts: Sequence[Verdict], output: Path
) -> FirstBad | None:
    """Return the first commit that fails as the whole merge request does.

    None where it has one commit or very many, where nothing of it failed, or where the lab fails on the way.
    """
    found = series(builds.tree, commits)
    failed = _failed(policy, verdicts)
    if failed is None or not 1 < len(found) <= MOST_COMMITS:
        return None
    screen, verdict = failed
    attempt = _Attempt(builds, commits.base, screen, verdict, output / DIRECTORY)
    say(f"bisecting {len(found)} commits for {verdict.case or 'the build'} on {screen.board}")
    try:
        number, gates = first_bad(len(found), lambda index: attempt.fails(found[index]))
    except (ConfigError, InfrastructureError, ChangedError) as error:  # the answer stands without it
        say(f"not bisected: {error}")
        return None
    commit = found[number]
    return FirstBad(
        commit=commit, subject=subject_of(builds.tree, commit), number=number + 1, count=len(found), gates=gates
    )


def _failed(policy: Policy, verdicts: Sequence[Verdict]) -> tuple[Screen, Verdict] | None:
    """Return the failure to look for: what cannot be built first, then what came first."""
    by_board = {screen.board: screen for screen in policy.screens}
    failures = [one for one in verdicts if one.status is Status.FAIL and one.board in by_board]
    failures.sort(key=lambda one: one.kind is not Kind.BUILD)
    return (by_board[failures[0].board], failures[0]) if failures else None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Gates of single commits against the same baseline, for one failure."""

    builds: CommitBuilds
    base: str
    screen: Screen
    verdict: Verdict
    output: Path

    def fails(self, commit: str) -> bool:
        """Return whether a commit fails: it cannot be built, or the case fails in it. Raises InfrastructureError."""
        with step(f"is {commit[:12]} good"):
            try:
                candidate = merged(self.builds.tree, self.base, commit).candidate
                kernel = self.builds.candidate(self.screen.build, candidate)
            except (BuildError, ConfigError):
                return True
            return self.verdict.kind is not Kind.BUILD and self._is_worse(commit, kernel)

    def _is_worse(self, commit: str, kernel: Path) -> bool:
        output = self.output / commit[:12]
        output.mkdir(parents=True, exist_ok=True)
        options = SuiteOptions(board=self.screen.board, profile=self.screen.profile)
        arms = {"baseline": self.builds.base(self.screen.build, self.base), "candidate": kernel}
        suites = prepared(options, arms, output)
        suites.measure(Batch(board=self.verdict.board, cases=(self.verdict.case,)), "measure.log")
        return any(one.status is Status.FAIL for one in suites.judge().verdicts)
