# SPDX-License-Identifier: MIT
"""The part of a review that boards of a LAVA lab do: jobs for what the screen could not decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board import boards
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.patience import Patience
from rtgate.judge.compare.procedures import INTERLEAVED
from rtgate.judge.compare.triage import Choice, fatal_verdicts
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.merge import Commits
from rtgate.lava.client import devices
from rtgate.lava.client.access import TOKEN_FILE, URL, access, is_named
from rtgate.lava.client.server import Lava
from rtgate.lava.client.waiting import QUEUE_S, RETRIES
from rtgate.measure.case import Case
from rtgate.measure.profiles import profile
from rtgate.report.notices import say, step
from rtgate.workflow import suites
from rtgate.workflow.budget import Budget
from rtgate.workflow.case_selection import Wish, select_cases
from rtgate.workflow.job_files import NamedFiles, source
from rtgate.workflow.job_results import of_jobs
from rtgate.workflow.job_series import carry_out
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.job_writer import JobOptions
from rtgate.workflow.judging import Criteria
from rtgate.workflow.kernels import CommitBuilds, find_description
from rtgate.workflow.lab_jobs import REVIEW, cancel_former
from rtgate.workflow.policy import FILE, LabBoard
from rtgate.workflow.review_builds import build_both, build_verdict
from rtgate.workflow.submission import Submission, prepare_series
from rtgate.workflow.verdicts import lab_verdict

_PAIRS = INTERLEAVED.looks.steps[0][0]
_PATIENCE = Patience(connect=5.0, answer=10.0, total=2.0)  # the lab is asked again after the screen
_ARMS = ("baseline", "candidate")
_NO_LAB = f"this review has no lab ({URL} is not set); one that a member starts by `/rtgate run` may have"


@dataclass(slots=True)
class OnBoards:
    """What boards of the lab had to measure, and what is to be said of their jobs."""

    cases: dict[str, list[str]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def arms(self) -> Mapping[str, Collection[str]]:
        """The kernels that were to be measured, by board."""
        return dict.fromkeys(self.cases, _ARMS)


def check_lab(entries: Sequence[LabBoard]) -> None:
    """Find out before an hour of building and measuring that no lab would take a job. Raises ConfigError.

    A review may have no lab at all, as that of code which no member has read: then no board is asked. One that is away
    may be back after the screen.
    """
    if entries and not is_named():
        say(f"no board is asked ({', '.join(entry.board for entry in entries)}): {_NO_LAB}")
    elif entries and access().token is None:
        raise ConfigError(
            f"the policy names boards of a lab ({', '.join(entry.board for entry in entries)}), and there is no token "
            f"for {access().url}: set {URL} and {TOKEN_FILE}"
        )
    for entry in entries:
        suites.directories(entry.suites)
        boot_minutes = _wish(entry).booting
        if not entry.all_cases and entry.budget <= boot_minutes:
            raise ConfigError(
                f"{FILE}: the boots of {entry.board} alone take {boot_minutes:.0f} min: give it a larger budget"
            )
        if is_named():
            _look(entry)


def _look(entry: LabBoard) -> None:
    """Ask the lab whether it has what an entry names. Raises ConfigError."""
    board = boards.board(entry.board)
    assert board.lava  # the policy was read
    try:
        devices.look(Lava(access(), _PATIENCE), board.lava.device_type, entry.tags)
    except InfrastructureError as error:
        say(f"{entry.board}: {error}; the lab is asked again after the screen")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardsRequest:
    """What boards are asked for.

    Attributes:
        entries: of the policy.
        builds: makes their kernels.
        commits: what is compared.
        merge_request: names it in the metadata of jobs; empty for plain commits.
        output: the report's directory, which gets records and logs.
        criteria: what decides whether more is measured.
    """

    entries: Sequence[LabBoard]
    builds: CommitBuilds
    commits: Commits
    merge_request: str
    output: Path
    criteria: Criteria = field(default_factory=Criteria)


def measure_on_boards(request: BoardsRequest, screen_verdicts: Sequence[Verdict]) -> OnBoards:
    """Measure both kernels on each board, one board after the other.

    What former reviews of the merge request have left in the lab is cancelled first. A board that cannot be measured is
    a MISS, whoever must act: what the screen said stands.

    Args:
        request: what is asked for.
        screen_verdicts: what the screen on virtual time said, and of builds. A kernel that dies there, or cannot be
            built, is not sent to any board.
    """
    on_boards = OnBoards()
    if request.entries and request.merge_request and is_named():
        _cancel_former(request.merge_request)
    unfit = [*(verdict for verdict in screen_verdicts if verdict.kind is Kind.BUILD), *fatal_verdicts(screen_verdicts)]
    if request.entries and unfit:
        say(f"no board is asked: {unfit[0].sentence.partition(chr(10))[0]}")
        return on_boards
    for entry in request.entries:
        try:
            _measure_on_board(request, entry, screen_verdicts, on_boards)
        except (ConfigError, InfrastructureError) as error:
            say(f"{entry.board}: not measured: {error}")
            on_boards.verdicts.append(lab_verdict(f"not measured: {error}", entry.board))
    return on_boards


def _cancel_former(merge_request: str) -> None:
    """End what former reviews have left in the lab, if it answers: their jobs hold the boards up."""
    try:
        cancel_former(Lava(access(), notify=say), merge_request)
    except (ConfigError, InfrastructureError) as error:
        say(f"jobs of a former review may go on: {error}")


def _measure_on_board(
    request: BoardsRequest, entry: LabBoard, screen_verdicts: Sequence[Verdict], on_boards: OnBoards
) -> None:
    cases, left_open = _cases(entry, screen_verdicts)
    on_boards.verdicts += left_open
    if not cases:
        if not left_open:
            say(f"{entry.board}: the screen leaves nothing to measure")
        return
    if not is_named():
        on_boards.verdicts.append(_not_asked(entry))
        return
    both = build_both(request.builds, entry.build, request.commits, entry.board)
    if isinstance(both, Verdict):
        on_boards.verdicts.append(both)
        return
    lack = _lack(entry, cases, both)
    if lack is not None:
        on_boards.verdicts.append(lack)
        return
    on_boards.cases[entry.board] = [case.name for case in cases]
    on_boards.verdicts += _measure(request, entry, cases, both)


def _lack(entry: LabBoard, cases: Sequence[Case], both: Mapping[str, Path]) -> Verdict | None:
    """Return that the candidate lost what the board boots, such as its device tree.

    None where it has all, and where the baseline has not either.

    Raises:
        InfrastructureError: a program is missing on this machine.
    """
    board = boards.board(entry.board)
    with ExitStack() as stack:
        try:
            source(board, NamedFiles(kernel=str(both["baseline"])), None, stack, cases)
        except (ConfigError, InfrastructureError):  # is said when the job is prepared
            return None
        try:
            source(board, NamedFiles(kernel=str(both["candidate"])), None, stack, cases)
        except ConfigError as error:
            return build_verdict(entry.board, Status.FAIL, f"{entry.board} cannot boot the candidate: {error}")
    return None


def _not_asked(entry: LabBoard) -> Verdict:
    """Return that a board's part is open: what the screen said stands, and is no PASS of the whole."""
    return _open(entry, f"not asked: {_NO_LAB}")


