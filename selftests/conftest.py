# SPDX-License-Identifier: MIT
"""What all self-tests share: deadlines, golden files, and Hypothesis without a clock."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from selftests.examples import USUAL

from rtgate.report import notices

GOLDEN = Path(__file__).with_name("golden")
Golden = Callable[[str, str], None]
COUNTS = "counts"
"""The property of a test that has counted something: what it was, which the end of the run says."""
_WORTH_A_TABLE_S = 20
DEADLINE_S = 1800.0
"""Of a test, with what its fixtures do. `pytest --timeout=S` sets another one, 0 none."""
BUILDING_S = 10800.0
"""Of one whose fixtures build kernels: three of them, each up to 40 minutes on a slow machine, or a lab and two."""
_BUILDING = tuple(GOLDEN.with_name(part) for part in ("integration", "lab"))
_FILES = 15

# A shell that starts `make test &` has Ctrl-C ignored in it, and tests that interrupt something would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests are about boots that are made; those of boots that were made before unset it.
os.environ["RTGATE_KEEP_BOOTS"] = "no"
# Output that is compared must not hang on how busy the machine is. Programs that tests start remind all the same.
notices.SILENCE_S = 3600.0
# pytester takes out of sys.modules what a run of its own brought there, and numpy cannot be loaded a second time.
assert np
# No deadline: another program on the machine must not fail a test. In CI the same examples every time: a merge request
# is not to blame for what chance finds. `make test-all` looks further than `make test` does, and `deep` further still.
_SAME = "RTGATE_CI_RUN" in os.environ
settings.register_profile("rtgate", deadline=None, derandomize=_SAME, max_examples=USUAL)
settings.register_profile("thorough", deadline=None, derandomize=_SAME, max_examples=100)
settings.register_profile("deep", deadline=None, max_examples=3000)
settings.load_profile("rtgate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew; review the difference")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among modules and test items, which all stay: it took a fifth of the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its deadline, and refuse a long one that does not say why. Raises pytest.UsageError."""
    for item in items:
        if item.config.getoption("timeout") is None and item.get_closest_marker("timeout") is None:
            builds = any(item.path.is_relative_to(part) for part in _BUILDING)
            item.add_marker(pytest.mark.timeout(BUILDING_S if builds else DEADLINE_S))
        for mark in item.iter_markers("long"):
            if not (len(mark.args) == 1 and isinstance(mark.args[0], str) and mark.args[0].strip()):
                raise pytest.UsageError(f'{item.nodeid}: pytest.mark.long needs a reason: long("why, in one line")')


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what tests have counted, and in which files the time went, when it was more than a moment."""
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    for report in reports:
        if report.when == "call" and COUNTS in dict(report.user_properties):
            terminalreporter.write_line(f"{report.nodeid}: {dict(report.user_properties)[COUNTS]}")
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        seconds[report.nodeid.split("::")[0]] += report.duration
    total = sum(seconds.values())
    if total < _WORTH_A_TABLE_S:
        return
    terminalreporter.section("where the time went")
    for name, spent in sorted(seconds.items(), key=lambda item: -item[1])[:_FILES]:
        terminalreporter.write_line(f"{spent:7.0f} s  {100 * spent / total:3.0f} %  {name}")
    terminalreporter.write_line(f"{total:7.0f} s  in all, of every worker")


@pytest.fixture(autouse=True)
def _no_site_of_another_test() -> Iterator[None]:
    """Undo what `rtgate --site` does: a process keeps the directory in RTGATE_SITE, and here all tests are one."""
    before = os.environ.get("RTGATE_SITE")
    yield
    if before is None:
        os.environ.pop("RTGATE_SITE", None)
    else:
        os.environ["RTGATE_SITE"] = before


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the golden file of a name, or write it there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: make it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: pytest --update-golden, then review"

    return compare
