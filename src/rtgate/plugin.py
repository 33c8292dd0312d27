# SPDX-License-Identifier: MIT
"""rtgate's pytest plugin: `pytest tests --board B --kernel DIR` measures and judges, `--replay DIR` judges again.

A test says what to measure and nothing about boards, kernels, seeds or limits::

    @cases(Cyclictest(), "idle", "hackbench")
    def test_cyclictest(measure: Measure) -> None:
        measure()
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Generator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import allure
import pytest

from rtgate.board.boot import ArmName
from rtgate.cli import suite_options
from rtgate.cli.suite_cases import CaseMark, Offers, case_mark, offered_cases, selected_cases
from rtgate.cli.suite_runs import MeasuredRun, StoredRun
from rtgate.errors import ChangedError, ConfigError, InfrastructureError, Interrupted, RtgateError
from rtgate.judge.verdict import Kind, Status, Verdict, worst
from rtgate.lava.job import cases as cases_file
from rtgate.measure.case import Case
from rtgate.measure.run import Run
from rtgate.records.record import Record, read_all
from rtgate.report import junit
from rtgate.report.progress import Progress
from rtgate.report.text import plain_text
from rtgate.tools import Tool, registry

if TYPE_CHECKING:
    from rtgate.workflow.judging import Judging

Measure = Callable[[], None]


def cases(tool: Tool | str, *loads: str, named: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Make a test item of a tool under each load; its `measure` fixture measures and judges that case.

    Args:
        tool: with its options; or the name of a tool with its usual ones, for one that no package has.
        loads: under each of which it is measured.
        named: loads for profiles that name them: no other measures under them.

    Raises:
        ConfigError: no tool has this name, or its file is wrong.
    """
    instance = registry.tool(tool)() if isinstance(tool, str) else tool
    marks = [*(CaseMark(instance, load) for load in loads), *(CaseMark(instance, load, named=True) for load in named)]
    return pytest.mark.parametrize("measure", marks, ids=[mark.load for mark in marks], indirect=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add rtgate's options."""
    suite_options.add(parser)


class Session:
    """What all test items of one pytest session share."""

    def __init__(self, config: pytest.Config) -> None:
        self.cases: dict[str, Case] = {}
        self.boards: dict[str, frozenset[str | None]] = {}
        self.compared: tuple[Verdict, ...] = ()
        self.silent: list[Verdict] = []
        self.failure = ""
        self.judging = None if config.getoption("--no-judge") else _judging(config)
        self.source = _source(config)

    def judge(self, judging: Judging, case: Case, records: tuple[Record, ...]) -> list[Verdict]:
        """Judge the case on each board."""
        neighbours = self.source.neighbours(dict.fromkeys(entry.name for entry in self.cases.values()))
        missing = partial(self.source.missing, case)
        return judging.case(case.name, records, self._arms(case, records), missing, neighbours)

    def note(self, verdict: Verdict) -> None:
        """Keep a verdict that no record shows."""
        if self.judging is not None:
            self.judging.verdicts.append(verdict)

    def _arms(self, case: Case, records: tuple[Record, ...]) -> dict[str, set[str]]:
        """Return the arms by board, of boards on which a case is measured."""
        by_board = self.source.arms()
        boards = {record.board for record in records} | self.boards.get(case.name, by_board.keys())
        return {board: arms for board, arms in by_board.items() if board in boards}


def _source(config: pytest.Config) -> MeasuredRun | StoredRun:
    board, replay = config.getoption("--board"), config.getoption("--replay")
    if replay:
        return StoredRun.of(replay, board, config.getoption("--tuning"))
    if board:
        records = Path(config.getoption("--records")).absolute()
        run = suite_options.run(config, board, records)
        return MeasuredRun(run=run, board=board, judged=not config.getoption("--no-judge"))
    raise ConfigError("suites need a board: --board NAME --kernel DIR, or stored records: --replay DIR")


def _judging(config: pytest.Config) -> Judging:
    from rtgate.workflow.judging import Judging  # noqa: PLC0415 - half a second to load; a gate judges by itself
    from rtgate.workflow.verdicts import grounds  # noqa: PLC0415

    criteria = suite_options.criteria(config)
    with grounds(criteria.history):  # a wrong one shows now, and not when everything is measured
        return Judging(criteria)


_SESSION = pytest.StashKey[Session]()
_PROGRESS = pytest.StashKey[Progress]()


def pytest_configure(config: pytest.Config) -> None:
    """Turn SIGTERM into the same orderly end as Ctrl-C."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        # When a parent is killed, the kernel sends it once for each of its threads (`die_with_parent`). A second one
        # would interrupt the orderly end, and every boot that waits for its turn would still be measured.
        signal.signal(number, lambda *_: None)
        session = config.stash.get(_SESSION, None)
        if session:
            session.source.stop()
        raise KeyboardInterrupt

    if config.getoption("--board") or config.getoption("--replay"):
        signal.signal(signal.SIGTERM, stop)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Prepare the session for what is left after -k, before the first item runs: a wrong option ends it at once."""
    collected = list(items)
    result = yield
    _prepare(config, items, collected)
    return result


def _prepare(config: pytest.Config, items: list[pytest.Item], collected: Sequence[pytest.Item]) -> None:
    cases_path = config.getoption("--cases")
    if (config.option.collectonly and not cases_path) or not any(case_mark(item) for item in items):
        return
    every = list(items)
    try:
        session = None if config.option.collectonly else Session(config)
        boards = session.source.boards if session else (config.getoption("--board"),)
        offers = Offers.of(config, session.source.profile if session else suite_options.PROFILE, boards)
        cases = selected_cases(config, items, offers)
        offered = {case.name for case in offered_cases(collected, offers, config.getoption("--tuning")).values()}
        boots = session.source.prepare(cases.values(), offered) if session else 0
    except RtgateError as error:
        pytest.exit(str(error), returncode=_returncode(error))
    if cases_path:
        cases_file.write(cases.values(), Path(cases_path))
    if session is None:
        return
    config.stash[_SESSION], source = session, session.source
    session.cases = cases
    session.boards = {cases[item.nodeid].name: offers.boards(item) for item in items if item.nodeid in cases}
    if isinstance(source, MeasuredRun) and config.getoption("--tell-placebos"):
        _tell_placebos(config, every, source.run, cases.values())
    config.stash[_PROGRESS] = Progress(total=boots, workers=source.workers)


def _returncode(error: RtgateError) -> int:
    """Return pytest's exit code of an error: 4 for wrong usage, 3 for what rtgate or the lab could not do."""
    return 4 if error.exit_code == 2 else 3


def _tell_placebos(config: pytest.Config, items: Sequence[pytest.Item], run: Run, cases: Collection[Case]) -> None:
    """Say of every board that the gate measures what is known of harmless changes, and what it does without."""
    baseline = next((arm for arm in run.arms if arm.name == ArmName.BASELINE and arm.virtual_time), None)
    if baseline is None:
        return
    by_board: dict[str, Collection[Case]] = {baseline.board.name: cases}
    for name in config.getoption("--also-tell"):
        offers = Offers.of(config, suite_options.PROFILE, (name,))
        by_board[name] = offered_cases(items, offers, config.getoption("--tuning")).values()
    from rtgate.workflow.placebo_notice import tell  # noqa: PLC0415 - as `_judging`

    tell(baseline, by_board, config.getoption("--tell-placebos"))


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Measure:
    """Measure the item's case on the session's board, and judge it: the test fails with one sentence."""
    if case_mark(request.node) is None:
        pytest.fail("a test that measures says what with @cases(TOOL, LOAD, ...)", pytrace=False)
    session = request.config.stash[_SESSION]
    progress = request.config.stash[_PROGRESS]
    case = session.cases[request.node.nodeid]
    # By this label what --alluredir got of the test is found and replaced when everything is judged.
    allure.dynamic.label("rtgate", case.name)  # type: ignore[no-untyped-call]
    capture: Any = request.config.pluginmanager.get_plugin("capturemanager")

    def now() -> None:
        with capture.global_and_fixture_disabled():
            records = _records(session, case, progress)
        if session.judging is not None:
            _conclude(session.judge(session.judging, case, records))

    return now


def _records(session: Session, case: Case, progress: Progress) -> tuple[Record, ...]:
    try:
        return session.source.records_of(case, progress)
    except ChangedError as error:
        session.note(_verdict(Status.ERROR, Kind.VALIDITY, str(error), case.name))
        pytest.exit(plain_text(str(error)), returncode=ChangedError.suites_code)
    except Interrupted as error:
        # Python loses an exception that a signal raises in a destructor, for example: boots say it again.
        raise KeyboardInterrupt from error
    except InfrastructureError as error:
        session.note(_verdict(Status.MISS, Kind.LAB, str(error), case.name))
        pytest.fail(f"MISS: {plain_text(str(error))}", pytrace=False)


def _conclude(verdicts: list[Verdict]) -> None:
    status = worst(verdicts)
    sentences = [
        f"{verdict.status.value}: {plain_text(verdict.full_sentence)}"
        for verdict in verdicts
        if verdict.status is status
    ]
    if status in {Status.FAIL, Status.ERROR, Status.MISS}:
        pytest.fail("\n".join(sentences), pytrace=False)
    if status is Status.SKIP:
        pytest.skip("; ".join(sentences))


@pytest.hookimpl(trylast=True)  # pytest's own JUnit is written by then
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write verdict.json. A case that was selected and said nothing is an ERROR there."""
    ours = session.config.stash.get(_SESSION, None)
    if ours is None:
        return
    ours.source.close()
    if ours.judging is not None:
        try:
            _judge_session(session, ours, ours.judging)
        except RtgateError as error:
            ours.failure = f"{plain_text(str(error))}\nThe records are kept: rtgate judge {ours.source.records}"
            session.exitstatus = _returncode(error)
    # What is left takes no second, and an interrupt would end it with a traceback: pytest catches none in its summary.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _judge_session(session: pytest.Session, ours: Session, judging: Judging) -> None:
    ours.compared = judging.compare()
    judged_cases = {verdict.case for verdict in judging.verdicts}
    ours.silent = [
        _verdict(Status.ERROR, Kind.MISSING, "the test ended without a verdict: see its own output", case.name)
        for case in ours.cases.values()
        if case.name not in judged_cases
    ]
    judging.verdicts += ours.silent
    path = Path(session.config.getoption("--verdict") or ours.source.records / "verdict.json")
    judging.write(path, ours.source.records)
    judging.write_ending(path, whole=judging.is_complete and not ours.silent)
    _write_allure(session.config, ours, judging.verdicts)
    if ours.compared and (own := session.config.getoption("xmlpath", None)):
        junit.add(ours.compared, Path(os.path.expandvars(own)).expanduser())  # as pytest reads it
    bad = {Status.FAIL, Status.ERROR, Status.MISS}  # as for a test of its own; the others have failed theirs
    untold = (*ours.compared, *ours.silent)
    if session.exitstatus == pytest.ExitCode.OK and any(verdict.status in bad for verdict in untold):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _write_allure(config: pytest.Config, ours: Session, verdicts: Sequence[Verdict]) -> None:
    """Write what `rtgate gate` writes to the directory of --alluredir, which is allure-pytest's option."""
    directory = config.getoption("allure_report_dir", None)
    if not directory:
        return
    from rtgate.report import allure as results  # noqa: PLC0415 - only with that option

    names = {case.name for case in ours.cases.values()}
    records = [
        record
        for record in read_all(ours.source.records)
        if record.case in names and ours.source.board in (None, "", record.board)
    ]
    results.write(records, verdicts, Path(directory), fresh=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what no test says: the comparison, which is about all cases together, and what was not measured."""
    ours = config.stash.get(_SESSION, None)
    if ours is None:
        return
    if ours.failure:
        terminalreporter.section("not judged to the end")
        terminalreporter.line(ours.failure)
    for title, verdicts in (("comparison with the baseline", ours.compared), ("not measured", ours.silent)):
        if verdicts:
            terminalreporter.section(title)
        for verdict in verdicts:
            terminalreporter.line(f"{verdict.status.value} {verdict.case}: {plain_text(verdict.full_sentence)}")


def _verdict(status: Status, kind: Kind, sentence: str, case: str) -> Verdict:
    return Verdict(status=status, kind=kind, sentence=sentence, board="", arm="", flavour="", case=case)
