# SPDX-License-Identifier: MIT
"""Which commit of a merge request fails first: fewer gates than commits, of the one case that failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.errors import BuildError, ChangedError, ConfigError, InfrastructureError
from rtgate.forge.merge_request import Blame
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.merge import Commits, ConflictError, prepare_merge, series, subject_of
from rtgate.report.notices import say, step
from rtgate.units import plural
from rtgate.workflow.kernels import CommitBuilds
from rtgate.workflow.policy import Policy, Screen
from rtgate.workflow.suite_process import Batch, SuiteOptions, prepare_suites

MOST_COMMITS = 32  # five further gates at most
DIRECTORY = "bisect"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBadCommit:
    """The first commit that fails.

    Attributes:
        series: the commits of the merge request, the first one first.
        subject: of the last commit that it can be.
        suspects: which commits it can be, from 0 without the last one: several where those between cannot be tried.
        gates: how many it took to find it.
        skipped: why commits could not be tried, by their place.
        alone: whether nothing else failed in the whole.
    """

    series: tuple[str, ...]
    subject: str
    suspects: range
    gates: int
    skipped: Mapping[int, str] = field(default_factory=dict)
    alone: bool = False

    @property
    def sentence(self) -> str:
        """What was found, in one line; the subject may hold anything."""
        last, count = self.suspects[-1], len(self.series)
        gates = f"found by {plural(self.gates, 'further gate')}"
        sentence = f"{self.series[last][:12]} {self.subject} (commit {last + 1} of {count}, {gates})"
        reasons = ", ".join(f"commit {place + 1} {why}" for place, why in sorted(self.skipped.items()))
        if len(self.suspects) > 1:
            earlier = f"{self.suspects[0] + 1} to {last}" if len(self.suspects) > 2 else f"{last}"
            sentence += f", or commit {earlier}"
        return sentence + (f"; not tried: {reasons}" if reasons else "")

    @property
    def blame(self) -> Blame:
        """The same for a forge that votes on each commit."""
        first = self.suspects[0]
        return Blame(
            suspects=tuple(self.series[place] for place in self.suspects),
            innocents=self.series[:first] if self.alone else (),
            sentence=self.sentence,
        )


def first_bad_range(count: int, is_bad: Callable[[int], bool | None]) -> tuple[range, int]:
    """Return which of `count` commits can be the first bad one, from 0, and how many were tried; the last one is bad.

    It is one, unless `is_bad` returns None for those beside it: they cannot be tried, as for `git bisect skip`. Which
    of several changes for the worse it is where a series has more than one is left to chance.
    """
    good, bad, tries, skips = -1, count - 1, 0, set[int]()
    while places := [place for place in range(good + 1, bad) if place not in skips]:
        middle = min(places, key=lambda place: abs(place - (good + bad) // 2))
        answer = is_bad(middle)
        if answer is None:
            skips.add(middle)
            continue
        tries += 1
        good, bad = (good, middle) if answer else (middle, bad)
    return range(good + 1, bad + 1), tries


def bisect(
    builds: CommitBuilds, commits: Commits, policy: Policy, verdicts: Sequence[Verdict], output: Path
) -> FirstBadCommit | None:
    """Return the first commit that fails as the whole merge request does.

    None where it has one commit or very many, where nothing of it failed, or where the lab fails on the way.
    """
    commit_ids = series(builds.tree, commits)
    first_failure = _failure_to_find(policy, verdicts)
    if first_failure is None or not 1 < len(commit_ids) <= MOST_COMMITS:
        return None
    screen, verdict = first_failure
    attempt = _Attempt(builds, commits.base, screen, verdict, output / DIRECTORY)
    skip_reasons: dict[int, str] = {}

    def fails(place: int) -> bool | None:
        try:
            return attempt.fails(commit_ids[place])
        except _Untestable as reason:
            skip_reasons[place] = str(reason)
            return None

    say(f"bisecting {len(commit_ids)} commits for {verdict.case or 'the build'} on {screen.board}")
    try:
        suspects, gates = first_bad_range(len(commit_ids), fails)
    except (ConfigError, InfrastructureError, ChangedError) as error:  # the answer stands without it
        say(f"not bisected: {error}")
        return None
    return FirstBadCommit(
        series=commit_ids,
        subject=subject_of(builds.tree, commit_ids[suspects[-1]]),
        suspects=suspects,
        gates=gates,
        skipped=skip_reasons,
        alone=all(_is_same(failure, verdict) for failure in verdicts if failure.status is Status.FAIL),
    )


def _failure_to_find(policy: Policy, verdicts: Sequence[Verdict]) -> tuple[Screen, Verdict] | None:
    """Return the failure to look for: what cannot be built first, then what came first."""
    by_board = {screen.board: screen for screen in policy.screens}
    failures = [verdict for verdict in verdicts if verdict.status is Status.FAIL and verdict.board in by_board]
    failures.sort(key=lambda failure: failure.kind is not Kind.BUILD)
    return (by_board[failures[0].board], failures[0]) if failures else None


def _is_same(failure: Verdict, verdict: Verdict) -> bool:
    return (failure.board, failure.case, failure.kind is Kind.BUILD) == (
        verdict.board,
        verdict.case,
        verdict.kind is Kind.BUILD,
    )


class _Untestable(Exception):  # noqa: N818 - it is nobody's mistake: as `git bisect skip`
    """A commit of the series cannot be tried by itself."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Gates of single commits against the same baseline, for one failure."""

    builds: CommitBuilds
    base: str
    screen: Screen
    verdict: Verdict
    output: Path

    def fails(self, commit: str) -> bool:
        """Return whether a commit fails as the whole does: it cannot be built, or the case fails in it.

        Raises:
            _Untestable: it conflicts with the target branch; or it does not build, and the whole does.
            InfrastructureError: the lab fails.
        """
        with step(f"is {commit[:12]} good"):
            try:
                candidate = prepare_merge(self.builds.tree, self.base, commit).candidate
                kernel = self.builds.candidate(self.screen.build, candidate)
            except ConflictError as error:
                raise _Untestable("conflicts with the target branch") from error
            except (BuildError, ConfigError) as error:
                if self.verdict.kind is Kind.BUILD:
                    return True
                raise _Untestable("cannot be built") from error
            return self.verdict.kind is not Kind.BUILD and self._is_worse(commit, kernel)

    def _is_worse(self, commit: str, kernel: Path) -> bool:
        output = self.output / commit[:12]
        output.mkdir(parents=True, exist_ok=True)
        options = SuiteOptions(board=self.screen.board, profile=self.screen.profile)
        arms = {"baseline": self.builds.base(self.screen.build, self.base), "candidate": kernel}
        suites = prepare_suites(options, arms, output)
        suites.measure(Batch(board=self.verdict.board, cases=(self.verdict.case,)), "measure.log")
        return any(verdict.status is Status.FAIL for verdict in suites.judge().verdicts)
