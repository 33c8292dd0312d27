# SPDX-License-Identifier: MIT
"""Which commit of a merge request fails first: fewer gates than commits, of the one case that failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.errors import BuildError, ChangedError, ConfigError, InfrastructureError
from rtgate.forge.merge_request import Blame
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.kernel.merge import Commits, ConflictError, prepare_merge, series, subject_of
from rtgate.measure.profiles import profile
from rtgate.report.notices import say, step
from rtgate.units import plural
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.gate import run_gate
from rtgate.workflow.kernels import CommitBuilds
from rtgate.workflow.policy import Policy, Screen
from rtgate.workflow.sequential import ComparisonOptions
from rtgate.workflow.suite_process import Batch, SuiteOptions, prepare_suites

MOST_COMMITS = 32
MOST_TRIES = 8  # five find one of 32 where each can be tried
DIRECTORY = "bisect"
_Finding = tuple[Status, Kind, str]
"""Of a verdict: what is said of which measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBadCommit:
    """The first commit that fails.

    Attributes:
        series: the commits of the merge request, the first one first.
        subject: of the last commit that it can be.
        suspects: which commits it can be, from 0 without the last one: several where those between were not tried.
        gates: how many it took to find it.
        skipped: why commits could not be tried, by their place.
        alone: whether the whole passes but for the case that is bisected, and the last good commit passes in that one;
            False where nobody asked.
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
            innocents=tuple(self.series[place] for place in range(first) if self.alone and place not in self.skipped),
            sentence=self.sentence,
        )


def first_bad_range(count: int, is_bad: Callable[[int], bool | None]) -> tuple[range, int]:
    """Return which of `count` commits can be the first bad one, from 0, and how many were tried; the last one is bad.

    It is one, unless `is_bad` returns None for those beside it: they cannot be tried, as for `git bisect skip`. As that
    does not halve what is left, it ends after `MOST_TRIES`, with several. Which of several changes for the worse it is
    where a series has more than one is left to chance.
    """
    good, bad, tries, skips = -1, count - 1, 0, set[int]()
    for _ in range(MOST_TRIES):
        places = [place for place in range(good + 1, bad) if place not in skips]
        if not places:
            break
        middle = min(places, key=lambda place: abs(place - (good + bad) // 2))
        answer = is_bad(middle)
        if answer is None:
            skips.add(middle)
            continue
        tries += 1
        good, bad = (good, middle) if answer else (middle, bad)
    return range(good + 1, bad + 1), tries


def bisect(
    builds: CommitBuilds,
    commits: Commits,
    policy: Policy,
    verdicts: Sequence[Verdict],
    output: Path,
    *,
    votes: bool = False,
) -> FirstBadCommit | None:
    """Return the first commit that fails as the whole merge request does.

    None where it has one commit or very many, where nothing of it failed that the target branch does not fail as well,
    or where the lab fails on the way.

    Args:
        builds: what builds the commits.
        commits: those of the merge request.
        policy: what was measured.
        verdicts: of the whole.
        output: directory of the gates.
        votes: whether the forge votes on each commit: one more gate shows whether those below pass.
    """
    commit_ids = series(builds.tree, commits)
    if not 1 < len(commit_ids) <= MOST_COMMITS:
        return None
    try:
        # A log of theirs would take the place of the one that the answer names.
        attempt = _failure_to_find(replace(builds, logs=None), commits, policy, verdicts, output / DIRECTORY)
        if attempt is None:
            return None
        first_bad = _first_bad(attempt, commit_ids)
        alone = votes and _is_alone(attempt, first_bad, verdicts, allow_unjudged=policy.unproven)
        return replace(first_bad, alone=alone)
    except (ConfigError, InfrastructureError, ChangedError) as error:  # the answer stands without it
        say(f"not bisected: {error}")
        return None


def _first_bad(attempt: _Attempt, commit_ids: tuple[str, ...]) -> FirstBadCommit:
    verdict, skip_reasons = attempt.verdict, dict[int, str]()

    def fails(place: int) -> bool | None:
        try:
            return attempt.fails(commit_ids[place])
        except _Untestable as reason:
            skip_reasons[place] = str(reason)
            return None

    say(f"bisecting {len(commit_ids)} commits for {verdict.case or 'the build'} on {verdict.board}")
    suspects, gates = first_bad_range(len(commit_ids), fails)
    return FirstBadCommit(
        series=commit_ids,
        subject=subject_of(attempt.builds.tree, commit_ids[suspects[-1]]),
        suspects=suspects,
        gates=gates,
        skipped=skip_reasons,
    )


def _is_alone(
    attempt: _Attempt, first_bad: FirstBadCommit, verdicts: Sequence[Verdict], *, allow_unjudged: bool
) -> bool:
    """Return whether the commit below the first bad one passes. Not worse is not good: nothing of it may have run."""
    below = first_bad.suspects.start - 1
    return (
        attempt.verdict.kind is not Kind.BUILD
        and passes_without(verdicts, attempt.is_failure, allow_unjudged=allow_unjudged)
        and below >= 0
        and attempt.passes(first_bad.series[below], allow_unjudged=allow_unjudged)
    )


def passes_without(
    verdicts: Sequence[Verdict], is_bisected: Callable[[Verdict], bool], *, allow_unjudged: bool
) -> bool:
    """Return whether the whole passes where the case that is bisected does: nothing else was measured of a part."""
    passes = (
        replace(verdict, status=Status.PASS, kind=Kind.NO_WORSE) if is_bisected(verdict) else verdict
        for verdict in verdicts
    )
    return exit_code(passes, allow_unjudged=allow_unjudged) == 0


def _failure_to_find(
    builds: CommitBuilds, commits: Commits, policy: Policy, verdicts: Sequence[Verdict], output: Path
) -> _Attempt | None:
    """Return what looks for a failure: what cannot be built first, then what came first.

    What the target branch fails as well, no commit of the series has caused.
    """
    by_board = {**_further_boards(policy), **{screen.board: screen for screen in policy.screens}}
    failures = [verdict for verdict in verdicts if verdict.status is Status.FAIL and verdict.board in by_board]
    of_target: dict[tuple[str, str], frozenset[_Finding]] = {}
    for verdict in sorted(failures, key=lambda failure: failure.kind is not Kind.BUILD):
        attempt = _Attempt(builds, commits.base, by_board[verdict.board], verdict, output, of_target)
        if verdict.kind is Kind.BUILD or attempt.is_failure(verdict):
            return attempt
        say(f"not bisected: the target branch fails {verdict.case} on {verdict.board} as well: {verdict.measurement}")
    return None


def _further_boards(policy: Policy) -> dict[str, Screen]:
    """Return the screens of boards that their profiles measure beside their own, by these boards."""
    return {name: screen for screen in policy.screens for name in profile(screen.profile).further_boards(screen.board)}


class _Untestable(Exception):  # noqa: N818 - it is nobody's mistake: as `git bisect skip`
    """A commit of the series cannot be tried by itself."""


@dataclass(frozen=True)
class _Attempt:
    """Gates of single commits against the same baseline, for one failure.

    Attributes:
        of_target: what was found of the target branch itself, by board and case; attempts for other failures share it.
    """

    builds: CommitBuilds
    base: str
    screen: Screen
    verdict: Verdict
    output: Path
    of_target: dict[tuple[str, str], frozenset[_Finding]]

    def fails(self, commit: str) -> bool:
        """Return whether a commit fails as the whole does: it cannot be built, or the case fails in it.

        Raises:
            _Untestable: it conflicts with the target branch; it does not build, and the whole does; or the case was not
                measured, or not decided.
            InfrastructureError: the lab fails.
        """
        with step(f"is {commit[:12]} good"):
            try:
                kernel = self._build(commit)
            except ConflictError as error:
                raise _Untestable("conflicts with the target branch") from error
            except (BuildError, ConfigError) as error:
                if self.verdict.kind is Kind.BUILD:
                    return True
                raise _Untestable("cannot be built") from error
            return self.verdict.kind is not Kind.BUILD and self._is_worse(commit, kernel)

    @property
    def known_findings(self) -> frozenset[_Finding]:
        """What is said of the target branch itself in the case: its boots were made already, for the review."""
        place = (self.verdict.board, self.verdict.case)
        if place not in self.of_target:
            with step("is the target branch good"):
                verdicts, _ = self._gate("target-branch", self.builds.base(self.screen.build, self.base))
            self.of_target[place] = frozenset(_findings(verdicts))
        return self.of_target[place]

    def is_failure(self, verdict: Verdict) -> bool:
        """Return whether a verdict is a failure of this case, and not one of the target branch as well."""
        is_of_case = (verdict.board, verdict.case) == (self.verdict.board, self.verdict.case)
        return is_of_case and verdict.status is Status.FAIL and _findings([verdict]).isdisjoint(self.known_findings)

    def passes(self, commit: str, *, allow_unjudged: bool) -> bool:
        """Return whether a commit that is not worse passes: its boots are there, and tracing shows what ran in them."""
        with step(f"does {commit[:12]} pass"):
            try:
                verdicts, whole = self._gate(f"{commit[:12]}-traced", self._build(commit), explain=True)
            except (BuildError, ConfigError, InfrastructureError, ChangedError) as error:  # what was found stands
                say(f"whether {commit[:12]} passes is not known: {error}")
                return False
        return whole and exit_code(verdicts, allow_unjudged=allow_unjudged) == 0

    def _build(self, commit: str) -> Path:
        candidate = prepare_merge(self.builds.tree, self.base, commit).candidate
        return self.builds.candidate(self.screen.build, candidate)

    def _is_worse(self, commit: str, kernel: Path) -> bool:
        verdicts, whole = self._gate(commit[:12], kernel)
        new = _findings(verdicts) - self.known_findings
        statuses = {status for status, _, _ in new}
        if Status.FAIL in statuses:
            return True
        if not whole or statuses & {Status.ERROR, Status.MISS}:
            raise _Untestable("was not measured")
        if any(kind is Kind.INCONCLUSIVE for _, kind, _ in new):
            raise _Untestable("is not decided")
        return False

    def _gate(self, name: str, kernel: Path, *, explain: bool = False) -> tuple[list[Verdict], bool]:
        """Gate a kernel in the case, as the review did; return what is said of it, and whether all was measured."""
        output = self.output / name
        output.mkdir(parents=True, exist_ok=True)
        suite_options = SuiteOptions(board=self.screen.board, profile=self.screen.profile)
        arms = {"baseline": self.builds.base(self.screen.build, self.base), "candidate": kernel}
        first = Batch(board=self.verdict.board, cases=(self.verdict.case,))
        outcome = run_gate(
            prepare_suites(suite_options, arms, output),
            ComparisonOptions(budget=Budget(minutes(DEFAULT)), first=first),
            explain=explain,
            sections=self.screen.sections,
        )
        place = (self.verdict.board, self.verdict.case)
        verdicts = [verdict for verdict in outcome.judging.verdicts if (verdict.board, verdict.case) == place]
        return verdicts, outcome.whole


def _findings(verdicts: Sequence[Verdict]) -> set[_Finding]:
    return {(verdict.status, verdict.kind, verdict.measurement) for verdict in verdicts}
