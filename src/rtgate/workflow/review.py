# SPDX-License-Identifier: MIT
"""A merge request from its commits to the answer: merge, build, screen, judge all as one family, report."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate import files, site
from rtgate.board import boards
from rtgate.errors import ChangedError, ConfigError, InfrastructureError
from rtgate.files import scratch
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.build_limits import BuildLimits
from rtgate.kernel.merge import (
    Commits,
    ConflictError,
    changed_files,
    commit_of,
    export,
    merged_by_forge,
    prepare_merge,
    subject_of,
    tracked_file,
)
from rtgate.records import record as records_file
from rtgate.report.note import About, note
from rtgate.report.note_markdown import as_markdown
from rtgate.report.note_text import as_text
from rtgate.report.notices import say
from rtgate.workflow.archive import revocation_notes
from rtgate.workflow.arms import make_root_filesystem
from rtgate.workflow.bisect import bisect
from rtgate.workflow.budget import DEFAULT, Budget, minutes
from rtgate.workflow.conclusion import Ending, finish
from rtgate.workflow.gate import run_gate
from rtgate.workflow.judging import Criteria, Judging, JudgingRequest, judge_run
from rtgate.workflow.kernels import BUILDS, CommitBuilds
from rtgate.workflow.policy import FILE as POLICY
from rtgate.workflow.policy import Policy, Screen, read_policy
from rtgate.workflow.refusal import write_answer
from rtgate.workflow.report_directory import BUILD_LOGS, lock, page_url, replacing, require_report_directory
from rtgate.workflow.review_boards import BoardsRequest, OnBoards, check_lab, measure_on_boards
from rtgate.workflow.review_builds import build_both, build_unbooted, build_verdict
from rtgate.workflow.sequential import ComparisonOptions
from rtgate.workflow.suite_process import SuiteOptions, prepare_suites
from rtgate.workflow.verdict_file import read_verdicts
from rtgate.workflow.verdicts import grounds, lab_verdict
from rtgate.workflow.waivers import waiver_notes

POLICY_DIRECTORY = ".rtgate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """What is reviewed, and where it is left.

    Attributes:
        tree: a clone that has the commits of the merge request.
        output: directory of the report.
        history: URL of the history that gets the records; None for none.
        trusted: whether somebody has read the code, so that its Makefiles may do what this user may.
        kernels: directory of the builds.
        limits: what a build may take: the policy's.
        report_url: where people will find the report, or with a `/` its directory; empty for nowhere.
        votes: whether the forge votes on each commit.
    """

    merge_request: MergeRequest
    tree: Path
    output: Path
    history: str | None = None
    trusted: bool = True
    kernels: Path = BUILDS
    limits: BuildLimits = field(default_factory=BuildLimits)
    report_url: str = ""
    votes: bool = False

    @property
    def criteria(self) -> Criteria:
        """What everything is judged by, beside the files of the target branch."""
        return Criteria(history=self.history)

    @property
    def builds(self) -> CommitBuilds:
        """What builds the commits."""
        return CommitBuilds(self.tree, self.trusted, self.kernels, self.limits, self.output / BUILD_LOGS)


def review(request: ReviewRequest) -> Answer:
    """Review a merge request; return the answer, which is in the report's directory, too.

    What the kernel of the merge request does wrong is in the answer, from a conflict to a regression.

    Raises:
        ConfigError: a commit is missing, or a file of the target branch is wrong.
        InfrastructureError: git fails, or the directory cannot be written.
    """
    output = request.output
    _check_places(request.tree, (output, site.cache(), request.kernels))
    require_report_directory(output)
    with lock(output), _target_branch() as place:
        files.require_free_space(output)
        try:
            commits = _commits(request)
        except ConflictError as error:
            with replacing(output):
                return _conflict(request, str(error))
        with _policy(place, request.tree, commits) as policy, replacing(output):
            request = replace(request, limits=policy.limits)
            _check_criteria(request.criteria)
            check_lab(policy.boards)
            _make_root_filesystems(policy)
            others = [*_screen(request, commits, policy), *build_unbooted(request.builds, policy.builds, commits)]
            on_boards = _on_boards(request, commits, policy, others)
            return _conclude(request, commits, policy, on_boards)


def _check_criteria(criteria: Criteria) -> None:
    """Read limits, waivers and placebos, and open the history: a mistake in them shows now. Raises ConfigError."""
    Judging(criteria)
    try:
        with grounds(criteria.history):
            pass
    except InfrastructureError as error:
        say(str(error))  # it may be back when it is needed


def _check_places(tree: Path, places: Sequence[Path]) -> None:
    """Refuse to keep anything where the clone has files: a merge request may have put them there to be taken for ours.

    Raises ConfigError.
    """
    for place in places:
        name = tracked_file(tree, place)
        if name:
            raise ConfigError(
                f"the clone has {name!r}, where rtgate keeps its own ({place}): if the merge request adds it, it must "
                "not; else name another directory (-o, --kernels, RTGATE_CACHE)"
            )


def _commits(request: ReviewRequest) -> Commits:
    merge_request = request.merge_request
    merge = merged_by_forge if merge_request.merged else prepare_merge
    commits = merge(request.tree, merge_request.base, merge_request.head)
    say(f"baseline {commits.base[:12]}, candidate {commits.candidate[:12]}: {commits.subject}")
    return commits


@contextmanager
def _target_branch() -> Iterator[Path]:
    """Yield a directory that stands for the kernel repository within the block, empty at first.

    The current directory may be a checkout of the merge request: its files are not read, nor are its tools run, not
    even for a merge request that has no base to read from because it conflicts.
    """
    before = os.environ.get("RTGATE_TREE")
    with scratch(Path(tempfile.gettempdir()), "rtgate-target-branch-") as place:
        os.environ["RTGATE_TREE"] = str(place)
        try:
            yield place
        finally:
            if before is None:
                del os.environ["RTGATE_TREE"]
            else:
                os.environ["RTGATE_TREE"] = before


@contextmanager
def _policy(place: Path, tree: Path, commits: Commits) -> Iterator[Policy]:
    """Yield the policy of the target branch, whose boards, limits and profiles are put in place."""
    export(tree, commits.base, POLICY_DIRECTORY, place)
    try:
        policy = read_policy()
        say(f"policy: {_policy_file(place, commits)}")
        yield policy
    except ConfigError as error:  # by the name that people know the file by
        raise ConfigError(str(error).replace(f"{place}/", f"{commits.base[:12]}:")) from error


def _policy_file(place: Path, commits: Commits) -> str:
    paths = site.files(POLICY)
    if not paths:
        return f"rtgate's default, as {commits.base[:12]} has no {POLICY_DIRECTORY}/{POLICY}"
    return str(paths[0]).replace(f"{place}/", f"{commits.base[:12]}:")


def _make_root_filesystems(policy: Policy) -> None:
    """Say before the builds that nothing can be measured, as without a network: what does not build still fails."""
    for name in dict.fromkeys(screen.board for screen in policy.screens):
        try:
            make_root_filesystem(boards.board(name))
        except InfrastructureError as error:
            say(f"nothing can be measured on {name}, kernels are built all the same: {error}")


def _screen(request: ReviewRequest, commits: Commits, policy: Policy) -> Iterator[Verdict]:
    """Measure on every board on virtual time; yield what is said of a board that has no verdicts of its own."""
    for screen in policy.screens:
        try:
            both = build_both(request.builds, screen.build, commits, screen.board)
            yield from [both] if isinstance(both, Verdict) else _measure(request, screen, both)
        except (ConfigError, InfrastructureError) as error:
            if screen is policy.screens[0]:
                raise
            say(f"{screen.board}: not measured: {error}")  # and what was measured before stands
            yield lab_verdict(f"not measured: {error}", screen.board)
        except ChangedError as error:
            if screen is policy.screens[0]:
                raise
            say(f"{screen.board}: {error}")
            yield replace(lab_verdict(str(error), screen.board), status=Status.ERROR, kind=Kind.VALIDITY)


def _measure(request: ReviewRequest, screen: Screen, images: dict[str, Path]) -> Iterator[Verdict]:
    suite_options = SuiteOptions(board=screen.board, profile=screen.profile, select=screen.select)
    problem = ""
    try:
        suites = replace(
            prepare_suites(suite_options, images, request.output, request.criteria), remedy=f"--tree {request.tree}"
        )
        options = ComparisonOptions(budget=Budget(minutes(DEFAULT)))
        if not run_gate(suites, options, explain=True, sections=screen.sections).whole:
            problem = f"not everything was measured: see {request.output.name}/measure.log"
    except InfrastructureError as error:
        problem = f"not measured: {error}"
    if problem:
        say(problem)
        yield lab_verdict(problem, screen.board)


def _on_boards(request: ReviewRequest, commits: Commits, policy: Policy, others: Sequence[Verdict]) -> OnBoards:
    """Measure in the lab what the screen asks for."""
    records = request.output / "records"
    records.mkdir(exist_ok=True)
    if not policy.boards:
        return OnBoards(verdicts=[*others])
    screen_verdicts = judge_run(JudgingRequest(records=records, criteria=request.criteria)).verdicts
    merge_request = request.merge_request
    boards_request = BoardsRequest(
        entries=policy.boards,
        builds=request.builds,
        commits=commits,
        merge_request=merge_request.url or merge_request.name,
        output=request.output,
        criteria=request.criteria,
    )
    on_boards = measure_on_boards(boards_request, [*screen_verdicts, *others])
    on_boards.verdicts += others
    return on_boards


def _conclude(request: ReviewRequest, commits: Commits, policy: Policy, on_boards: OnBoards) -> Answer:
    """Judge everything together, write report and answer."""
    output, records = request.output, request.output / "records"
    judging = judge_run(
        JudgingRequest(records=records, criteria=request.criteria, cases=on_boards.cases, arms=on_boards.arms)
    )
    judging.verdicts += on_boards.verdicts
    judging.write(output / "verdict.json", records)
    ending = Ending(
        whole=judging.is_complete, allow_unjudged=policy.unproven, history=request.history, waivers=judging.waivers
    )
    code = finish(output, judging.verdicts, ending)
    verdicts, _ = read_verdicts(output / "verdict.json", records)  # with what went wrong while reporting
    boots = list(records_file.read_all(records))
    about = replace(
        _about(request, commits),
        remarks=(*waiver_notes(verdicts, judging.waivers, boots), *revocation_notes(request.history, boots)),
    )
    answer = _answer(output, about, verdicts, code)  # before a bisection, which somebody may interrupt
    guilty = bisect(request.builds, commits, policy, verdicts, output, votes=request.votes) if code == 1 else None
    if guilty is None:
        return answer
    full_answer = _answer(output, replace(about, first_bad=guilty.sentence), verdicts, code)
    return replace(full_answer, blame=guilty.blame)


def _conflict(request: ReviewRequest, sentence: str) -> Answer:
    """Answer a merge request that does not merge: nothing was built or measured."""
    verdict = build_verdict("", Status.FAIL, sentence, Kind.MERGE)
    output, merge_request = request.output, request.merge_request
    (output / "records").mkdir(exist_ok=True)
    judging = judge_run(JudgingRequest(records=output / "records"))
    judging.verdicts.append(verdict)
    judging.write(output / "verdict.json", output / "records")
    code = finish(output, judging.verdicts, Ending(whole=True, page=False))
    head = commit_of(request.tree, merge_request.head)
    about = About(
        base=commit_of(request.tree, merge_request.base),
        candidate=head,
        subject=subject_of(request.tree, head),
        name=merge_request.name,
        title=merge_request.title,
        target=merge_request.target,
    )
    return _answer(output, about, [verdict], code)


def _about(request: ReviewRequest, commits: Commits) -> About:
    merge_request = request.merge_request
    series = merge_request.series
    proposed = f"--series {shlex.quote(series)}" if series else f"--head {commits.head[:12]}"
    # Who copies the line runs foreign Makefiles, as this review did.
    confined = "" if request.trusted else " --untrusted"
    again = f"rtgate review --tree . --base {commits.base[:12]} {proposed}{confined}"
    return About(
        base=commits.base,
        candidate=commits.candidate,
        subject=commits.subject,
        name=merge_request.name,
        title=merge_request.title,
        target=merge_request.target,
        edits=tuple(changed_files(request.tree, commits, POLICY_DIRECTORY)),
        reproduce=(merge_request.fetch, again) if merge_request.fetch else (again,),
        report=page_url(request.report_url, request.output),
    )


def _answer(output: Path, about: About, verdicts: Sequence[Verdict], code: int) -> Answer:
    review_note = note(about, list(records_file.read_all(output / "records")), verdicts, code)
    answer = Answer(exit_code=code, markdown=as_markdown(review_note), text=as_text(review_note))
    write_answer(answer, output)
    return answer