def _does_not_fit(entry: LabBoard, choice: Choice) -> Verdict:
    """Return that a case which should be measured is open."""
    sentence = (
        f"not measured ({choice.reason.value}): its {choice.minutes:.1f} board-minutes do not fit `budget` of "
        f"{entry.board} in {FILE} ({entry.budget:.0f} min): give it a larger one"
    )
    return _open(entry, sentence, choice.case)


def _cannot_answer(entry: LabBoard, choice: Choice, why: str) -> Verdict:
    """Return that a case which the screen left open stays so: the board cannot measure it."""
    return _open(entry, f"not measured ({choice.reason.value}): {entry.board} cannot answer it: {why}", choice.case)


def _open(entry: LabBoard, sentence: str, case: str = "") -> Verdict:
    return Verdict(
        status=Status.DONE,
        kind=Kind.INCONCLUSIVE,
        sentence=sentence,
        board=entry.board,
        arm="",
        flavour="",
        case=case,
    )


def _wish(entry: LabBoard) -> Wish:
    return Wish(
        board=boards.board(entry.board),
        flavour=find_description(entry.build).flavour,
        profile=entry.profile,
        suites=entry.suites,
        pairs=_PAIRS,
        budget=entry.budget,
    )


def _cases(entry: LabBoard, screen_verdicts: Sequence[Verdict]) -> tuple[tuple[Case, ...], list[Verdict]]:
    """Return what a board measures, and what is said of cases that it should measure and cannot, or has no time for."""
    if entry.all_cases:
        cases = suites.cases(entry.suites, entry.profile, "default", board=entry.board)
        _say_costs(entry, cases)
        return cases, []
    selection = select_cases(screen_verdicts, _wish(entry))
    surplus = len(selection.choices) - len(selection.cases)
    more = f", {surplus} more do not fit its budget of {entry.budget:.0f} min" if surplus else ""
    say(f"{entry.board} measures {', '.join(case.name for case in selection.cases) or 'nothing'}{more}")
    unanswered = [_cannot_answer(entry, choice, selection.excluded[choice.case]) for choice in selection.unanswered]
    return selection.cases, [*(_does_not_fit(entry, choice) for choice in selection.short), *unanswered]


def _say_costs(entry: LabBoard, cases: Sequence[Case]) -> None:
    """Say that all cases take more than the budget, if so: they are asked for, and the budget bounds what follows."""
    lengths = profile(entry.profile, entry.board)
    cost = _wish(entry).minutes(*(lengths.of(case.tool.name, case.suite, case.load).duration_s for case in cases))
    if cost > entry.budget:
        say(
            f"{entry.board}: `cases: all` takes {cost:.0f} min for the first {_PAIRS} pairs of boots; its budget of "
            f"{entry.budget:.0f} min allows no more after them"
        )


def _measure(
    request: BoardsRequest, entry: LabBoard, cases: tuple[Case, ...], both: Mapping[str, Path]
) -> list[Verdict]:
    origin = (f"{REVIEW}={request.merge_request}",) if request.merge_request else ()
    submission = Submission(
        board=boards.board(entry.board),
        kernels={arm: NamedFiles(kernel=str(directory)) for arm, directory in both.items()},
        cases=cases,
        profile=entry.profile,
        in_looks=True,
        options=JobOptions(queue_s=QUEUE_S, retries=RETRIES, some_cases=True, metadata=origin),
        budget=Budget(entry.budget, setting=f"`budget: {{}}` of {entry.board} in {FILE}"),
        criteria=replace(request.criteria, boards=len(request.entries)),
        tags=entry.tags,
    )
    with ExitStack() as stack, step(f"measuring on {entry.board}"):
        return of_jobs(carry_out(prepare_series(submission, JobWatch(), stack), request.output))
